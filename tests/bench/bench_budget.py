"""10,000 repos of 2,000 owners, watched with what the Hub allows an address without a token, in simulated hours.

Time is simulated; scheduler, planner, budget, worker, intervals, slower reads and database are the real ones.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import select

from storage import schema
from storage import watches as stored
from storage.database import Database
from storage.model import RepoRef, Urgency
from storage.tables import slow_reads
from tests.bench.scripted import ANONYMOUS, START, House, Look, Plan, house, percentile, sha
from tracker.scheduler import TICK

Row = tuple[str, str, str, bool]
HOURS = float(os.environ.get("HUBWATCH_BENCH_HOURS", "1.25"))
WARM = timedelta(minutes=30)
SETTLE = timedelta(seconds=30)
"""As the receiver of hints has it."""
PLANS = {
    "adaptive": Plan(),
    "fixed 30 min": Plan(every=timedelta(minutes=30)),
    "fixed 30 min, a fifth of the quota": Plan(
        every=timedelta(minutes=30), quota={name: limit // 5 for name, limit in ANONYMOUS.items()}
    ),
}


def main() -> Iterator[Row]:
    """Simulate each plan on SQLite."""
    for name, plan in PLANS.items():
        with tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as folder:
            database = Database.open(f"sqlite:///{folder}/watches.db")
            schema.upgrade(database)
            with house(database, plan) as made:
                simulate(made, timedelta(hours=HOURS))
                yield from told(name, made)
            database.dispose()


def simulate(made: House, span: timedelta) -> None:
    """Let simulated time pass: ticks, and hints in between. What was seen while it warms up is forgotten."""
    end, warm = START + span, START + WARM
    moved: dict[str, int] = {}
    while made.clock.time < end:
        if (made.clock.time - START).total_seconds() % 60 == 0:
            for name in made.chance.sample(made.names, made.plan.hints):
                moved[name] = moved.get(name, 0) + 1
                made.hub.heads[name] = sha(name, moved[name])
                made.worker.hinted.setdefault(name, made.clock.time)
                with made.database.transaction() as tx:
                    stored.hint(tx, RepoRef.parse(name), now=made.clock.time, settle=SETTLE)
        made.tick()
        made.clock.time += TICK
        if made.clock.time == warm:
            made.worker.looks.clear()
            made.worker.tries = made.worker.held = 0
            made.hub.asked.clear()


def told(name: str, made: House) -> Iterator[Row]:
    """The figures of one simulation."""
    limit, hub = made.plan.quota, made.hub
    share = {bucket: hub.fullest[bucket] / limit[bucket] for bucket in limit}
    figures = ", ".join(f"{bucket} {part:.0%}" for bucket, part in share.items())
    yield f"{name}: fullest window", figures, "at most 80%", max(share.values()) <= 0.8 and not hub.refused
    soon = 60.0 if limit == ANONYMOUS else hub.limits.window  # too much to ask: until the next window
    looks = [*made.worker.looks, *_overdue(made)]
    for urgency, aim in ((Urgency.HINTED, soon), (Urgency.MOVING, soon), (Urgency.QUIET, float("inf"))):
        late = [look.late for look in looks if look.urgency == urgency]
        p50, p99, most = (percentile(late, part) for part in (0.5, 0.99, 1.0))
        figures = f"{len(late)} looks, late p50 {p50:.0f}, p99 {p99:.0f}, max {most:.0f} s"
        yield (
            f"{name}: {urgency.name.lower()}",
            figures,
            f"max < {aim:.0f} s" if aim < float("inf") else "",
            most <= aim,
        )
    windows = (made.clock.time - START - WARM) / timedelta(minutes=5)
    asked = ", ".join(f"{what} {count / windows:.0f}" for what, count in sorted(hub.asked.items()))
    yield f"{name}: asked in five minutes", asked, "", True
    held = made.worker.held / max(1, made.worker.tries)
    aim, met = ("under 5%", held < 0.05) if limit == ANONYMOUS else ("", True)
    yield f"{name}: checks held back", f"{held:.1%} of {made.worker.tries}", aim, met
    with made.database.snapshot() as tx:
        rows = tx.execute(select(slow_reads.c.due_at, slow_reads.c.errors)).all()
    behind = [max(0.0, (made.clock.time - row.due_at).total_seconds() / 60) for row in rows]
    p50, p99, failed = percentile(behind, 0.5), percentile(behind, 0.99), sum(row.errors > 0 for row in rows)
    yield f"{name}: slower reads behind", f"p50 {p50:.0f}, p99 {p99:.0f} min, {failed} failed", "", True


def _overdue(made: House) -> Iterator[Look]:
    """What is late right now and not looked at: else those that are never looked at would not be counted."""
    with made.database.snapshot() as tx:
        every = stored.list_all(tx)
    for watch in every:
        since = made.worker.hinted if watch.urgency is Urgency.HINTED else made.worker.waiting
        due = since.get(watch.repo.id, watch.next_check_at or watch.created_at)
        if due < made.clock.time:
            yield Look(int(watch.urgency), (made.clock.time - due).total_seconds())
