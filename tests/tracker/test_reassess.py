"""A history judged again: nothing moves within one version; what another one said is brought up to this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from storage import advisories, amend, changes, estimates, history, outbox, watches
from storage.database import Database
from storage.model import Advisory, RepoRef, Severity, Span, TrackedFinding
from storage.tables import advisories as advisory_rows
from storage.tables import advisory_events, spans
from tests.storage.support import finding
from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tests.support.site import Site, site
from tracker.demo.files import LargeFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content
from tracker.housekeeping import prune
from tracker.reassess import Outcome, Reassessor
from tracker.snapshot.build import Parser

REPO = RepoRef.parse("acme/tiny")
STEPS: list[dict[str, Content]] = [
    {".gitattributes": "*.safetensors filter=lfs\n"},
    {"config.json": llama(), "model.safetensors": weights(), "README.md": "# Tiny\n"},
    {"tokenizer_config.json": tokenizer_config()},
    {"tokenizer_config.json": tokenizer_config(THINKING)},
    {"config.json": "{ not json"},
    {"README.md": "# Tiny\n\nwords\n"},
    {"config.json": llama(rope_theta=5.0, num_hidden_layers=3)},
    {"pytorch_model.bin": LargeFile(b"PK\x03\x04", 4000), "run.py": "import os\n"},
    {"tokenizer_config.json": tokenizer_config(TEMPLATE)},
    {"config.json": llama()},
    {"pytorch_model.bin": None, "run.py": "import os\nos.system('ls')\n"},
    {"config.json": llama(rope_theta=5.0)},
]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub(tmp_path / "hub") as running:
        yield running
    assert not running.crashes


@pytest.fixture
def at(hub: LoopbackHub, database: Database) -> Iterator[Site]:
    """An installation that has read the history above."""
    repo = hub.create(REPO.id)
    with site(hub, database) as made:
        for number, files in enumerate(STEPS):
            repo.commit(files, title=f"step {number}", author="ada" if number % 3 else "bob")
        made.watch(REPO.id)
        assert made.poll(REPO).new_revisions == len(STEPS)
        made.later(days=30)
        yield made


def reassess(at: Site, **options: Any) -> Outcome:
    services = at.services
    return Reassessor(at.database, services.loader, services.examiner, at.now).reassess(REPO, **options)


def everything(at: Site) -> list[object]:
    """All that is said of the repo."""
    with at.database.snapshot() as tx:
        rows = history.revisions(tx, REPO)
        shas = [row.revision.sha for row in rows]
        return [
            rows,
            changes.by_revision(tx, REPO, shas),
            estimates.by_revision(tx, REPO, shas),
            [history.gaps(tx, REPO, sha) for sha in shas],
            at.advisories(REPO),
            advisories.events(tx, REPO, shas),
        ]


def assert_nothing(outcome: Outcome) -> None:
    assert outcome.error is None
    done = outcome.reconciled
    assert (done.added, done.changed, done.withdrawn, done.events) == ((), (), (), ())
    assert (outcome.revisions, outcome.estimates) == (0, 0)


def test_within_one_version_nothing_moves(at: Site) -> None:
    before = everything(at)
    outcome = reassess(at)
    assert_nothing(outcome)
    assert outcome.status == "ok"
    assert outcome.reconciled.unchanged == len(at.advisories(REPO)) > 8
    assert everything(at) == before


@pytest.mark.parametrize("options", [{"from_head": True}, {"ref": "main"}])
def test_nor_where_history_was_cut_or_read_in_pieces(
    hub: LoopbackHub, database: Database, options: dict[str, Any]
) -> None:
    repo = hub.create(REPO.id)
    with site(hub, database) as at:
        for files in STEPS[:3]:
            repo.commit(files, title="commit")
        at.watch(REPO.id, **options)
        at.poll(REPO)
        for number, files in enumerate(STEPS[3:]):
            at.later(hours=1)
            repo.commit(files, title="commit")
            if number % 2:
                assert at.poll(REPO).error is None
        at.poll(REPO)
        before = everything(at)
        assert_nothing(reassess(at))
        assert everything(at) == before


def _remove(at: Site, advisory: Advisory) -> None:
    with at.database.transaction() as tx:
        for table in (spans, advisory_events):
            tx.execute(delete(table).where(table.c.advisory_id == advisory.id))
        tx.execute(delete(advisory_rows).where(advisory_rows.c.id == advisory.id))


def _grave(at: Site) -> list[Advisory]:
    return sorted(
        (item for item in at.advisories(REPO).values() if item.open and item.severity > Severity.LOW),
        key=lambda item: item.id,
    )


def test_what_an_older_version_said_is_brought_up_to_this_one(at: Site) -> None:
    """As if an older version had missed one thing, rated another otherwise, and seen a third that is none."""
    right = at.advisories(REPO)
    missed, milder = _grave(at)[:2]
    sha = missed.introduced
    with at.database.snapshot() as tx:
        said = changes.of(tx, REPO, sha)
        figures = estimates.of(tx, REPO, sha)
    assert figures is not None
    _remove(at, missed)
    wrong = replace(
        missed,
        id="x_HUBWATCH-2025-2222-2222-2222",
        cls="config.semantic",
        findings=(TrackedFinding(finding=finding()), *missed.findings),
        spans=(Span(introduced=sha),),
    )
    with at.database.transaction() as tx:
        advisories.save(tx, wrong)
        advisories.save(tx, replace(milder, severity=Severity.INFO, reason="as it was thought"))
        amend.change(tx, REPO, "main", sha, findings=said[:1], unread=())
        estimates.put(tx, REPO, sha, replace(figures, version="0.0.1"))
    before = everything(at)
    dry = reassess(at, dry_run=True)
    assert everything(at) == before
    outcome = reassess(at)
    assert outcome == dry
    assert [item.id for item in outcome.reconciled.added] == [missed.id]
    assert [item.id for item in outcome.reconciled.changed] == [milder.id]
    assert [item.id for item in outcome.reconciled.withdrawn] == [wrong.id]
    assert (outcome.estimates, outcome.revisions) == (1, 1 if len(said) > 1 else 0)
    now = at.advisories(REPO)
    taken = now.pop(wrong.id)
    assert taken.withdrawn == at.time
    assert missed.id in taken.related
    assert "does not make this finding" in taken.context["withdrawn_reason"]
    assert now[missed.id] == replace(missed, published=at.time, modified=at.time, related=(wrong.id,))
    assert now[milder.id] == replace(milder, modified=at.time)
    rest = right.keys() - {missed.id, milder.id}
    assert {name: now[name] for name in rest} == {name: right[name] for name in rest}
    with at.database.snapshot() as tx:
        assert changes.of(tx, REPO, sha) == said
        assert estimates.of(tx, REPO, sha) == figures
        happened = [event.advisory_id for event in advisories.events(tx, REPO, [sha])[sha]]
        assert missed.id in happened
        assert outbox.pending(tx, 100) == []
    assert_nothing(reassess(at))


def test_what_was_withdrawn_and_is_made_again_stands_again(at: Site) -> None:
    one = _grave(at)[0]
    with at.database.transaction() as tx:
        advisories.save(tx, replace(one, withdrawn=at.time))
    at.later(days=1)
    outcome = reassess(at)
    assert [item.id for item in outcome.reconciled.changed] == [one.id]
    assert at.advisories(REPO)[one.id] == replace(one, modified=at.time)
    assert_nothing(reassess(at))


def test_subscribers_are_told_only_when_asked_and_of_what_is_open(at: Site) -> None:
    missed = _grave(at)[0]
    closed = next(item for item in at.advisories(REPO).values() if not item.open and item.severity > Severity.INFO)
    _remove(at, missed)
    _remove(at, closed)
    outcome = reassess(at, announce=True)
    assert {item.id for item in outcome.reconciled.added} == {missed.id, closed.id}
    with at.database.snapshot() as tx:
        assert [item.payload["advisory"] for item in outbox.pending(tx, 100)] == [missed.id]


def test_a_repo_that_is_being_checked_is_left(at: Site) -> None:
    _remove(at, _grave(at)[0])
    with at.database.transaction() as tx:
        watch = watches.require(tx, REPO)
        assert watches.claim(tx, watch.id, "somebody", at.time, at.time + timedelta(minutes=1))
    before = everything(at)
    assert reassess(at).status == "busy"
    assert everything(at) == before
    at.later(minutes=2)
    assert len(reassess(at).reconciled.added) == 1


def test_a_rewritten_history_is_left_but_for_its_estimates(hub: LoopbackHub, at: Site) -> None:
    repo = hub.repo(REPO.id)
    repo.reset("main", repo.log("main")[2])
    head = repo.commit({"config.json": llama(rope_theta=9.0)}, title="another history")
    assert at.poll(REPO).error is None
    with at.database.transaction() as tx:
        figures = estimates.of(tx, REPO, head)
        assert figures is not None
        estimates.put(tx, REPO, head, replace(figures, version="0.0.1"))
    before = at.advisories(REPO)
    outcome = reassess(at)
    assert (outcome.status, outcome.estimates) == ("rewritten", 1)
    assert at.advisories(REPO) == before
    with at.database.snapshot() as tx:
        assert estimates.of(tx, REPO, head) == figures


def test_contents_that_are_not_kept_are_read_again_only_when_asked(at: Site) -> None:
    assert prune(at.database, now=at.time, keep=timedelta(0)).contents.count == 1
    at.services.loader.parser = Parser()
    before = everything(at)
    outcome = reassess(at)
    assert outcome.status == "not_kept"
    assert "--fetch" in (outcome.error or "")
    assert everything(at) == before
    assert_nothing(reassess(at, fetch=True))
    assert everything(at) == before
