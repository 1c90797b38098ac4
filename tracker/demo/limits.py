"""The Hub's rate limit: a fixed window for each bucket and each caller, told in two headers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

UNLIMITED = 1_000_000_000
# Buckets, as the Hub names them.
API, RESOLVERS, PAGES = "api", "resolvers", "pages"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a caller has left after a request: ``seconds`` until the window ends."""

    bucket: str
    quota: int
    window: int
    left: int
    seconds: int
    granted: bool

    @property
    def headers(self) -> dict[str, str]:
        """``RateLimit`` and ``RateLimit-Policy``, which every answer carries."""
        return {
            "RateLimit": f'"{self.bucket}";r={self.left};t={self.seconds}',
            "RateLimit-Policy": f'"fixed window";"{self.bucket}";q={self.quota};w={self.window}',
        }


@dataclass(slots=True)
class RateLimiter:
    """Counts requests. ``quota`` and ``window`` (seconds) may be altered while it runs.

    A window begins with the first request made after the last one ended.
    """

    clock: Callable[[], float]
    quota: dict[str, int] = field(default_factory=dict)
    window: int = 300
    _windows: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, bucket: str, caller: str) -> Allowance:
        """Count one request; not granted when the window is spent."""
        quota = self.quota.get(bucket, UNLIMITED)
        now = self.clock()
        with self._lock:
            start, used = self._windows.get((bucket, caller), (now, 0))
            if now >= start + self.window:
                start, used = now, 0
            granted = used < quota
            used += granted
            self._windows[bucket, caller] = (start, used)
        seconds = max(1, math.ceil(start + self.window - now))
        return Allowance(bucket, quota, self.window, max(0, quota - used), seconds, granted)

    def reset(self) -> None:
        """Begin all windows anew."""
        with self._lock:
            self._windows.clear()
