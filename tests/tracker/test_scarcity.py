"""What happens to checks and slower reads when the budget of a window is spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from storage import refs, watches
from storage.database import Database
from storage.model import RepoRef, Urgency, Watch
from storage.refs import SlowRead
from tests.support.site import START, Site, site
from tracker.demo.hub import LoopbackHub
from tracker.hub.errors import BudgetSpent
from tracker.slow import SlowReads
from tracker.worker import Status

REPO = RepoRef(owner="acme", name="a")


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as running:
        running.create(REPO.id).commit({".gitattributes": "x\n", "README.md": "1"})
        yield running


@pytest.fixture
def here(hub: LoopbackHub, database: Database) -> Iterator[Site]:
    """One repo that was read."""
    with site(hub, database, git="off") as made:
        made.poll(made.watch(REPO.id))
        yield made


def spend(monkeypatch: pytest.MonkeyPatch, here: Site) -> None:
    """Nothing may be asked for a minute."""

    def refuse(*_: object, **__: object) -> None:
        raise BudgetSpent("spent", seconds=60, help="wait")

    for name in ("head", "peek"):
        monkeypatch.setattr(here.services.worker.upstream, name, refuse)


def watch_of(here: Site) -> Watch:
    with here.database.snapshot() as tx:
        return watches.require(tx, REPO)


def test_a_hinted_repo_that_may_not_be_asked_waits_for_the_next_window(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.later(days=1)
    with here.database.transaction() as tx:
        assert watches.hint(tx, REPO, now=here.now(), settle=timedelta(0))
    spend(monkeypatch, here)
    assert here.poll(REPO).status is Status.PAUSED
    after = watch_of(here)
    assert (after.urgency, after.next_check_at) == (Urgency.HINTED, here.now() + timedelta(seconds=60))


def test_a_repo_at_rest_keeps_its_place_in_the_line(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    here.later(days=3)
    quiet = replace(watch_of(here), urgency=Urgency.QUIET)
    with here.database.transaction() as tx:
        watches.save(tx, quiet)
    before = watch_of(here).next_check_at
    spend(monkeypatch, here)
    assert here.poll(REPO).status is Status.PAUSED
    assert watch_of(here).next_check_at == before


def test_a_hint_that_comes_meanwhile_is_not_postponed(here: Site) -> None:
    seen = watch_of(here)
    with here.database.transaction() as tx:
        assert watches.hint(tx, REPO, now=here.now(), settle=timedelta(0))
        watches.postpone(tx, seen, here.now() + timedelta(hours=1))
    assert watch_of(here).next_check_at == here.now()


def test_slower_reads_wait_for_room_and_are_no_failure(here: Site) -> None:
    asked: list[str] = []
    room = False

    def read(watch: Watch, source: RepoRef) -> int:
        asked.append(watch.repo.id)
        raise BudgetSpent("spent", seconds=60, help="wait")

    watch = watch_of(here)
    head = here.services.worker.upstream.head(REPO)
    slow = SlowReads(here.database, {"refs": read}, timedelta(hours=6), here.now, affordable=lambda: room)
    overdue = SlowRead(due_at=START - timedelta(hours=1), head=watch.head)
    with here.database.transaction() as tx:
        refs.reschedule(tx, REPO, "refs", overdue)
    with here.database.snapshot() as tx:
        assert not slow.is_due(tx, watch)
    slow.run(watch, head, REPO)
    assert asked == []
    room = True
    slow.run(watch, head, REPO)
    assert asked == [REPO.id]
    with here.database.snapshot() as tx:
        assert slow.is_due(tx, watch)
        assert refs.schedule(tx, REPO, "refs") == overdue
