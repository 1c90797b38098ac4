"""A small history through everything that is pure: snapshots, changes, findings, advisories, OSV documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from jsonschema import Draft202012Validator

from advisories import ledger
from advisories.osv import document
from advisories.osv_model import OsvDocument
from advisories.rules.interface import Context
from advisories.rules.judge import judge
from advisories.view import CAP, change_json
from storage.model import Advisory, Change, Finding, RepoRef, Revision, Snapshot, canonical_json
from tests.fuzz.strategies import Tree
from tests.tracker.diff.snapshots import snapshot_of
from tracker.diff.registry import MAX_PER_CLASS, compare, observe
from tracker.diff.repo import has_model
from tracker.estimate.exact import ESTIMATOR
from tracker.estimating import estimate_snapshot
from tracker.snapshot.build import carry

REPO = RepoRef(owner="acme", name="tiny")
START = datetime(2025, 1, 1, tzinfo=UTC)


def check_history(trees: Sequence[Tree], schemas: Sequence[Draft202012Validator] = ()) -> None:
    """Land the trees one after the other and check at each step all that must hold of any two trees."""
    history = revisions(trees)
    state: tuple[Advisory, ...] = ()
    steps: list[tuple[Snapshot | None, Snapshot]] = [(None, history[0]), *pairwise(history)]
    for number, (before, after) in enumerate(steps):
        had_model = any(map(has_model, history[:number]))
        changes = _compared(before, after, had_model=had_model)
        estimates = tuple(estimate_snapshot(ESTIMATOR, side) if side else None for side in (before, after))
        context = Context(
            before=before,
            after=after,
            changes=changes,
            estimates=(estimates[0], estimates[1]),
            position=number,
        )
        findings = judge(context)
        assert len(findings) >= len(changes)
        for finding in findings:
            shown = change_json(finding)
            assert all(len(canonical_json(shown[side])) <= CAP for side in ("before", "after"))
            json.dumps(shown, allow_nan=False).encode()
        state = _advanced(state, before, after, findings)
        for advisory in state:
            _published(advisory, schemas)
    equal = len({json.dumps(sorted((path, data.hex()) for path, data in tree.items())) for tree in trees}) == 1
    assert not equal or len({advisory.introduced for advisory in state}) <= 1


def revisions(trees: Sequence[Tree]) -> list[Snapshot]:
    """The trees as snapshots of one history; what cannot be read is carried over."""
    found: list[Snapshot] = []
    for number, tree in enumerate(trees):
        revision = Revision(
            sha=f"{number + 1:040x}",
            parents=(f"{number:040x}",) if number else (),
            committed_at=START + timedelta(days=number),
            author="a",
            title="t",
        )
        snapshot = replace(snapshot_of(tree), revision=revision)
        found.append(carry(found[-1] if found else None, snapshot))
    return found


def _compared(before: Snapshot | None, after: Snapshot, *, had_model: bool) -> tuple[Change, ...]:
    changes = compare(before, after, had_model=had_model)
    again = compare(before, replace(after), had_model=had_model)
    assert [repr(change) for change in again] == [repr(change) for change in changes], "the same, every time"
    assert compare(after, after) == ()
    counts: dict[str, int] = {}
    for change in changes:
        counts[change.cls] = counts.get(change.cls, 0) + 1
        assert len(canonical_json(change.before)) <= CAP, (change.cls, "before")
        assert len(canonical_json(change.after)) <= CAP, (change.cls, "after")
        assert 0 < len(change.summary) <= 300
        assert "\n" not in change.summary
        if change.facet:
            assert observe(after, change.facet) == change.after_digest, change
            if before is not None and not change.facts.get("since_first"):
                assert observe(before, change.facet) == change.before_digest, change
    assert all(count <= MAX_PER_CLASS + 1 for count in counts.values())
    return changes


def _advanced(
    state: tuple[Advisory, ...], before: Snapshot | None, after: Snapshot, findings: Sequence[Finding]
) -> tuple[Advisory, ...]:
    def step(known: tuple[Advisory, ...]) -> ledger.Step:
        return ledger.advance(
            known,
            repo=REPO,
            ref="main",
            revision=after.revision,
            predecessor=before.revision.sha if before else None,
            findings=findings,
            observe=lambda facet: observe(after, facet),
            now=after.revision.committed_at + timedelta(hours=1),
        )

    first = step(state)
    assert step(state) == first
    landed = first.apply(state)
    assert step(landed) == ledger.Step(), "a repeat changes nothing"
    return landed


def _published(advisory: Advisory, schemas: Sequence[Draft202012Validator]) -> None:
    made = document(advisory, versions=[advisory.introduced])
    written = json.dumps(made, allow_nan=False, ensure_ascii=False).encode("utf-8")
    OsvDocument.model_validate_json(written)
    for schema in schemas:
        schema.validate(made)
