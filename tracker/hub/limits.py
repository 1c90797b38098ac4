"""What the Hub says about its limits, as data: budgets left, and how long to keep away. Pure.

Every response carries ``RateLimit: "api";r=499;t=295`` (requests left, seconds to the end of the window) and
``RateLimit-Policy: "fixed window";"api";q=500;w=300``. A 429 may add ``Retry-After``, in seconds or as an HTTP
date. The library's own parser reads only the seconds, and only the first budget; here both headers count, and
the longer wait wins. Nothing in a header makes these functions raise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

DEFAULT_PAUSE_S = 60.0
"""Pause after a 429 that names no time."""
MAX_PAUSE_S = 86_400.0
"""Longest pause that a header can ask for: a day, so that a wrong number cannot stop the watch for good."""
MAX_HEADER = 2_000
"""Characters of a header that are read."""

_BUDGET = re.compile(r'"([\w-]{1,40})"\s*;\s*r\s*=\s*(\d{1,12})\s*;\s*t\s*=\s*(\d{1,12})', re.ASCII)
_SECONDS = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)
_POLICY = re.compile(r'"([\w-]{1,40})"\s*;\s*q\s*=\s*(\d{1,12})\s*;\s*w\s*=\s*(\d{1,12})', re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One quota of the Hub (``api``, ``resolvers``) as its last answer told it.

    ``limit`` (requests) and ``window_s`` (seconds) are None when the policy header did not come along.
    """

    name: str
    remaining: int
    resets_at: datetime
    limit: int | None = None
    window_s: int | None = None

    def wait(self, now: datetime) -> float:
        """Seconds until a request may be sent: 0 unless the window is spent."""
        return max(0.0, (self.resets_at - now).total_seconds()) if self.remaining == 0 else 0.0


def parse_budgets(headers: Mapping[str, str], now: datetime) -> tuple[Budget, ...]:
    """The budgets named in ``RateLimit``, completed by ``RateLimit-Policy``; empty when there are none.

    Args:
        headers: Response headers, found whatever their case.
        now: When the answer came; windows end at ``now`` plus ``t``, at most a day later.

    """
    policies = {name: (int(q), int(w)) for name, q, w in _POLICY.findall(_header(headers, "ratelimit-policy"))}
    budgets = []
    for name, remaining, seconds in _BUDGET.findall(_header(headers, "ratelimit")):
        limit, window = policies.get(name, (None, None))
        resets_at = now + timedelta(seconds=min(float(seconds), MAX_PAUSE_S))
        budgets.append(
            Budget(name=name, remaining=int(remaining), resets_at=resets_at, limit=limit, window_s=window)
        )
    return tuple(budgets)


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Seconds that a ``Retry-After`` value asks for: a number or an HTTP date; None when it is neither."""
    text = value.strip()[:100]
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_PAUSE_S)
    try:
        when = parsedate_to_datetime(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        seconds = (when - now).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(0.0, seconds), MAX_PAUSE_S)


def parse_pause(headers: Mapping[str, str], now: datetime) -> float:
    """How many seconds to keep away after a 429: the longer of the two headers, a minute if none names a time."""
    waits = [max(0.0, (budget.resets_at - now).total_seconds()) for budget in parse_budgets(headers, now)]
    retry_after = _retry_after(headers, now)
    if retry_after is not None:
        waits.append(retry_after)
    return max(waits, default=DEFAULT_PAUSE_S)


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that ``Retry-After`` asks for; None when it names no time ahead.

    A date counts from the clock of who wrote it, else from ours. The nearer of both holds: either may be wrong by
    hours or years.
    """
    value = _header(headers, "retry-after")
    if _SECONDS.fullmatch(value.strip()):
        return parse_retry_after(value, now)
    moments = [moment for moment in (now, _sent_at(headers)) if moment is not None]
    return min(filter(None, (parse_retry_after(value, moment) for moment in moments)), default=None)


def _sent_at(headers: Mapping[str, str]) -> datetime | None:
    """When the answer was sent by the clock of who sent it."""
    try:
        when = parsedate_to_datetime(_header(headers, "date")[:100])
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name), "")[:MAX_HEADER]
