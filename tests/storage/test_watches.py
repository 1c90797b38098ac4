"""Watches, leases, owners."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from storage import watches
from storage.database import Database
from storage.errors import NotFound, UsageError
from storage.model import RepoRef, RepoState, Urgency, Watch
from tests.storage.support import NOW, OTHER, REPO

MINUTE = timedelta(minutes=1)


def _repo(number: int) -> RepoRef:
    return RepoRef(owner="acme", name=f"m{number}")


def test_adding_and_reading(database: Database) -> None:
    with database.transaction() as tx:
        added = watches.add(
            tx, REPO, now=NOW, ref="dev", every=30 * MINUTE, since=NOW - MINUTE, from_head=True, public=True
        )
        watches.add(tx, OTHER, now=NOW)
    with database.snapshot() as tx:
        assert watches.get(tx, REPO) == watches.require(tx, REPO) == added
        assert added == Watch(
            id=added.id,
            repo=REPO,
            ref="dev",
            every=30 * MINUTE,
            since=NOW - MINUTE,
            from_head=True,
            public=True,
            created_at=NOW,
            next_check_at=NOW,
            urgency=Urgency.MOVING,
        )
        assert [watch.repo for watch in watches.list_all(tx)] == [OTHER, REPO]
        assert watches.list_all(tx, owner="nobody") == []
        assert watches.get(tx, RepoRef(owner="a", name="b")) is None


def test_adding_twice_is_refused(database: Database) -> None:
    with database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
        with pytest.raises(UsageError, match="hubwatch watch remove acme/tiny"):
            watches.add(tx, REPO, now=NOW)


def test_what_is_not_watched(database: Database) -> None:
    with database.transaction() as tx:
        for act in (watches.require, watches.remove, watches.pause):
            with pytest.raises(NotFound, match="hubwatch watch add acme/tiny"):
                act(tx, REPO)


def test_a_check_keeps_what_it_learned_and_no_more(database: Database) -> None:
    with database.transaction() as tx:
        before = watches.add(tx, REPO, now=NOW)
        watches.pause(tx, REPO)  # while the check runs
        learned = replace(
            before,
            hub_id="65a",
            canonical="acme/tiny2",
            repo_created_at=NOW - 9 * MINUTE,
            state=RepoState.RENAMED,
            gated="manual",
            private=True,
            backfill_target="b" * 40,
            head="c" * 40,
            checked_at=NOW,
            next_check_at=NOW + MINUTE,
            errors=3,
            last_error="x\x00\ud800",
            missing_since=NOW,
            missing_count=2,
        )
        watches.save(tx, learned)
        assert watches.require(tx, REPO) == replace(learned, paused=True)


def test_a_removed_watch_stays_removed(database: Database) -> None:
    with database.transaction() as tx:
        watch = watches.add(tx, REPO, now=NOW)
        watches.remove(tx, REPO)
        watches.save(tx, replace(watch, hub_id="65a"))
        assert watches.get(tx, REPO) is None
        again = watches.add(tx, REPO, now=NOW)
        assert again.id != watch.id
        assert again.hub_id == "65a"


def test_due(database: Database) -> None:
    with database.transaction() as tx:
        for number in range(6):
            watches.add(tx, _repo(number), now=NOW + number * MINUTE)
        watches.pause(tx, _repo(0))
        leased, never = watches.require(tx, _repo(1)), watches.require(tx, _repo(3))
        watches.claim(tx, leased.id, "somebody", NOW, NOW + 4 * MINUTE)
        watches.save(tx, replace(never, next_check_at=None))  # then as of its making
        later = NOW + 4 * MINUTE - timedelta(microseconds=1)
        assert [watch.repo.name for watch in watches.due(tx, later, limit=9)] == ["m2", "m3"]
        assert [watch.repo.name for watch in watches.due(tx, later, limit=1)] == ["m2"]
        assert [watch.repo.name for watch in watches.due(tx, NOW + 4 * MINUTE, limit=9)] == [
            "m1",
            "m2",
            "m3",
            "m4",
        ]
        watches.resume(tx, _repo(0), now=NOW)
        assert watches.due(tx, NOW, limit=9)[0].repo == _repo(0)
        watches.save(tx, replace(watches.require(tx, _repo(0)), urgency=Urgency.QUIET))
        hinted = replace(watches.require(tx, _repo(4)), urgency=Urgency.HINTED)
        watches.save(tx, hinted)
        assert [watch.repo.name for watch in watches.due(tx, NOW + 4 * MINUTE, limit=9)][::5] == ["m4"]
        assert watches.due(tx, NOW + 4 * MINUTE, limit=9)[-1].repo == _repo(0)


# --- leases --------------------------------------------------------------------------------------


def test_a_lease_has_one_holder(database: Database) -> None:
    with database.transaction() as tx:
        watch = watches.add(tx, REPO, now=NOW)
        until = NOW + MINUTE
        assert watches.lease_holder(tx, watch.id) is None
        assert watches.claim(tx, watch.id, "a", NOW, until)
        assert not watches.claim(tx, watch.id, "b", NOW, until)
        assert not watches.claim(tx, watch.id, "a", NOW, until)
        watches.release(tx, watch.id, "b")
        assert watches.lease_holder(tx, watch.id) == "a"
        assert not watches.renew(tx, watch.id, "b", until + MINUTE)
        assert watches.renew(tx, watch.id, "a", until + MINUTE)
        assert not watches.claim(tx, watch.id, "b", until, until + MINUTE)
        assert watches.claim(tx, watch.id, "b", until + MINUTE, until + 2 * MINUTE)
        assert not watches.renew(tx, watch.id, "a", until + 9 * MINUTE)
        watches.release(tx, watch.id, "a")
        assert watches.lease_holder(tx, watch.id) == "b"
        watches.release(tx, watch.id, "b")
        assert watches.claim(tx, watch.id, "c", NOW, until)
        assert not watches.claim(tx, watch.id + 1, "c", NOW, until)


def test_claims_never_overlap(database: Database) -> None:
    """Eight threads fight for three watches; whoever holds one marks it, and must find it unmarked."""
    with database.transaction() as tx:
        ids = [watches.add(tx, _repo(number), now=NOW).id for number in range(3)]
    held = dict.fromkeys(ids, 0)
    seen: list[int] = []
    wins = [0]
    guard = threading.Lock()
    start = threading.Barrier(8)

    def fight(name: str) -> None:
        start.wait()
        for turn in range(12):
            watch_id = ids[turn % 3]
            with database.transaction() as tx:
                mine = watches.claim(tx, watch_id, name, NOW, NOW + MINUTE)
            if not mine:
                continue
            with guard:
                seen.append(held[watch_id])
                held[watch_id] += 1
                wins[0] += 1
            with database.snapshot() as tx:
                watches.get(tx, _repo(0))
            with guard:
                held[watch_id] -= 1
            with database.transaction() as tx:
                watches.release(tx, watch_id, name)

    threads = [threading.Thread(target=fight, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {0}
    assert wins[0] >= 3


# --- owners --------------------------------------------------------------------------------------


def test_owners(database: Database) -> None:
    with database.transaction() as tx:
        added = watches.add_owner(tx, "acme", now=NOW, every=MINUTE, since=NOW, from_head=True, public=True)
        watches.add_owner(tx, "aaa", now=NOW)
        assert [item.owner for item in watches.owners(tx)] == ["aaa", "acme"]
        assert watches.get_owner(tx, "acme") == added
        assert (added.known, added.every, added.since, added.next_check_at) == (None, MINUTE, NOW, NOW)
        watches.pause_owner(tx, "acme")
        learned = replace(
            added,
            known=frozenset({"tiny", "other"}),
            checked_at=NOW,
            next_check_at=NOW + MINUTE,
            errors=1,
            last_error="x",
        )
        watches.save_owner(tx, learned)
        assert watches.get_owner(tx, "acme") == replace(learned, paused=True)
        watches.save_owner(tx, replace(learned, known=frozenset()))
        assert watches.get_owner(tx, "acme").known == frozenset()  # type: ignore[union-attr]
        with pytest.raises(UsageError, match="hubwatch watch remove 'acme/\\*'"):
            watches.add_owner(tx, "acme", now=NOW)
        watches.remove_owner(tx, "acme")
        assert watches.get_owner(tx, "acme") is None
        for act in (watches.remove_owner, watches.pause_owner):
            with pytest.raises(NotFound, match="hubwatch watch add 'acme/\\*'"):
                act(tx, "acme")
