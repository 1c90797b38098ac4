from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from storage.model import RepoRef, Urgency, Watch
from tracker.intervals import JITTER, Intervals

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INTERVALS = Intervals(floor=timedelta(minutes=5), default=timedelta(minutes=30), ceiling=timedelta(hours=24))


def watch(errors: int = 0, every: timedelta | None = None) -> Watch:
    return Watch(id=1, repo=RepoRef(owner="acme", name="tiny"), created_at=NOW, errors=errors, every=every)


def test_a_repo_that_never_moved_is_looked_at_by_default() -> None:
    assert INTERVALS.interval(watch(), [], NOW) == timedelta(minutes=30)


def test_a_repo_that_just_moved_is_looked_at_often_and_a_resting_one_once_a_day() -> None:
    assert INTERVALS.interval(watch(), [NOW - timedelta(minutes=10)], NOW) == timedelta(minutes=5)
    assert INTERVALS.interval(watch(), [NOW - timedelta(hours=10)], NOW) == timedelta(hours=1)
    assert INTERVALS.interval(watch(), [NOW - timedelta(days=300)], NOW) == timedelta(hours=24)


def test_a_repo_with_a_habit_is_looked_at_by_its_habit_and_a_flurry_is_one_move() -> None:
    weekly = [NOW - timedelta(days=days) for days in (5, 12, 19, 26)]
    assert INTERVALS.interval(watch(), weekly, NOW) == timedelta(days=5) / 10
    silent = [move - timedelta(days=4) for move in weekly]
    assert INTERVALS.interval(watch(), silent, NOW) == timedelta(days=9) / 10
    steady = [NOW - timedelta(days=3 + days) for days in range(4)]
    assert INTERVALS.interval(watch(), steady, NOW) == timedelta(days=2) / 10
    flurry = [NOW - timedelta(days=3, minutes=minutes) for minutes in range(50)]
    assert INTERVALS.interval(watch(), flurry, NOW) == timedelta(days=3) / 10


def test_a_repo_looked_at_more_often_than_by_default_is_urgent() -> None:
    moved = INTERVALS.after(watch(), [NOW - timedelta(hours=1)], NOW)
    assert moved.urgency is Urgency.MOVING
    assert INTERVALS.after(watch(), [NOW - timedelta(days=9)], NOW).urgency is Urgency.QUIET
    assert INTERVALS.after(watch(), [], NOW).urgency is Urgency.QUIET


def test_a_fixed_interval_wins_but_not_below_the_floor() -> None:
    assert INTERVALS.interval(watch(every=timedelta(hours=3)), [NOW], NOW) == timedelta(hours=3)
    assert INTERVALS.interval(watch(every=timedelta(seconds=1)), [NOW], NOW) == timedelta(minutes=5)


@given(st.integers(0, 10**6))
def test_back_off_grows_and_stays_within_the_ceiling(errors: int) -> None:
    wait = INTERVALS.after_failure(watch(errors=errors), NOW) - NOW
    expected = min(timedelta(minutes=5) * 2 ** min(errors, 16), timedelta(hours=24))
    assert expected * (1 - JITTER) <= wait <= expected * (1 + JITTER)
