"""Refs, related repos and slower readings, as kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from storage import refs, watches
from storage.database import Database
from storage.errors import NotFound
from storage.model import RepoRef
from storage.refs import RelatedRepo, SlowRead

REPO = RepoRef(owner="acme", name="tiny")
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_what_is_kept_replaces_what_was(database: Database) -> None:
    with database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
        refs.keep(tx, REPO, {"refs/heads/main": "a" * 40, "refs/tags/v\udce91": "b" * 40})
        refs.keep(tx, REPO, {"refs/heads/main": "c" * 40})
        refs.keep_related(tx, REPO, "code", {"them/code": RelatedRepo(hub_id="1", head="d" * 40)})
        refs.keep_related(tx, REPO, "base", {"them/base": RelatedRepo(hub_id=None, head=None)})
        refs.reschedule(tx, REPO, "refs", SlowRead(due_at=NOW))
        refs.reschedule(tx, REPO, "refs", SlowRead(due_at=NOW, head="a" * 40, errors=2))
    with database.snapshot() as tx:
        assert refs.known(tx, REPO) == {"refs/heads/main": "c" * 40}
        assert refs.related(tx, REPO, "code") == {"them/code": RelatedRepo(hub_id="1", head="d" * 40)}
        assert refs.schedule(tx, REPO, "refs") == SlowRead(due_at=NOW, head="a" * 40, errors=2)
        assert refs.schedule(tx, REPO, "related") is None


def test_a_name_that_was_taken_starts_from_nothing(database: Database) -> None:
    with database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
        refs.keep(tx, REPO, {"refs/heads/main": "a" * 40})
        refs.keep_related(tx, REPO, "base", {"them/base": RelatedRepo(hub_id="1", head=None)})
        refs.reschedule(tx, REPO, "refs", SlowRead(due_at=NOW))
        refs.forget(tx, REPO)
    with database.snapshot() as tx:
        assert (refs.known(tx, REPO), refs.related(tx, REPO, "base"), refs.schedule(tx, REPO, "refs")) == (
            {},
            {},
            None,
        )


def test_an_unknown_repo_has_none_and_keeps_none(database: Database) -> None:
    with database.snapshot() as tx:
        assert refs.known(tx, REPO) == {}
    with database.transaction() as tx, pytest.raises(NotFound):
        refs.keep(tx, REPO, {})


def test_watches_of_the_same_name(database: Database) -> None:
    with database.transaction() as tx:
        for owner, name in (("acme", "tiny"), ("acne", "Tiny"), ("acme", "other")):
            watches.add(tx, RepoRef(owner=owner, name=name), now=NOW)
        assert [watch.repo.id for watch in watches.same_name(tx, REPO)] == ["acne/Tiny"]
