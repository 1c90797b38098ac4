"""Receivers that fail while things happen, and a Hub that fails while they wait; then calm."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from advisories.deliver import Deliverer
from advisories.notify import webhook
from advisories.notify.secrets import new_secret
from storage import deliveries, subscriptions
from storage.database import Database
from storage.model import DeliveryState, Subscription
from tests.storms.story import Story, written
from tests.storms.weather import WEATHERS
from tests.storms.world import BY_API, World, world
from tests.support.receiver import Got, Receiver, Reply, receiving
from tracker.demo.hub import LoopbackHub
from tracker.demo.injection import Faults

SUBSCRIPTION = "sub_storm"

pytestmark = pytest.mark.usefixtures("nobody_sleeps")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, Story]]:
    with LoopbackHub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub, written(hub)
    assert not hub.crashes


@dataclass(slots=True)
class Told:
    """What a receiver has in the end: the ids of messages, and of the events in them."""

    messages: set[str]
    events: list[str]

    @property
    def untimed(self) -> list[str]:
        """The events; those of a repo's state without the time at which it was seen."""
        return sorted(event.rpartition("T")[0][:-10] if "+" in event else event for event in self.events)


def told(receiver: Receiver) -> Told:
    events = [event["id"] for got in receiver.taken for event in got.data["events"]]
    return Told({got.id for got in receiver.taken}, sorted(events))


@contextmanager
def told_to(storm: World, receiver: Receiver, name: str = SUBSCRIPTION) -> Iterator[Deliverer]:
    made = Subscription(
        id=name, url=receiver.url, secret=new_secret(), settle=timedelta(0), allow_private=True,
        created_at=storm.site.time, repos=(storm.stormy.id,),
    )  # fmt: skip
    with storm.site.database.transaction() as tx:
        subscriptions.add(tx, made)
    deliverer = Deliverer(storm.site.database, storm.site.now)
    try:
        yield deliverer
    finally:
        assert deliverer.stop()


def drain(storm: World, deliverer: Deliverer, hours: int) -> None:
    """Let hours pass; the first look is at once."""
    for _ in range(hours + 1):
        for _ in range(20):
            if not deliverer.tick():
                break
            assert deliverer.settle(30)
        storm.site.later(hours=1)


def live(storm: World, deliverer: Deliverer, trouble: Callable[[], object], calm: Callable[[], object]) -> None:
    """The story, with trouble after its beginning until its end."""
    for stage in range(len(storm.story.ends)):
        storm.story.tell(stage)
        if stage:
            trouble()
            storm.check(storm.stormy)
            storm.hub.faults.clear()
        storm.settle()
        drain(storm, deliverer, 0)
    calm()
    drain(storm, deliverer, 30)


@pytest.fixture(scope="module")
def expected(
    upstream: tuple[LoopbackHub, Story], sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Told:
    path = tmp_path_factory.mktemp("calm") / "hubwatch.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database.open(f"sqlite:///{path}")
    with world(*upstream, database, **BY_API) as quiet, receiving() as receiver:
        with told_to(quiet, receiver) as deliverer:
            live(quiet, deliverer, lambda: None, lambda: None)
        found = told(receiver)
    database.dispose()
    assert len(found.events) > 5
    assert len(set(found.events)) == len(found.events)
    return found


def _broken() -> None:
    raise ConnectionResetError


def _cut() -> Iterator[bytes]:
    yield b"x"
    raise ConnectionResetError


TROUBLE: dict[str, Callable[[Receiver], Reply]] = {
    "500": lambda _: Reply(status=500, pieces=lambda: iter([b"no"])),
    "503 with a wish": lambda _: Reply(status=503, headers={"retry-after": "120"}),
    "429 with a date": lambda _: Reply(status=429, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
    "reset": lambda _: Reply(before=_broken, status=500),
    "broken off": lambda _: Reply(status=502, pieces=_cut),
    "redirect to the inside": lambda inside: Reply(status=307, headers={"location": inside.url}),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_receiver_in_trouble_is_told_everything_once_by_id(
    trouble: str, upstream: tuple[LoopbackHub, Story], expected: Told, sqlite_database: Database
) -> None:
    with (
        world(*upstream, sqlite_database, **BY_API) as storm,
        receiving() as receiver,
        receiving() as inside,
        told_to(storm, receiver) as deliverer,
    ):

        def begin() -> None:
            receiver.answer = lambda _: TROUBLE[trouble](inside)

        def end() -> None:
            assert receiver.got
            assert receiver.taken == []
            receiver.answer = lambda _: Reply()

        live(storm, deliverer, begin, end)
        assert told(receiver) == expected
        assert inside.got == []


def test_a_receiver_that_never_answers(
    upstream: tuple[LoopbackHub, Story],
    expected: Told,
    sqlite_database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "DEADLINE_SECONDS", 0.3)
    with world(*upstream, sqlite_database, **BY_API) as storm, receiving() as receiver:
        silent: list[Got] = []
        ended = threading.Event()

        def never(got: Got) -> Reply:
            silent.append(got)
            return Reply(status=500, before=lambda: ended.wait(20))

        with told_to(storm, receiver) as deliverer:

            def begin() -> None:
                receiver.answer = never

            def end() -> None:
                monkeypatch.setattr(webhook, "DEADLINE_SECONDS", 20.0)
                receiver.answer = lambda _: Reply()

            live(storm, deliverer, begin, end)
            ended.set()
        assert silent
        assert told(receiver) == expected


def test_a_receiver_that_wants_nothing_more_is_left_alone_and_others_are_told(
    upstream: tuple[LoopbackHub, Story], expected: Told, sqlite_database: Database
) -> None:
    with (
        world(*upstream, sqlite_database, **BY_API) as storm,
        receiving() as receiver,
        receiving() as other,
        told_to(storm, receiver) as deliverer,
        told_to(storm, other, name="sub_other"),
    ):

        def begin() -> None:
            receiver.answer = lambda _: Reply(status=410)

        def end() -> None:
            assert len(receiver.got) == 1
            receiver.answer = lambda _: Reply()
            with storm.site.database.transaction() as tx:
                subscriptions.enable(tx, SUBSCRIPTION)
                deliveries.replay(tx, SUBSCRIPTION, states=[DeliveryState.DEAD], now=storm.site.time)

        live(storm, deliverer, begin, end)
        assert {got.id for got in receiver.got} == {got.id for got in receiver.taken} < expected.messages
        assert told(other).events == expected.events


@pytest.mark.parametrize("weather", ["503", "429 seconds", "partial trees", "flipped bits", "reset"])
def test_a_hub_in_trouble_changes_nothing_of_what_is_told(
    weather: str, upstream: tuple[LoopbackHub, Story], expected: Told, sqlite_database: Database
) -> None:
    chance = random.Random(weather)  # noqa: S311
    upstream[0].faults = Faults(chance.randrange(1 << 32))
    with (
        world(*upstream, sqlite_database, **BY_API) as storm,
        receiving() as receiver,
        told_to(storm, receiver) as deliverer,
    ):
        live(storm, deliverer, lambda: WEATHERS[weather](storm, chance), lambda: None)
        found = told(receiver)
    assert len(set(found.untimed)) == len(found.events)
    # what opened and ended between two looks is told of where a storm made it three
    assert set(found.untimed) >= set(expected.untimed)
