"""How much one client may ask in a minute, kept in memory for as many clients as fit."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

_CLIENTS = 10_000
"""Clients remembered; the one longest unseen is forgotten first."""


class Limiter:
    """Lets each client ask ``per_minute`` times, at once or spread out (a token bucket). Shared by threads."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = per_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Count one request; returns 0, or in how many seconds the next one is allowed."""
        now = self._clock()
        with self._lock:
            left, seen = self._left.pop(client, (float(self._most), now))
            left = min(float(self._most), left + (now - seen) * self._most / 60)
            allowed = left >= 1
            self._left[client] = (left - 1 if allowed else left, now)
            while len(self._left) > _CLIENTS:
                self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self._most
