"""Advisories: kept whole, and found by where in history they are open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import advisories, history
from storage.database import Database, Transaction
from storage.model import Advisory, AdvisoryAction, AdvisoryEvent, RecordedEvent, Severity, Span, TrackedFinding
from tests.storage.support import NOW, OTHER, REPO, advisory, finding, landing, sha

HOUR = timedelta(hours=1)


def _ids(found: Iterable[Advisory]) -> list[str]:
    return [item.id for item in found]


def _land_all(tx: Transaction, labels: str, **changed: Any) -> None:
    for label in labels:
        history.land(tx, landing(label, **changed))


def test_an_advisory_is_kept_whole_and_brought_up_to_date(database: Database) -> None:
    ended = TrackedFinding(finding=finding("b", before=None, facts={}), holds=False, ended_by="superseded")
    first = advisory(
        1,
        Span(introduced=sha("a"), fixed=sha("b")),
        Span(introduced=sha("c")),
        predecessor=sha("p"),
        findings=(TrackedFinding(finding=finding()), ended),
        related=("x_HUBWATCH-2026-3333-3333-3333",),
        context={"since_first": True, "estimate": {"delta": -1}},
    )
    with database.transaction() as tx:
        advisories.save(tx, first)
        assert advisories.get(tx, first.id) == first
        assert first.open
        later = replace(
            first,
            findings=(replace(first.findings[0], holds=False, ended_by="restored"), ended),
            spans=(first.spans[0],),
            modified=NOW + HOUR,
            withdrawn=NOW + HOUR,
            superseded_by="x_HUBWATCH-2026-4444-4444-4444",
        )
        advisories.save(tx, later)
        assert advisories.get(tx, first.id) == later
        assert advisories.get(tx, "x_HUBWATCH-2026-9999-9999-9999") is None


def test_searching(database: Database) -> None:
    fixed = Span(introduced=sha("a"), fixed=sha("b"))
    kept = [
        advisory(1, Span(introduced=sha("a")), severity=Severity.LOW),
        advisory(2, fixed, holds=False, published=NOW + HOUR),
        advisory(3, Span(introduced=sha("a")), cls="code.added", published=NOW + HOUR, severity=Severity.CRITICAL),
        advisory(4, Span(introduced=sha("a")), repo=OTHER, published=NOW - HOUR),
        advisory(5, Span(introduced=sha("a")), withdrawn=NOW, published=NOW - 2 * HOUR),
    ]
    with database.transaction() as tx:
        for item in kept:
            advisories.save(tx, item)
        one, two, three, four, five = _ids(kept)
        assert _ids(advisories.search(tx)) == [three, two, one, four, five]
        assert _ids(advisories.search(tx, limit=2)) == [three, two]
        assert _ids(advisories.search(tx, limit=2, after=two)) == [one, four]
        assert _ids(advisories.search(tx, after=five)) == []
        assert _ids(advisories.search(tx, state="open")) == [three, one, four]
        assert _ids(advisories.search(tx, state="closed")) == [two, five]
        assert _ids(advisories.search(tx, min_severity=Severity.HIGH, state="open")) == [three, four]
        assert _ids(advisories.search(tx, cls="code.added")) == [three]
        assert _ids(advisories.search(tx, owner="acme")) == [three, two, one, four, five]
        assert _ids(advisories.search(tx, owner="nobody")) == []
        assert _ids(advisories.of_repo(tx, REPO)) == [three, two, one, five]
        assert _ids(advisories.of_repo(tx, OTHER, state="open")) == [four]
        assert advisories.of_repo(tx, replace(OTHER, name="unknown")) == []


def test_open_at_a_commit(database: Database) -> None:
    with database.transaction() as tx:
        _land_all(tx, "abcdef")
        _land_all(tx, "abcdef", repo=OTHER)
        spans = {
            1: (Span(introduced=sha("b")),),
            2: (Span(introduced=sha("b"), fixed=sha("d")),),
            3: (Span(introduced=sha("b"), last_affected=sha("d")),),
            4: (Span(introduced="0", fixed=sha("b")),),
            5: (Span(introduced=sha("a"), fixed=sha("b")), Span(introduced=sha("e"))),
            6: (),
        }
        for number, parts in spans.items():
            advisories.save(tx, advisory(number, *parts))
        advisories.save(tx, advisory(7, Span(introduced="0"), withdrawn=NOW))
        advisories.save(tx, advisory(8, Span(introduced=sha("f")), repo=OTHER))
        expected = {"a": [4, 5], "b": [1, 2, 3], "c": [1, 2, 3], "d": [1, 3], "e": [1, 5], "f": [1, 5]}
        found = {
            label: [int(item.id[-4:]) for item in advisories.at_commit(tx, sha(label), repo=REPO)]
            for label in "abcdef"
        }
        assert found == expected
        assert [int(item.id[-4:]) for item in advisories.at_commit(tx, sha("f"))] == [1, 5, 8]
        assert advisories.at_commit(tx, sha("unknown")) == []
        listed = advisories.versions(tx, advisories.search(tx))
        by_number = {int(key[-4:]): value for key, value in listed.items()}
        assert by_number[1] == tuple(map(sha, "bcdef"))
        assert by_number[3] == tuple(map(sha, "bcd"))
        assert by_number[5] == (sha("a"), sha("e"), sha("f"))
        assert by_number[6] == ()


def test_open_at_commits_of_a_rewritten_history(database: Database) -> None:
    with database.transaction() as tx:
        _land_all(tx, "abcd")
        opened = advisory(1, Span(introduced=sha("b")))
        early = advisory(2, Span(introduced="0", fixed=sha("c")))
        gone = advisory(3, Span(introduced=sha("c"), last_affected=sha("d")))
        for item in (opened, early, gone):
            advisories.save(tx, item)
        history.rewind(tx, REPO, sha("a"))
        _land_all(tx, "xy")

        def at(label: str) -> list[int]:
            return [int(item.id[-4:]) for item in advisories.at_commit(tx, sha(label))]

        assert {label: at(label) for label in "abcdxy"} == {
            "a": [2], "b": [1, 2], "c": [1, 3], "d": [1, 3], "x": [], "y": []
        }  # fmt: skip
        assert advisories.versions(tx, [opened, early, gone]) == {
            opened.id: (sha("b"), sha("c"), sha("d")),
            early.id: (sha("a"), sha("b")),
            gone.id: (sha("c"), sha("d")),
        }
        advisories.save(tx, replace(opened, spans=(*opened.spans, Span(introduced=sha("x")))))
        assert (at("x"), at("y")) == ([1], [1])
        history.rewind(tx, REPO, sha("a"))
        _land_all(tx, "bcd")  # pushed back
        # x and y come after a, and the fix at c never reached them.
        assert {label: at(label) for label in "abcdxy"} == {
            "a": [2], "b": [1, 2], "c": [1, 3], "d": [1, 3], "x": [1, 2], "y": [1, 2]
        }  # fmt: skip


chains = st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=10)
ends = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["open", "fixed", "last"])), max_size=4
)


@given(chains, ends)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_directions_agree(
    database: Database, steps: list[tuple[bool, int]], given_spans: list[tuple[int, int, str]]
) -> None:
    """An advisory lists a commit exactly when the commit's query finds the advisory, however history was bent."""
    with database.transaction() as tx:
        history.land(tx, landing("before"))
        history.rewind(tx, REPO, None)
        tx.exec_driver_sql("DELETE FROM spans")
        tx.exec_driver_sql("DELETE FROM advisories")
        run = tx.scalar(sa.text("SELECT count(*) FROM revisions"))
        labels = [f"{run}-{number}" for number in range(len(steps))]
        half = len(steps) // 2
        saved: list[Advisory] = []
        for number, (rewrite, choice) in enumerate(steps):
            chain = history.revisions(tx, REPO, newest_first=False)
            if rewrite and chain:
                history.rewind(tx, REPO, chain[choice % len(chain)].revision.sha)
            history.land(tx, landing(labels[number]))
            if number == half:  # the second half bends history under standing advisories
                saved = [
                    advisory(index, _span(labels[: half + 1], *parts)) for index, parts in enumerate(given_spans)
                ]
                for item in saved:
                    advisories.save(tx, item)
        listed = advisories.versions(tx, saved)
        for label in labels:
            found = set(_ids(advisories.at_commit(tx, sha(label))))
            assert found == {item.id for item in saved if sha(label) in listed[item.id]}


def _span(labels: list[str], first: int, end: int, kind: str) -> Span:
    introduced = sha(labels[first % len(labels)])
    other = sha(labels[end % len(labels)])
    if kind == "fixed":
        return Span(introduced=introduced, fixed=other)
    return Span(introduced=introduced, last_affected=other if kind == "last" else None)


def test_documents_that_changed_since(database: Database) -> None:
    with database.transaction() as tx:
        _land_all(tx, "ab")
        growing = advisory(1, Span(introduced=sha("a")))
        closed = advisory(2, Span(introduced=sha("a"), fixed=sha("b")), holds=False)
        edited = advisory(3, Span(introduced=sha("a"), fixed=sha("b")), holds=False, modified=NOW + 2 * HOUR)
        for item in (growing, closed, edited):
            advisories.save(tx, item)
        assert advisories.ids(tx) == {growing.id, closed.id, edited.id}
        assert list(advisories.by_ids(tx, [edited.id, "x", growing.id])) == [edited, growing]
        assert advisories.modified_since(tx, NOW) == {edited.id}
        _land_all(tx, "c", observed_at=NOW + HOUR)
        assert advisories.modified_since(tx, NOW) == {growing.id, edited.id}
        assert advisories.modified_since(tx, NOW + 2 * HOUR) == set()
        assert advisories.listed_since(tx, [growing, closed]) == {growing.id: NOW + HOUR, closed.id: NOW}


def test_events(database: Database) -> None:
    opened, other, state = advisory(1), advisory(2, repo=OTHER, severity=Severity.LOW), advisory(3)
    with database.transaction() as tx:
        for item in (opened, other, state):
            advisories.save(tx, item)
        first = AdvisoryEvent(advisory_id=opened.id, action=AdvisoryAction.OPENED, sha=sha("a"))
        second = AdvisoryEvent(advisory_id=other.id, action=AdvisoryAction.FIXED, sha=sha("a"))
        third = AdvisoryEvent(advisory_id=state.id, action=AdvisoryAction.OPENED, sha=None)
        advisories.record_events(tx, REPO, [first, first], now=NOW)
        advisories.record_events(tx, OTHER, [second], now=NOW)
        advisories.record_events(tx, REPO, [third], now=NOW)
        advisories.record_events(tx, REPO, [first, third], now=NOW)
        advisories.record_events(tx, REPO, [first, third], now=NOW + HOUR)  # the state came back
        assert advisories.events(tx, REPO, [sha("a"), sha("b")]) == {sha("a"): [first], sha("b"): []}
        recent = advisories.recent_events(tx)
        assert [(item.event, item.repo, item.at) for item in recent] == [
            (third, REPO, NOW + HOUR),
            (third, REPO, NOW),
            (second, OTHER, NOW),
            (first, REPO, NOW),
        ]
        assert all(isinstance(item, RecordedEvent) for item in recent)
        assert advisories.recent_events(tx, limit=2, before=recent[0].number) == recent[1:3]
        assert advisories.recent_events(tx, after=recent[2].number) == recent[:2]
        assert advisories.recent_events(tx, repo=OTHER) == [recent[2]]
        assert advisories.recent_events(tx, owner="acme") == recent
        assert advisories.recent_events(tx, min_severity=Severity.HIGH) == [recent[0], recent[1], recent[3]]
