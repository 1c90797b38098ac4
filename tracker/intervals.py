"""When to look again: often where a repo moves often, seldom where it rests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from storage.model import Watch

JITTER = 0.1
"""Share of the interval by which a check is moved, so that repos added together do not stay together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Floor, default and ceiling of the time between two checks."""

    floor: timedelta
    default: timedelta
    ceiling: timedelta

    def interval(self, watch: Watch, moves: Sequence[datetime], now: datetime) -> timedelta:
        """A fixed ``every`` wins; else a tenth of the time since the repo last moved.

        A repo that moved an hour ago is looked at every six minutes, one that rested for ten days once a
        day. ``moves`` are the times at which it was seen to move, newest first.
        """
        if watch.every is not None:
            return max(watch.every, self.floor)
        if not moves:
            return self.default
        return min(max((now - moves[0]) / 10, self.floor), self.ceiling)

    def next_check(self, watch: Watch, moves: Sequence[datetime], now: datetime) -> datetime:
        """The time of the next check after a good one."""
        return now + self._jittered(watch, self.interval(watch, moves, now))

    def after_failure(self, watch: Watch, now: datetime) -> datetime:
        """Back off by doubling from the floor, up to the ceiling, for this repo alone."""
        wait = min(self.floor * 2 ** min(watch.errors, 16), self.ceiling)
        return now + self._jittered(watch, wait)

    def _jittered(self, watch: Watch, interval: timedelta) -> timedelta:
        # Seeded by the repo and its count of errors: spread out, and the same on every run of a test.
        share = random.Random(f"{watch.repo.id}:{watch.errors}").uniform(-JITTER, JITTER)  # noqa: S311
        return min(interval * (1 + share), self.ceiling)
