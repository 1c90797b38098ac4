"""What a tick of the scheduler costs with 100,000 watches of which none, ten or 200 are due.

The aim is a ratio: as much as with 1,000 watches. Both databases are asked in turn, so that other load on the
machine meets both alike.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import update

from storage import schema
from storage.database import Database
from storage.model import Watch
from storage.tables import watches
from tests.bench.places import kinds
from tests.bench.scripted import START, Plan, fill
from tests.support.databases import postgres_running
from tracker.rounds import Rounds
from tracker.scheduler import Scheduler

Row = tuple[str, str, str, bool]
FEW, MANY = 1_000, int(os.environ.get("HUBWATCH_BENCH_WATCHES", "100000"))
DUE = (0, 10, 200)
ROUNDS = 30
MOST = 2.0
"""How much dearer a tick may be with a hundred times the watches: deeper indices, colder pages."""


class Nowhere:
    """Takes everything and does nothing: a tick alone is measured."""

    def submit(self, watch: Watch) -> bool:
        """See `Dispatcher.submit`."""
        return True

    def start(self) -> None:
        """See `Dispatcher.start`."""

    def drain(self, timeout: float | None = None) -> bool:
        """See `Dispatcher.drain`."""
        return True


class Unasked(Rounds):
    """Plans, and lists nobody."""

    def submit(self, owner: object, asked: object, then: Callable[[Watch], object]) -> bool:
        """See `Rounds.submit`."""
        return True


def main() -> Iterator[Row]:
    """Measure on SQLite, and on PostgreSQL where there is one."""
    for kind in kinds():
        with _databases(kind) as (few, many):
            for due in DUE:
                for database, count in ((few, FEW), (many, MANY)):
                    _make_due(database, count, due)
                small, large = _scheduler(few), _scheduler(many)
                pairs = [(_timed(small), _timed(large)) for _ in range(ROUNDS + 3)][3:]
                here, there = (sorted(item)[len(item) // 2] for item in zip(*pairs, strict=True))
                ratio = sorted(b / a for a, b in pairs)[len(pairs) // 2]
                yield (
                    f"{kind}: a tick, {due} due",
                    f"{MANY} watches {there:.1f} ms, {FEW} {here:.1f} ms processor: {ratio:.2f} times",
                    f"at most {MOST} times",
                    ratio <= MOST,
                )
            for what, plan in _plans(many).items():
                yield f"{kind}: {what}", plan, "by an index", "SCAN watches" not in plan and "Seq Scan" not in plan


@contextmanager
def _databases(kind: str) -> Iterator[tuple[Database, Database]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hubwatch-bench-")))
        urls = [f"sqlite:///{folder}/{count}.db" for count in (FEW, MANY)]
        if kind != "SQLite":
            server = stack.enter_context(postgres_running())
            urls = []
            for count in (FEW, MANY):
                _create(server.get_uri(), f"watches{count}")
                urls.append(server.get_uri(database=f"watches{count}"))
        made = []
        for url, count in zip(urls, (FEW, MANY), strict=True):
            database = Database.open(url)
            stack.callback(database.dispose)
            schema.upgrade(database)
            fill(database, replace(Plan(), watches=count, owners=count // 5), random.Random(1))  # noqa: S311
            made.append(database)
        yield made[0], made[1]


def _create(url: str, name: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())


def _make_due(database: Database, count: int, due: int) -> None:
    """So many watches, of different owners, are due; the others within a day."""
    with database.transaction() as tx:
        ids = range(1, count + 1)
        tx.execute(update(watches).values(next_check_at=START + timedelta(hours=12)))
        if due:
            chosen = list(ids)[:: count // due][:due]
            tx.execute(
                update(watches).where(watches.c.id.in_(chosen)).values(next_check_at=START - timedelta(minutes=1))
            )
        tx.exec_driver_sql("ANALYZE")


def _scheduler(database: Database) -> Scheduler:
    rounds = Unasked(None, database, None, None, None, lambda: START, soon=timedelta(minutes=7.5))  # type: ignore[arg-type]
    return Scheduler(database, Nowhere(), rounds, lambda: START)


def _timed(scheduler: Scheduler) -> float:
    """Milliseconds: processor time of this process, and the clock's where a server does the work."""
    clock = time.process_time if scheduler.database.is_sqlite else time.perf_counter
    began = clock()
    scheduler.tick()
    return (clock() - began) * 1000


def _plans(database: Database) -> dict[str, str]:
    """How the two questions of a tick are answered, in the database's words."""
    from sqlalchemy import event

    from storage import watches as stored

    seen: list[tuple[str, Any]] = []

    def note(_c: object, _u: object, statement: str, parameters: object, *_: object) -> None:
        seen.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    with database.snapshot() as tx:
        stored.due(tx, START, limit=200)
        stored.due_of_owners(tx, [("https://huggingface.co", "owner1")], START + timedelta(minutes=8))
    event.remove(database.engine, "before_cursor_execute", note)
    asked = [item for item in seen if "FROM watches" in item[0]]
    explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
    plans = []
    with database.snapshot() as tx:
        for statement, parameters in asked:
            rows = tx.exec_driver_sql(explain + statement, parameters).all()
            plans.append("; ".join(str(row[-1]).strip().removeprefix("->  ").split("  (cost")[0] for row in rows))
    return dict(zip(("due", "due_of_owners"), plans, strict=True))
