"""Many machines: schedulers and workers as processes of their own on one PostgreSQL, some of them killed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from storage import history, meta, schema, watches
from storage.database import Database
from storage.model import RepoRef
from tests.support.command import Hubwatch, wait_for
from tests.support.models import llama
from tests.support.processes import Fleet
from tracker.demo import faults
from tracker.demo.hub import LoopbackHub

pytestmark = pytest.mark.postgres

QUICK = {"HUBWATCH_POLL_FLOOR": "1", "HUBWATCH_POLL_DEFAULT": "1", "HUBWATCH_PORT": "0"}
REPOS = ("acme/one", "acme/two", "other/three")


@pytest.fixture
def hubwatch(hub: LoopbackHub, tmp_path: Path, postgres_url: str) -> Hubwatch:
    """An installation on PostgreSQL."""
    home = tmp_path / "home"
    home.mkdir()
    return Hubwatch(hub.url, postgres_url, home, dict(QUICK))


@pytest.fixture
def fleet(hubwatch: Hubwatch) -> Iterator[Fleet]:
    """Starts daemons; whatever still runs at the end of the test is killed."""
    with Fleet(hubwatch) as made:
        yield made


@pytest.fixture
def database(hubwatch: Hubwatch) -> Iterator[Database]:
    opened = Database.open(hubwatch.database_url)
    yield opened
    opened.dispose()


def filled(hub: LoopbackHub, revisions: int, repos: tuple[str, ...] = REPOS) -> None:
    for name in repos:
        repo = hub.create(name)
        for number in range(revisions):
            repo.commit({"config.json": llama(rope_theta=1000.0 + number)}, title=f"n {number}")


def titles(database: Database, repo: str) -> list[str]:
    """What landed of a repo, oldest first."""
    owner, name = repo.split("/")
    with database.snapshot() as tx:
        if RepoRef(owner=owner, name=name) not in history.known_repos(tx):
            return []
        return [found.revision.title for found in history.revisions(tx, RepoRef(owner=owner, name=name))][::-1]


def whole(count: int) -> list[str]:
    return [f"n {number}" for number in range(count)]


def rows(database: Database, statement: str) -> list[Any]:
    with database.snapshot() as tx:
        return list(tx.exec_driver_sql(statement).all())


def queue_of(database: Database) -> str:
    """The schema that the queue is in."""
    ((name,),) = rows(database, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hubwatch_queue_%%'")
    return str(name)


def holder_pid(database: Database, repo: str) -> int | None:
    """The process that checks a repo right now."""
    owner, name = repo.split("/")
    with database.snapshot() as tx:
        watch = watches.require(tx, RepoRef(owner=owner, name=name))
        holder = watches.lease_holder(tx, watch.id)
    return int(holder.split("|")[1]) if holder else None


def test_a_worker_killed_in_the_middle_loses_nothing(
    hub: LoopbackHub, hubwatch: Hubwatch, fleet: Fleet, database: Database
) -> None:
    filled(hub, 25)
    hub.faults.add(faults.delay(0.1))
    for repo in REPOS:
        hubwatch("watch", "add", repo)
    workers = {daemon.pid: daemon for daemon in fleet.start_all("worker", "worker", "scheduler")[:2]}
    pid = wait_for(
        lambda: len(titles(database, REPOS[0])) >= 2 and holder_pid(database, REPOS[0]), what="a check under way"
    )
    workers.pop(pid).kill()
    for repo in REPOS:
        wait_for(lambda name=repo: len(titles(database, name)) == 25, what=f"all of {repo}")
        assert titles(database, repo) == whole(25)
    (left,) = workers.values()
    assert left.stop() == 0


def test_two_schedulers_make_one_job(
    hub: LoopbackHub, hubwatch: Hubwatch, fleet: Fleet, database: Database
) -> None:
    filled(hub, 2, REPOS[:1])
    hubwatch("watch", "add", REPOS[0])
    first, second = fleet.start_all("scheduler", "scheduler")
    queue = queue_of(database)
    wait_for(lambda: rows(database, f"SELECT 1 FROM {queue}.procrastinate_jobs"), what="the job")  # noqa: S608
    assert first.stop() == second.stop() == 0
    jobs = rows(database, f"SELECT status, lock, queueing_lock, args FROM {queue}.procrastinate_jobs")  # noqa: S608
    assert [job.status for job in jobs] == ["todo"]
    assert jobs[0].lock == jobs[0].queueing_lock
    fleet.start("worker")  # what was left waiting is done by whoever comes, with no scheduler
    wait_for(lambda: titles(database, REPOS[0]) == whole(2), what="the waiting job")


def test_a_stop_ends_after_the_revision_under_way(
    hub: LoopbackHub, hubwatch: Hubwatch, fleet: Fleet, database: Database
) -> None:
    filled(hub, 60, REPOS[:1])
    hub.faults.add(faults.delay(0.1))
    hubwatch("watch", "add", REPOS[0])
    scheduler, worker = fleet.start_all("scheduler", "worker")
    wait_for(lambda: len(titles(database, REPOS[0])) >= 2, what="the first revisions")
    assert worker.stop() == 0
    landed = titles(database, REPOS[0])
    assert landed == whole(len(landed))
    assert len(landed) < 60
    assert holder_pid(database, REPOS[0]) is None
    assert scheduler.stop() == 0
    queue = queue_of(database)
    assert rows(database, f"SELECT 1 FROM {queue}.procrastinate_jobs WHERE status = 'doing'") == []  # noqa: S608
    assert rows(database, f"SELECT 1 FROM {queue}.procrastinate_workers") == []  # noqa: S608
    hub.faults.clear()
    fleet.start_all("worker", "scheduler")
    wait_for(lambda: titles(database, REPOS[0]) == whole(60), what="the rest")


@dataclass(slots=True)
class Impatient(Hubwatch):
    """An installation whose daemons wait a second for what is under way, and not half a minute."""

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        code = "from tracker import cli, daemon; daemon.GRACE_SECONDS = 1.0; cli.main()"
        return [sys.executable, "-c", code, *arguments]


def test_what_does_not_end_in_time_is_abandoned_and_read_by_others(
    hub: LoopbackHub, hubwatch: Hubwatch, database: Database, tmp_path: Path
) -> None:
    filled(hub, 5, REPOS[:1])
    hubwatch("watch", "add", REPOS[0])
    hub.faults.add(faults.stall(100))
    with Fleet(Impatient(hub.url, hubwatch.database_url, hubwatch.home, dict(QUICK))) as fleet:
        worker, _ = fleet.start_all("worker", "scheduler")
        pid = wait_for(lambda: holder_pid(database, REPOS[0]), what="a check that hangs")
        assert pid == worker.pid
        assert worker.stop() == 0
        assert holder_pid(database, REPOS[0]) == pid  # the lease of a check that nobody ended
        hub.faults.clear()
        fleet.start("worker")
        wait_for(lambda: titles(database, REPOS[0]) == whole(5), what="all of it")


def bounded(lines: Iterator[str], seconds: float = 60) -> Iterator[str]:
    """The lines of a stream that never ends by itself, until it took too long."""
    until = time.monotonic() + seconds
    for line in lines:
        yield line
        assert time.monotonic() < until, "the stream did not tell of it"


def test_pages_and_events_of_a_replica_tell_what_others_read(
    hub: LoopbackHub, hubwatch: Hubwatch, fleet: Fleet, database: Database
) -> None:
    filled(hub, 1, REPOS[:1])
    hubwatch("watch", "add", REPOS[0], "--every", "1s")
    web = fleet.start("web")
    with httpx.stream("GET", f"{web.url}api/v1/events", timeout=60, trust_env=False) as stream:
        fleet.start_all("scheduler", "worker")
        wait_for(lambda: titles(database, REPOS[0]) == whole(1), what="the first revision")
        hub.repo(REPOS[0]).commit({"config.json": llama(rope_theta=5.0)}, title="n 1")
        line = next(line for line in bounded(stream.iter_lines()) if "config.rope" in line)
    assert REPOS[0] in line
    assert REPOS[0] in httpx.get(web.url, trust_env=False).text
    assert web.stop() == 0


@pytest.mark.parametrize("roles", ["worker", "scheduler", "worker,web"])
def test_roles_apart_are_refused_on_sqlite(hubwatch: Hubwatch, tmp_path: Path, roles: str) -> None:
    hubwatch.database_url = f"sqlite:///{tmp_path}/small.db"
    refused = hubwatch("run", "--roles", roles)
    assert refused.code == 2
    assert "PostgreSQL" in refused.err
    assert len(refused.err.strip().splitlines()) == 1


def test_a_daemon_leaves_when_the_schema_goes_past_it(
    fleet: Fleet, hubwatch: Hubwatch, database: Database
) -> None:
    worker, web = fleet.start_all("worker", "web")
    with database.transaction() as tx:
        meta.put(tx, "schema", {"version": "9998", "usable_from": schema.newest()})
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9998'")  # expanded
    assert hubwatch("watch", "list").code == 0
    assert worker.is_running
    assert web.is_running
    with database.transaction() as tx:
        meta.put(tx, "schema", {"version": "9999", "usable_from": "9999"})
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")  # contracted
    for daemon in (worker, web):
        assert daemon.wait() == 2
        assert "install a newer hubwatch" in daemon.said
    assert "install a newer hubwatch" in hubwatch("run").err
