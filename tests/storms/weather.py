"""Kinds of bad weather: each puts its faults in force on the requests about one repo."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from tests.storms.story import STORMY
from tests.storms.world import World
from tracker.demo import faults
from tracker.demo.injection import Action, Condition
from tracker.demo.wire import Request

Weather = Callable[[World, random.Random], None]

LONG = 600.0
"""Seconds of a stall: longer than any deadline."""


@dataclass(frozen=True, slots=True)
class About:
    """Requests about the repo in the storm: of these kinds, with this in the path, whole files or all."""

    kinds: tuple[str, ...] = ("api", "resolve", "storage", "git")
    part: str = ""
    whole: bool = False
    method: str | None = None

    def __call__(self, request: Request) -> bool:
        """Whether a request is one of them; those to the storage name no repo."""
        ours = f"/{STORMY}/" in f"{request.path}/" or request.kind == "storage"
        return (
            ours
            and request.kind in self.kinds
            and self.part in request.path
            and not (self.whole and request.header("range"))
            and self.method in {None, request.method}
        )


def _faulty(make: Callable[[random.Random], Action], when: Condition, share: float, times: int | None) -> Weather:
    def weather(world: World, chance: random.Random) -> None:
        world.hub.faults.add(make(chance), when=when, chance=share, times=times)

    return weather


def _failing(status: int, _chance: random.Random) -> Action:
    return faults.server_error(status)


def limited(form: str) -> Weather:
    """429 in one of its forms."""

    def weather(world: World, chance: random.Random) -> None:
        seconds = chance.randrange(5, 280)
        action = faults.rate_limited(seconds, form=form, now=world.site.time.timestamp())
        world.hub.faults.add(action, when=About(("api", "resolve", "git")), chance=0.3)

    return weather


def skewed(world: World, chance: random.Random) -> None:
    """Our clock is hours off, the Hub's date is odd, and the Hub names a time by its own."""
    hours = chance.choice((-7, -3, 4, 9))
    theirs = world.site.time
    world.site.later(hours=hours)
    world.hub.faults.add(
        faults.rate_limited(60, form="date", now=theirs.timestamp()), when=About(("api", "resolve")), chance=0.3
    )
    date = chance.choice((theirs, theirs - timedelta(days=20_000), theirs + timedelta(days=9_000)))
    world.hub.faults.add(faults.headers(Date=date.strftime("%a, %d %b %Y %H:%M:%S GMT")), when=About())


def stale(world: World, chance: random.Random) -> None:
    """Main is where it was before, by every answer of the API but the refs, and its files are gone."""
    old = chance.choice(world.story.so_far)
    share = chance.choice((0.5, 1.0))
    world.hub.faults.add(faults.stale(old), when=About(("api", "resolve")), chance=share)
    world.hub.faults.add(faults.file_gone(), when=About(("resolve",), part=old))


def partial_trees(world: World, chance: random.Random) -> None:
    """Trees lose entries and stay valid JSON."""
    world.hub.faults.add(faults.lose(chance), when=About(("api",), part="/tree/"), chance=0.7)


def partial_commits(world: World, chance: random.Random) -> None:
    """The list of commits loses some, but never the first: that the client checks anyway."""

    def lost(rows: list[object]) -> list[object]:
        return rows[:1] + [row for row in rows[1:] if chance.random() < 0.5] if len(rows) > 1 else rows

    world.hub.faults.add(faults.edit_json(lost), when=About(("api",), part="/commits/"), chance=0.7)


API_AND_FILES = About(("api", "resolve", "storage"))
WEATHERS: dict[str, Weather] = {
    **{f"429 {form}": limited(form) for form in ("ratelimit", "seconds", "date", "none")},
    **{str(status): _faulty(partial(_failing, status), About(), 0.5, None) for status in (500, 502, 503, 504)},
    "silence": _faulty(lambda _: faults.stall(LONG), About(), 0.4, 1),
    "silence in the middle": _faulty(lambda _: faults.stall_body(LONG, after=3), About(), 0.4, 1),
    "reset": _faulty(lambda _: faults.reset(), About(), 0.5, None),
    "truncated": _faulty(lambda chance: faults.truncate(chance.randrange(1, 60)), About(), 0.5, None),
    "half of a JSON": _faulty(lambda chance: faults.shorten(chance.randrange(2, 90)), About(("api",)), 0.5, None),
    "flipped bits": _faulty(faults.flip, About(("resolve", "storage"), whole=True), 0.7, None),
    "flipped bits in packs": _faulty(faults.flip, About(("git",), method="POST"), 0.7, None),
    "wrong hashes": _faulty(lambda _: faults.wrong_hash(), About(("resolve", "storage")), 0.6, None),
    "files gone": _faulty(lambda _: faults.file_gone(), About(("resolve", "storage")), 0.6, None),
    "links elsewhere": _faulty(lambda _: faults.foreign_link("http://127.0.0.1:9"), About(("api",)), 0.6, None),
    "expired links": _faulty(lambda _: faults.expired_links(), About(("resolve",)), 0.6, None),
    "stale main": stale,
    "partial trees": partial_trees,
    "partial commits": partial_commits,
    "clocks apart": skewed,
}
SLOW = {"silence", "silence in the middle"}
"""Weather that takes real time: as long as the deadline, once."""
