"""What is asked in one question, what by itself, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from storage import watches
from storage.database import Database
from storage.model import RepoRef, Urgency, Watch
from tests.support.site import Site, site
from tracker.demo.faults import server_error
from tracker.demo.hub import LoopbackHub
from tracker.demo.injection import matching
from tracker.scheduler import Scheduler


class Hands:
    """A dispatcher that only notes what it is handed."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def start(self) -> None:
        """Nothing to start."""

    def submit(self, watch: Watch) -> bool:
        """Note the repo."""
        self.taken.append(watch.repo.id)
        return True

    def drain(self, timeout: float | None = None) -> bool:
        """Nothing runs."""
        return True


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as running:
        yield running


@pytest.fixture
def here(hub: LoopbackHub, database: Database) -> Iterator[Site]:
    """Four read repos of one owner and one of another, an hour after they were read."""
    with site(hub, database, git="off") as made:
        for name in ("acme/a", "acme/b", "acme/c", "acme/d", "birch/a"):
            hub.create(name).commit({".gitattributes": "x\n", "README.md": name})
            made.poll(made.watch(name))
        hub.requests.clear()
        made.later(days=1)
        yield made


def asked(hub: LoopbackHub) -> list[str]:
    paths = [request.path for request in hub.requests]
    hub.requests.clear()
    return paths


def due(here: Site) -> list[Watch]:
    with here.database.snapshot() as tx:
        return watches.due(tx, here.now(), limit=99)


def tick(here: Site) -> Hands:
    hands = Hands()
    Scheduler(here.database, hands, here.services.rounds, here.now).tick()
    here.services.rounds.drain(10)
    return hands


def test_a_tick_lists_an_owner_and_hands_on_the_others(hub: LoopbackHub, here: Site) -> None:
    hands = tick(here)
    assert asked(hub) == ["/api/models"]
    assert hands.taken == ["birch/a"]
    assert [watch.repo.id for watch in due(here)] == ["birch/a"]


def test_what_a_listing_shows_to_have_moved_is_handed_on(hub: LoopbackHub, here: Site) -> None:
    hub.repo("acme/b").commit({"README.md": "moved"})
    assert sorted(tick(here).taken) == ["acme/b", "birch/a"]
    assert asked(hub) == ["/api/models"]
    # it stays due until it is checked, and is not listed again for that
    plan = here.services.rounds.plan(due(here))
    assert (list(plan.listings), sorted(watch.repo.id for watch in plan.single)) == ([], ["acme/b", "birch/a"])


def test_a_hinted_repo_never_waits_for_a_listing(hub: LoopbackHub, here: Site) -> None:
    with here.database.transaction() as tx:
        assert watches.hint(tx, RepoRef.parse("acme/c"), now=here.now(), settle=timedelta(seconds=30))
    assert due(here)[0].repo.id == "acme/c"
    assert tick(here).taken[0] == "acme/c"


@pytest.mark.parametrize("lie", ["another id", "another name", "gated"])
def test_a_listing_that_says_anything_else_settles_nothing(hub: LoopbackHub, here: Site, lie: str) -> None:
    model = hub.model("acme/a")
    if lie == "another id":
        model.hub_id = "f" * 24
    elif lie == "another name":
        hub.rename("acme/a", "acme/z")
    else:
        model.gated = "auto"
    assert "acme/a" in tick(here).taken


def test_an_owner_whose_listing_fails_is_asked_repo_by_repo(hub: LoopbackHub, here: Site) -> None:
    hub.faults.add(server_error(500), when=matching(path="/api/models"))
    assert len(tick(here).taken) == 5


def test_a_listing_read_for_new_repos_answers_for_the_old_ones(hub: LoopbackHub, here: Site) -> None:
    with here.database.transaction() as tx:
        watches.add_owner(tx, "acme", now=here.now())
    hub.create("acme/new").commit({"README.md": "new"})
    looked = here.services.owners.look()
    assert [repo.id for repo in looked.added] == ["acme/new"]
    assert asked(hub) == ["/api/models"]
    assert sorted(watch.repo.id for watch in due(here)) == ["acme/new", "birch/a"]


def test_a_hint_during_a_check_is_not_lost(hub: LoopbackHub, here: Site) -> None:
    repo = RepoRef.parse("acme/a")
    head = here.services.worker.upstream.head

    def hinted(*args: object, **kwargs: object) -> object:
        with here.database.transaction() as tx:
            watches.hint(tx, repo, now=here.now(), settle=timedelta(0))
        return head(*args, **kwargs)  # type: ignore[arg-type]

    here.services.worker.upstream.head = hinted  # type: ignore[method-assign, assignment]
    here.poll(repo)
    with here.database.snapshot() as tx:
        after = watches.require(tx, repo)
    assert (after.urgency, after.next_check_at) == (Urgency.HINTED, here.now())


def test_the_urgent_are_handed_on_before_anybody_is_listed(hub: LoopbackHub, here: Site) -> None:
    with here.database.transaction() as tx:
        assert watches.hint(tx, RepoRef.parse("acme/b"), now=here.now(), settle=timedelta(0))
    seen: list[list[str]] = []
    hands = Hands()
    rounds = here.services.rounds
    listing = rounds.submit
    rounds.submit = lambda *given: seen.append(list(hands.taken)) or listing(*given)  # type: ignore[method-assign,func-returns-value]
    Scheduler(here.database, hands, rounds, here.now).tick()
    assert seen == [["acme/b"]]
