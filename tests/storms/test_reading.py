"""Every kind of fault, while a repo is followed and while its whole history is read; then calm."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage import outbox
from storage.database import Database
from tests.soak.storm import differences, repeats
from tests.storms.story import Story, written
from tests.storms.weather import SLOW, WEATHERS
from tests.storms.world import BY_API, BY_GIT, World, opened, world
from tests.support.models import llama
from tracker.demo import faults
from tracker.demo.faults import matching
from tracker.demo.hub import LoopbackHub
from tracker.demo.injection import Faults
from tracker.worker import Status

SEEDS = range(int(os.environ.get("STORM_SEEDS", "0")))
"""Storms of each kind, by ``make storm``; without, one of each weather."""
ROUNDS = 3
MODES = {"followed": BY_API, "read whole by the API": BY_API, "read whole by git": BY_GIT}
UNSEEN = {
    ("partial trees", "read whole by git"),
    ("flipped bits in packs", "followed"),
    ("flipped bits in packs", "read whole by the API"),
}
"""Weather that a mode does not meet."""
ALWAYS = {("stale main", "followed"), ("partial trees", "followed"), ("partial trees", "read whole by the API")}


def storms() -> list[tuple[str, str, int]]:
    """Weather, mode and seed of each."""
    met = [pair for pair in itertools.product(WEATHERS, MODES) if pair not in UNSEEN]
    if SEEDS:
        return [(*pair, seed) for seed in SEEDS for pair in met]
    chosen = {number: list(MODES)[number % len(MODES)] for number in range(len(WEATHERS))}
    named = {(weather, chosen[number]) for number, weather in enumerate(WEATHERS)} | ALWAYS
    named |= {("flipped bits in packs", "read whole by git")}
    return [(*pair, 0) for pair in met if pair in named]


pytestmark = pytest.mark.usefixtures("nobody_sleeps")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopbackHub, Story]]:
    """One Hub for all: a storm leaves no trace on it."""
    with LoopbackHub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub, written(hub)
    assert not hub.crashes


@pytest.fixture(scope="module")
def calm(
    upstream: tuple[LoopbackHub, Story], sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What is learned when nothing goes wrong, by mode."""
    learned = {}
    for mode, settings in MODES.items():
        path = tmp_path_factory.mktemp("calm") / "hubwatch.db"
        shutil.copy(sqlite_template, path)
        with opened(f"sqlite:///{path}") as database, world(*upstream, database, **settings) as quiet:
            for stage in stages(mode, quiet.story):
                quiet.story.tell(stage)
                assert quiet.settle().status is Status.OK
            learned[mode] = quiet.learned()
    return learned


def stages(mode: str, story: Story) -> list[int]:
    """The stages between which the repo is looked at: all, or only the last but one, with most revisions."""
    every = list(range(len(story.ends)))
    return every if mode == "followed" else every[-2:-1]


def ride(storm: World, weather: str, mode: str, chance: random.Random) -> None:
    """Live through the story in bad weather, each of its stages ending in calm."""
    for stage in stages(mode, storm.story):
        storm.story.tell(stage)
        for _ in range(1 if weather in SLOW else ROUNDS):
            WEATHERS[weather](storm, chance)
            outcome = storm.check(storm.stormy)
            if outcome.wait is not None:
                storm.hub.clear()
                assert storm.check(storm.steady).status is Status.PAUSED
                assert storm.hub.requests == []
                storm.site.later(seconds=outcome.wait + 1)
            storm.check_steady()
            storm.hub.faults.clear()
            storm.site.later(minutes=chance.randrange(1, 40))
        storm.settle()


def without_marks(learned: dict[str, Any]) -> dict[str, Any]:
    """Revisions without the mark of those that were there before the watch began."""
    return {
        name: parts | {"revisions": [row[:-1] for row in parts["revisions"]]} for name, parts in learned.items()
    }


@pytest.mark.parametrize(("weather", "mode", "seed"), storms())
def test_after_the_storm_all_is_as_in_calm(
    weather: str,
    mode: str,
    seed: int,
    upstream: tuple[LoopbackHub, Story],
    calm: dict[str, Any],
    sqlite_database: Database,
) -> None:
    hub, _ = upstream
    options = MODES[mode] | ({"deadline_seconds": 1.5} if weather in SLOW else {})
    chance = random.Random(f"{weather} {mode} {seed}")  # noqa: S311
    hub.faults = Faults(chance.randrange(1 << 32))  # a storm is the same whatever came before it
    with world(*upstream, sqlite_database, **options) as storm:
        try:
            ride(storm, weather, mode, chance)
        finally:
            hub.faults.clear()
        learned = storm.learned()
    expected = calm[mode]
    if weather == "stale main":  # what came before the watch began follows from where main was said to be then
        expected, learned = (without_marks(item) for item in (expected, learned))
    assert list(differences(expected, learned)) == []
    assert list(repeats(learned)) == []


@pytest.mark.parametrize("how", ["force push", "squash"])
def test_a_rewriting_that_is_cut_short_is_told_as_one(
    how: str, tmp_path: Path, sqlite_database: Database, sqlite_template: Path
) -> None:
    path = tmp_path / "calm.db"
    shutil.copy(sqlite_template, path)
    with (
        LoopbackHub(tmp_path / "hub") as hub,
        opened(f"sqlite:///{path}") as calm_database,
        world(hub, story := written(hub), calm_database, **BY_API) as quiet,
        world(hub, story, sqlite_database, **BY_API) as storm,
    ):
        story.tell(2)
        for place in (quiet, storm):
            place.settle()
        if how == "squash":
            story.repo.squash()
            story.repo.commit({"config.json": llama(eos_token_id=9)}, title="after the squash")
        else:
            story.tell(3)
        quiet.settle()
        for _ in range(2):  # once before the new chain begins, once within it
            hub.faults.add(faults.server_error(500), when=matching(path="*/tree/*"), skip=1)
            assert storm.check(storm.stormy).status is Status.ERROR
            hub.faults.clear()
        storm.settle()
        assert list(differences(quiet.learned(), storm.learned())) == []
        assert len(told_of(storm)) == len(told_of(quiet)) == 1


def told_of(place: World) -> list[str]:
    """What is told of a rewriting: one message, whatever its new chain holds."""
    with place.site.database.snapshot() as tx:
        return [item.key for item in outbox.pending(tx, 1000) if "rewritten" in str(item.payload)]
