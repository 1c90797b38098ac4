"""The queue on a real PostgreSQL, from inside one process: giving, taking, dead workers, draining."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from storage import meta, queues, watches
from storage.database import Database
from storage.errors import StorageError, UsageError
from storage.model import RepoRef, Watch
from tests.support.command import wait_for
from tracker.dispatch.choice import uses_queue
from tracker.dispatch.jobs import JobDispatcher
from tracker.settings import Settings

NOW = datetime(2026, 5, 1, tzinfo=UTC)
REPO = RepoRef(owner="acme", name="tiny")


@dataclass(slots=True)
class Checks:
    """A check that notes what it was given, and waits when it is told to."""

    seen: list[Watch] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.go_on.set()

    def __call__(self, watch: Watch) -> None:
        self.seen.append(watch)
        self.go_on.wait(30)


@contextmanager
def dispatcher(
    database: Database,
    check: Callable[[Watch], object] = lambda _: None,
    *,
    gives: bool = True,
    takes: bool = True,
) -> Iterator[JobDispatcher]:
    made = JobDispatcher(database, check, lambda: datetime.now(UTC), 2, gives=gives, takes=takes)
    made.start()
    try:
        yield made
    finally:
        made.drain(20)


@pytest.fixture
def watch(postgres_database: Database) -> Watch:
    with postgres_database.transaction() as tx:
        return watches.add(tx, REPO, now=NOW)


def queue_of(database: Database) -> str:
    with database.snapshot() as tx:
        found = tx.exec_driver_sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hubwatch_queue_%%'")
        return str(found.scalar_one())


def jobs(database: Database) -> list[Any]:
    with database.snapshot() as tx:
        found = tx.exec_driver_sql(
            f"SELECT * FROM {queue_of(database)}.procrastinate_jobs ORDER BY id"  # noqa: S608 - a name of ours
        )
        return list(found.all())


def run(database: Database, statement: str) -> None:
    with database.transaction() as tx:
        tx.exec_driver_sql(f"SET LOCAL search_path TO {queue_of(database)}, public")
        tx.exec_driver_sql(statement)


@pytest.mark.postgres
def test_what_one_gives_another_takes_once(postgres_database: Database, watch: Watch) -> None:
    checks = Checks()
    with dispatcher(postgres_database, takes=False) as giver:
        assert giver.submit(watch)
        assert not giver.submit(watch)
        with dispatcher(postgres_database, takes=False) as other:
            assert not other.submit(watch)
        with dispatcher(postgres_database, checks, gives=False):
            wait_for(lambda: not jobs(postgres_database), what="the end of the job")
    assert [seen.repo for seen in checks.seen] == [REPO]


@pytest.mark.postgres
def test_two_that_give_at_once_make_one_job(postgres_database: Database, watch: Watch) -> None:
    with (
        dispatcher(postgres_database, takes=False) as one,
        dispatcher(postgres_database, takes=False) as two,
    ):
        with postgres_database.transaction() as tx:
            later = watches.add(tx, RepoRef(owner="acme", name="later"), now=NOW)
        assert one.submit(later)
        assert two.submit(later) is False  # it lists first
        assert two.submit(watch)
        assert one.submit(watch) is False  # its list is older: the queue itself refuses
    assert len(jobs(postgres_database)) == 2


@pytest.mark.postgres
@pytest.mark.parametrize("what", ["paused", "removed", "looked at"])
def test_a_job_that_came_too_late_does_nothing(postgres_database: Database, watch: Watch, what: str) -> None:
    checks = Checks()
    with dispatcher(postgres_database, takes=False) as giver:
        giver.submit(watch)
    with postgres_database.transaction() as tx:
        if what == "paused":
            watches.pause(tx, REPO)
        elif what == "removed":
            watches.remove(tx, REPO)
        else:
            run_later = NOW + timedelta(hours=1)
            tx.exec_driver_sql(f"UPDATE watches SET next_check_at = {int(run_later.timestamp() * 1_000_000)}")  # noqa: S608
    with dispatcher(postgres_database, checks, gives=False):
        wait_for(lambda: not jobs(postgres_database), what="the end of the job")
    assert checks.seen == []


@pytest.mark.postgres
@pytest.mark.parametrize("another_waits", [False, True])
def test_the_job_of_a_silent_worker_is_done_by_another(
    postgres_database: Database, watch: Watch, another_waits: bool
) -> None:
    checks = Checks()
    with dispatcher(postgres_database, takes=False) as giver:
        giver.submit(watch)
        run(
            postgres_database,
            "WITH dead AS (INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour') "
            "RETURNING id) UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM dead)",
        )
        if another_waits:
            giver._listed_at = float("-inf")
            assert giver.submit(watch)
        assert giver.rescue() == 1
        assert [job.status for job in jobs(postgres_database)] == ["todo"]
        assert giver.rescue() == 0
        with dispatcher(postgres_database, checks, gives=False):
            wait_for(lambda: not jobs(postgres_database), what="the end of the job")
    assert len(checks.seen) == 1


@pytest.mark.postgres
def test_a_worker_that_lives_keeps_its_job(postgres_database: Database, watch: Watch) -> None:
    checks = Checks()
    checks.go_on.clear()
    with dispatcher(postgres_database, checks) as both:
        both.submit(watch)
        wait_for(lambda: checks.seen, what="the check")
        assert both.rescue() == 0
        checks.go_on.set()
        wait_for(lambda: not jobs(postgres_database), what="the end of the job")
    assert len(checks.seen) == 1


@pytest.mark.postgres
def test_a_drain_waits_takes_nothing_more_and_says_what_is_left(postgres_database: Database, watch: Watch) -> None:
    checks = Checks()
    checks.go_on.clear()
    with dispatcher(postgres_database, checks) as both:
        both.submit(watch)
        wait_for(lambda: checks.seen, what="the check")
        assert both.drain(0.2) is False
        assert both.submit(watch) is False
        checks.go_on.set()
        assert both.drain(20) is True
    assert jobs(postgres_database) == []


@pytest.mark.postgres
def test_more_urgent_watches_go_first(postgres_database: Database, watch: Watch) -> None:
    with postgres_database.transaction() as tx:
        quiet = watches.add(tx, RepoRef(owner="acme", name="quiet"), now=NOW)
        tx.exec_driver_sql(f"UPDATE watches SET urgency = 0 WHERE id = {int(quiet.id)}")  # noqa: S608
        quiet = watches.require(tx, quiet.repo)
    with dispatcher(postgres_database, takes=False) as giver:
        assert giver.submit(quiet)
        assert giver.submit(watch)
    first, second = jobs(postgres_database)
    assert first.priority < second.priority


@pytest.mark.postgres
def test_the_queue_is_lost_for_a_while(postgres_database: Database, watch: Watch) -> None:
    checks = Checks()
    with dispatcher(postgres_database, checks) as both:
        both.submit(watch)
        wait_for(lambda: not jobs(postgres_database), what="the first job")
        with postgres_database.transaction() as tx:
            tx.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'hubwatch queue' AND datname = current_database()"
            )

        def again() -> bool:
            try:
                return both.submit(watch)
            except StorageError:
                return False

        wait_for(again, what="a queue that takes a job again")
        wait_for(lambda: len(checks.seen) == 2, what="the second check")


# --- where the queue is --------------------------------------------------------------------------


@pytest.mark.postgres
def test_each_shape_of_queue_has_its_place(postgres_database: Database) -> None:
    first = queues.prepare(
        postgres_database, "CREATE TABLE a (id int); CREATE TABLE b (text text DEFAULT '%')", NOW
    )
    again = queues.prepare(
        postgres_database, "CREATE TABLE a (id int); CREATE TABLE b (text text DEFAULT '%')", NOW
    )
    other = queues.prepare(postgres_database, "CREATE TABLE a (id bigint)", NOW)
    assert first.name == again.name != other.name
    assert "postgres" not in repr(first)
    later = NOW + queues.KEPT + timedelta(days=1)
    with postgres_database.transaction() as tx:
        queues.touch(tx, other.name, later)
        meta.put(tx, "hubwatch_queue_; drop", "2000-01-01T00:00:00+00:00")
        assert queues.drop_unused(tx, later) == [first.name]
        left = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hubwatch_queue_%%'"
        assert tx.exec_driver_sql(left).scalars().all() == [other.name]


@pytest.mark.postgres
def test_a_user_who_may_not_make_it_is_told_what_to_do(postgres_database: Database) -> None:
    name = postgres_database.engine.url.database
    with postgres_database.transaction() as tx:
        tx.exec_driver_sql("CREATE ROLE small LOGIN")
        tx.exec_driver_sql("GRANT ALL ON ALL TABLES IN SCHEMA public TO small")
    url = postgres_database.engine.url.set(username="small", drivername="postgresql")
    small = Database.open(url.render_as_string(hide_password=False))
    try:
        with pytest.raises(UsageError, match=f'GRANT CREATE ON DATABASE "{name}" TO "small"'):
            queues.prepare(small, "CREATE TABLE a (id int)", NOW)
    finally:
        small.dispose()
        with postgres_database.transaction() as tx:
            tx.exec_driver_sql("DROP OWNED BY small")
            tx.exec_driver_sql("DROP ROLE small")


# --- which way -----------------------------------------------------------------------------------

ALL = ("scheduler", "worker", "web")


def by(wish: str) -> Settings:
    return Settings.model_validate({"poll": {"dispatch": wish}})


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("roles", "wish", "queue"),
    [
        (ALL, "auto", True),
        (ALL, "threads", False),
        (("worker",), "auto", True),
        (("scheduler", "web"), "queue", True),
        (("web",), "queue", False),
    ],
)
def test_on_postgresql(postgres_database: Database, roles: tuple[str, ...], wish: str, queue: bool) -> None:
    settings = by(wish)
    assert uses_queue(settings, postgres_database, roles) is queue


@pytest.mark.postgres
def test_roles_apart_by_threads_are_refused(postgres_database: Database) -> None:
    with pytest.raises(UsageError, match=r"poll\.dispatch is threads"):
        uses_queue(by("threads"), postgres_database, ("worker",))


@pytest.mark.postgres
def test_without_the_library(postgres_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert uses_queue(Settings(), postgres_database, ALL) is False
    with pytest.raises(UsageError, match=r"install hubwatch\[postgres\]"):
        uses_queue(Settings(), postgres_database, ("worker",))


def test_on_sqlite(sqlite_database: Database) -> None:
    assert uses_queue(Settings(), sqlite_database, ALL) is False
    assert uses_queue(Settings(), sqlite_database, ("web",)) is False
    with pytest.raises(UsageError, match="PostgreSQL"):
        uses_queue(Settings(), sqlite_database, ("worker",))
    with pytest.raises(UsageError, match="PostgreSQL"):
        uses_queue(by("queue"), sqlite_database, ALL)
