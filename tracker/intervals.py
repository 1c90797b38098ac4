"""When to look again: often where a repo moves often, seldom where it rests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from storage.model import Urgency, Watch

JITTER = 0.1
"""Share of the interval by which a check is moved, so that repos added together do not stay together."""


FLURRY = timedelta(hours=6)
"""Commits closer than this are the upload of one version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Floor, default and ceiling of the time between two checks."""

    floor: timedelta
    default: timedelta
    ceiling: timedelta

    def interval(self, watch: Watch, moves: Sequence[datetime], now: datetime) -> timedelta:
        """A fixed ``every`` wins; else a tenth of the time in which the repo is likely to move again.

        That time is the shorter of two: how long it has rested, and how far apart its last moves were, the
        present rest included, where commits less than six hours apart are one move. A repo that moved an hour
        ago is looked at every six minutes, one with a release a week within hours, one that moved once and
        rested for ten days once a day. ``moves`` are the times at which it was seen to move, newest first.
        """
        if watch.every is not None:
            return max(watch.every, self.floor)
        if not moves:
            return self.default
        rest = now - moves[0]
        moved = _apart(moves)
        usual = (now - moved[-1]) / (len(moved) - 1) if len(moved) > 2 else rest  # two moves are no habit
        return min(max(min(rest, usual) / 10, self.floor), self.ceiling)

    def urgency(self, interval: timedelta) -> Urgency:
        """How urgent the checks of a watch with this interval are."""
        return Urgency.MOVING if interval < self.default else Urgency.QUIET

    def after(self, watch: Watch, moves: Sequence[datetime], now: datetime) -> Watch:
        """A watch as it stands after a good check: when the next one is, and how urgent that will be."""
        interval = self.interval(watch, moves, now)
        return replace(watch, next_check_at=now + self._jittered(watch, interval), urgency=self.urgency(interval))

    def after_failure(self, watch: Watch, now: datetime) -> datetime:
        """Back off by doubling from the floor, up to the ceiling, for this repo alone."""
        wait = min(self.floor * 2 ** min(watch.errors, 16), self.ceiling)
        return now + self._jittered(watch, wait)

    def _jittered(self, watch: Watch, interval: timedelta) -> timedelta:
        # Seeded by the repo and its count of errors: spread out, and the same on every run of a test.
        share = random.Random(f"{watch.repo.id}:{watch.errors}").uniform(-JITTER, JITTER)  # noqa: S311
        return min(interval * (1 + share), self.ceiling)


def _apart(moves: Sequence[datetime]) -> list[datetime]:
    """The moves, newest first, without those that belong to the one before them."""
    return [*moves[:1], *(earlier for later, earlier in pairwise(moves) if later - earlier > FLURRY)]
