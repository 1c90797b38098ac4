from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from advisories import publish
from advisories.osv import timestamp
from advisories.osv_model import OsvDocument
from advisories.rules.judge import judge_state
from advisories.states import end_state, open_state
from storage.database import Database
from storage.model import Change, RepoRef, Severity
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, START, finding, sha


@pytest.fixture
def kept(database: Database) -> Kept:
    return Kept(database)


def document(kept: Kept, advisory_id: str) -> dict[str, Any]:
    with kept.database.snapshot() as tx:
        made = publish.document_of(tx, advisory_id)
    assert made is not None
    OsvDocument.model_validate_json(publish.to_json(made))
    return made


def versions(kept: Kept, value: str) -> list[str] | None:
    found: list[str] | None = document(kept, kept.story.of(value).id)["affected"][0].get("versions")
    return found


def test_versions_are_every_commit_at_which_it_is_open_oldest_first(kept: Kept) -> None:
    kept.rope("A", "B", "B", "C", "B", "A", "B")
    assert versions(kept, "B") == [sha(number) for number in (1, 2, 4, 6)]
    assert versions(kept, "C") == [sha(3)]


def test_from_the_horizon_on(kept: Kept) -> None:
    kept.land({"config:rope": "X"}, findings=[finding("config:rope", None, "X")], horizon=True)
    kept.rope("X", "Y")
    assert versions(kept, "X") == [sha(0), sha(1)]


def test_a_longer_list_moves_modified_of_the_document_alone(kept: Kept) -> None:
    kept.rope("A", "B")
    opened = document(kept, kept.story.of("B").id)
    assert opened["modified"] == opened["published"]
    kept.rope("B")
    longer = document(kept, kept.story.of("B").id)
    assert longer["modified"] == timestamp(kept.story.clock(2))
    assert kept.story.of("B").modified == kept.story.clock(1)


def test_info_lists_its_own_commit_only(kept: Kept) -> None:
    made = finding("card:text", "a", "b", cls="card.only", severity=Severity.INFO)
    kept.land({"card:text": "a"})
    kept.land({"card:text": "b"}, findings=[made])
    kept.land({"card:text": "b"})
    (advisory,) = kept.story.state
    found = document(kept, advisory.id)
    assert found["affected"][0]["versions"] == [sha(1)]
    assert found["modified"] == found["published"]


def gate(kept: Kept, *, now_days: int = 5) -> str:
    now = START + timedelta(days=now_days)
    change = Change(cls="repo.gated", path="", summary="asks for access now", before=None, after="auto")
    step = open_state(
        kept.story.state, repo=REPO, ref="main", finding=judge_state(change), key="gated:auto", sha=sha(0), now=now
    )
    kept.keep(step, now=now)
    return step.advisories[0].id


def test_a_state_of_the_repo_has_no_versions(kept: Kept) -> None:
    kept.rope("A")
    advisory_id = gate(kept)
    assert "versions" not in document(kept, advisory_id)["affected"][0]
    now = START + timedelta(days=6)
    kept.keep(end_state(kept.story.state, cls="repo.gated", now=now), now=now)
    assert document(kept, advisory_id)["withdrawn"] == timestamp(now)
    with kept.database.snapshot() as tx:
        assert publish.state_of(publish.documents(tx)[0]) == "ended"


def test_documents_are_filtered_and_newest_first(kept: Kept) -> None:
    kept.rope("A", "B", "C")
    with kept.database.snapshot() as tx:
        ids = [made["id"] for made in publish.documents(tx)]
        assert ids == [kept.story.of("C").id, kept.story.of("B").id]
        assert [made["id"] for made in publish.documents(tx, state="open")] == ids[:1]
        assert [made["id"] for made in publish.documents(tx, limit=1, after=ids[0])] == ids[1:]
        assert publish.documents(tx, repo=RepoRef(owner="other", name="repo")) == []
        assert publish.documents(tx, min_severity=Severity.CRITICAL) == []
        assert publish.document_of(tx, "x_HUBWATCH-2026-2222-2222-2222") is None
        headlines = publish.newest(tx, limit=5)
    assert [(item.id, item.state, item.severity) for item in headlines] == [
        (ids[0], "open", "high"),
        (ids[1], "closed", "high"),
    ]


def test_the_text_is_the_same_each_time(kept: Kept) -> None:
    kept.rope("A", "B")

    def texts() -> Iterator[str]:
        with kept.database.snapshot() as tx:
            yield from map(publish.to_json, publish.documents(tx))

    assert list(texts()) == list(texts())
    assert json.loads(next(texts()))["id"] == kept.story.of("B").id
