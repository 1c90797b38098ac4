"""Many repos of one owner under faults, names that do not resolve, and repos that hang beside others."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session

from storage import watches
from storage.database import Database
from storage.model import RepoState
from tests.soak.storm import account, differences, repeats
from tests.storms.story import STORMY, Story, written
from tests.storms.world import BY_API, World, opened, world
from tests.support.command import wait_for
from tests.support.models import llama
from tests.support.site import Site, site
from tracker.demo import faults
from tracker.demo.faults import matching
from tracker.demo.hub import LoopbackHub
from tracker.dispatch.threads import ThreadDispatcher
from tracker.scheduler import Scheduler
from tracker.worker import Status

OWNER = "many"
NAMES = [f"{OWNER}/model{number}" for number in range(5)]
LISTING = matching(kind="api", path="/api/models")
MOVES = 3

pytestmark = pytest.mark.usefixtures("nobody_sleeps")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub(tmp_path / "hub") as running:
        yield running
    assert not running.crashes


def move(hub: LoopbackHub, turn: int) -> None:
    """Every second repo of the owner moves."""
    for name in NAMES[turn % 2 :: 2]:
        hub.repo(name).commit({"config.json": llama(rope_theta=1000.0 + turn)}, title=f"n {turn}")


def rounds(hub: LoopbackHub, at: Site) -> World:
    """The owner is watched, and all of its repos are read for the first time."""
    for name in NAMES:
        at.watch(name)
    with at.database.transaction() as tx:
        watches.add_owner(tx, OWNER, now=at.time)
    made = World(hub, Story(hub.repo(NAMES[0])), at)
    made.look()
    return made


DOUBTFUL: dict[str, Any] = {
    "partial": faults.lose,
    "empty": lambda _: faults.edit_json(lambda rows: rows[:0]),
    "503": lambda _: faults.server_error(503),
    "reset": lambda _: faults.reset(),
    "half of it": lambda chance: faults.shorten(chance.randrange(2, 200)),
    "no list": lambda _: faults.garbage(),
    "links elsewhere": lambda _: faults.foreign_link("http://127.0.0.1:9"),
    "429": lambda chance: faults.rate_limited(chance.randrange(10, 200), form="seconds"),
}


@pytest.mark.parametrize("doubt", DOUBTFUL)
def test_owners_whose_listing_cannot_be_trusted(
    doubt: str, hub: LoopbackHub, sqlite_database: Database, tmp_path: Path, sqlite_template: Path
) -> None:
    chance = random.Random(doubt)  # noqa: S311
    for name in NAMES:
        hub.create(name).commit({"config.json": llama()}, title="start")
    path = tmp_path / "calm.db"
    path.write_bytes(sqlite_template.read_bytes())
    with (
        opened(f"sqlite:///{path}") as calm_database,
        site(hub, calm_database, **BY_API) as calm_site,
        site(hub, sqlite_database, **BY_API) as stormy_site,
    ):
        calm, storm = rounds(hub, calm_site), rounds(hub, stormy_site)
        for turn in range(MOVES):
            move(hub, turn)
            calm.site.later(days=2)
            calm.look()
            fault = hub.faults.add(DOUBTFUL[doubt](chance), when=LISTING)
            storm.site.later(days=2)
            storm.look()
            assert fault.done
            hub.faults.clear()
            storm.site.later(minutes=10)
            storm.look()
        storm.site.later(days=2)
        hub.clear()
        storm.look()
        assert [record.path for record in hub.requests] == ["/api/models"]  # the listing is believed again
        with sqlite_database.snapshot() as tx:
            states = [(watch.state, watch.missing_count) for watch in watches.list_all(tx)]
        assert states == [(RepoState.OK, 0)] * len(NAMES)
        learned, expected = (account(item.site.database, NAMES) for item in (storm, calm))
    assert list(differences(expected, learned)) == []
    assert list(repeats(learned)) == []


def test_a_hub_whose_name_does_not_resolve_for_a_while(
    hub: LoopbackHub, sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = written(hub)
    named = hub.url.replace("127.0.0.1", "hub.test")
    monkeypatch.setattr(LoopbackHub, "url", property(lambda _: named))
    real, gone = socket.getaddrinfo, [False]

    def resolve(host: Any, *more: Any, **options: Any) -> Any:
        if host == "hub.test":
            if gone[0]:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            host = "127.0.0.1"
        return real(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with world(hub, story, sqlite_database, **BY_API) as storm:
        for stage in range(len(story.ends)):
            story.tell(stage)
            gone[0] = True
            close_session()  # a kept connection needs no name
            for _ in range(3):
                assert storm.check(storm.stormy).status is Status.ERROR
                storm.site.later(hours=3)
            gone[0] = False
            storm.settle()
        (parts,) = storm.learned().values()
    assert [row[1] for row in parts["revisions"]] == list(story.repo.log("main"))[::-1]


def test_repos_that_hang_hold_up_no_other(hub: LoopbackHub, sqlite_database: Database) -> None:
    story = written(hub)
    with world(hub, story, sqlite_database, **BY_API) as storm:
        storm.settle()
        story.tell(1)
        others = [f"owner{number}/quiet" for number in range(6)]
        for name in others:
            hub.create(name).commit({"config.json": llama()}, title="start")
            storm.site.watch(name)
        storm.site.later(days=2)
        fault = hub.faults.add(faults.stall(600), when=matching(repo=STORMY))
        services = storm.site.services
        dispatcher = ThreadDispatcher(services.worker.check, threads=2)
        tick = Scheduler(sqlite_database, dispatcher, services.rounds, storm.site.now).tick
        assert tick() == len(others) + 2

        def landed() -> bool:
            return all(parts["revisions"] for parts in account(sqlite_database, others).values())

        wait_for(landed, what="the repos beside the one that hangs")
        assert fault.done == 1
        assert tick() == 0  # what hangs is not begun a second time, and what is done is not due
        hub.faults.clear()
        hub.stop()  # ends the silence
        assert dispatcher.drain(60)
