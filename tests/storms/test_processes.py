"""Processes that die at any transaction, disks that are full, databases that go away; then a plain poll."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from storage import watches
from storage.model import RepoRef
from tests.soak.storm import account, differences, repeats
from tests.storms.story import STORMY, written
from tests.storms.world import opened
from tests.support.command import Hubwatch, Result
from tests.support.site import site
from tracker.demo import faults
from tracker.demo.hub import LoopbackHub
from tracker.demo.injection import Answer, matching
from tracker.demo.wire import Request, Response
from tracker.doctor import data
from tracker.doctor.model import Level
from tracker.settings import Settings
from tracker.worker import Status

EVERY = bool(os.environ.get("STORM_SEEDS"))
SAMPLED = 4
KILLED = -9
REPO = RepoRef.parse(STORMY)


@dataclass(slots=True)
class Doomed(Hubwatch):
    """An installation whose polls may be told to die; see `tests.storms.child`."""

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "tests.storms.child", *arguments]

    def poll(self, **environment: str) -> Result:
        """A poll; it never shows a traceback, whatever happens to it."""
        result = self("poll", PYTHONPATH=str(Path(__file__).parents[2]), **environment)
        assert "Traceback" not in result.err, result.err
        return result


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackHub]:
    """One Hub for all, where main stands before the force push."""
    with LoopbackHub(tmp_path_factory.mktemp("hub")) as running:
        story = written(running)
        story.tell(len(story.ends) - 2)
        yield running
    assert not running.crashes


def installed(hub: LoopbackHub, folder: Path, url: str) -> Doomed:
    """An installation that watches the repo and has read nothing yet."""
    with opened(url) as database, database.transaction() as tx:
        watches.add(tx, REPO, now=datetime.now(UTC))
    return Doomed(hub.url, url, folder)


@dataclass(frozen=True, slots=True)
class Calm:
    """What a poll that nothing happens to learns, and in how many writing transactions."""

    learned: dict[str, Any]
    commits: int


@pytest.fixture(scope="module")
def calm(hub: LoopbackHub, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    home = tmp_path_factory.mktemp("calm")
    shutil.copy(sqlite_template, home / "hubwatch.db")
    made = installed(hub, home, f"sqlite:///{home}/hubwatch.db")
    assert made.poll(STORM_COUNT=str(home / "count")).code == 0
    with opened(made.database_url) as database:
        return Calm(account(database, [STORMY]), int((home / "count").read_text()))


def assert_sound(hub: LoopbackHub, made: Doomed, calm: Calm) -> None:
    """A plain check brings what the calm run learned, and nothing is wrong with the database."""
    with opened(made.database_url) as database:
        with site(hub, database) as at:
            at.time = datetime.now(UTC)
            assert at.poll(REPO).status.good
            assert at.poll(REPO).status is Status.UNCHANGED
        learned = account(database, [STORMY])
        checks = [*data.whole(database, every=True), *data.at_work(database, Settings(), datetime.now(UTC))]
    assert list(differences(calm.learned, learned)) == []
    assert list(repeats(learned)) == []
    assert [check for check in checks if check.level is Level.FAIL] == []
    if made.database_url.startswith("sqlite"):
        with sqlite3.connect(made.database_url.removeprefix("sqlite:///")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_poll_killed_at_a_transaction_loses_nothing(
    hub: LoopbackHub, calm: Calm, tmp_path: Path, sqlite_template: Path
) -> None:
    moments = [f"{when} {number}" for number in range(1, calm.commits + 1) for when in ("before", "after")]
    assert len(moments) > 20
    if not EVERY:
        moments = random.Random(7).sample(moments, SAMPLED)  # noqa: S311
    killed = 0
    for moment in moments:
        path = tmp_path / f"{moment.replace(' ', '-')}.db"
        shutil.copy(sqlite_template, path)
        made = installed(hub, tmp_path, f"sqlite:///{path}")
        code = made.poll(STORM_KILL=moment).code
        # how many revisions share a transaction depends on how long answers take: the last moments may not come
        assert code in {KILLED, 0}, moment
        killed += code == KILLED
        assert_sound(hub, made, calm)
    assert killed > len(moments) // 2


def test_killed_again_and_again_at_each_further_transaction(
    hub: LoopbackHub, calm: Calm, tmp_path: Path, sqlite_url: str
) -> None:
    made = installed(hub, tmp_path, sqlite_url)
    chance = random.Random(3)  # noqa: S311
    for _ in range(12 if EVERY else 2):
        if made.poll(STORM_KILL=f"before {chance.randrange(3, 12)}").code != KILLED:
            break
    assert_sound(hub, made, calm)


def test_a_full_disk_is_told_and_loses_nothing(
    hub: LoopbackHub, calm: Calm, tmp_path: Path, sqlite_url: str
) -> None:
    made = installed(hub, tmp_path, sqlite_url)
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        ((pages,),) = connection.execute("PRAGMA page_count")
    for room in (0, 3, 6, 10) if EVERY else (0, 10):
        full = made.poll(STORM_PAGES=str(pages + room))
        assert full.code == 1, full
        assert "full" in full.err
    assert_sound(hub, made, calm)


def test_commands_in_a_storm(hub: LoopbackHub, calm: Calm, tmp_path: Path, sqlite_url: str) -> None:
    made = installed(hub, tmp_path, sqlite_url)
    chance = random.Random(5)  # noqa: S311
    try:
        # what is asked while another revision is examined may meet its fault in the same check as that one
        for action, when in (
            (faults.server_error(503), matching(path="*/commits/*")),
            (faults.reset(), matching(kind="resolve")),
            (faults.lose(chance), matching(path="*/tree/*")),
        ):
            fault = hub.faults.add(action, when=when, times=1)
            assert made.poll(HUBWATCH_HUB_GIT="off").code == 1
            assert fault.done == 1
    finally:
        hub.faults.clear()
    assert_sound(hub, made, calm)


@pytest.mark.postgres
def test_a_database_that_goes_away_and_comes_back(
    hub: LoopbackHub, calm: Calm, tmp_path: Path, postgres_url: str, postgres_server: Any
) -> None:
    made = installed(hub, tmp_path, postgres_url)
    name = make_url(postgres_url).database
    down = f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false"
    gone = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608

    def tell_server(*statements: str) -> None:
        with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def stop_it(request: Request, answer: Answer) -> Response:
        tell_server(down, gone)
        return answer()

    def cut_it(request: Request, answer: Answer) -> Response:
        tell_server(gone)
        return answer()

    try:
        cut = hub.faults.add(cut_it, when=matching(path="*/resolve/*"))
        made.poll()  # every connection is lost again and again; whatever became of it, it ended by itself
        assert cut.done > 1
        hub.faults.clear()
        stopped = hub.faults.add(stop_it, when=matching(path="/api/models/*"), times=1)
        assert made.poll().code == 1
        assert stopped.done == 1
    finally:
        hub.faults.clear()
        tell_server(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
    assert_sound(hub, made, calm)
