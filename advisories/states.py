"""Advisories that follow no commits: states of a repo, and advisories that are taken back. Pure.

A state (gated, disabled, gone, private, renamed, another owner, a moved ref, a move in a repo whose code this
one runs) has no introducing commit: the advisory has no spans, and its id is made from the new state and the
head or old target. When the state ends, the advisory is withdrawn and says when; the same state coming back at
the same head is the same advisory again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from advisories.ids import advisory_id, state_key
from advisories.ledger import HORIZON, RESTORED, Step, Taken
from storage.model import (
    Advisory,
    AdvisoryAction,
    AdvisoryEvent,
    Finding,
    Json,
    RepoRef,
    TrackedFinding,
)


def open_state(
    state: Sequence[Advisory],
    *,
    repo: RepoRef,
    ref: str,
    finding: Finding,
    key: str,
    sha: str | None,
    now: datetime,
    repo_created_at: datetime | None = None,
    context: Mapping[str, Json] | None = None,
    taken: Taken = lambda _: False,
) -> Step:
    """Open the advisory of a repo state, or open it again; an empty step when it is open already.

    Args:
        state: All of the repo's advisories.
        repo: The repo as watched.
        ref: The ref that is followed.
        finding: The state as a finding (`advisories.rules.judge.judge_state`).
        key: The new state in a word that never changes its meaning: ``gated:auto``, ``missing``, the new name.
        sha: The head when it was seen, the old target of a ref, or the referenced repo's head.
        now: The time of observation.
        repo_created_at: When the Hub says the repo was made.
        context: What the document carries beside the finding; ``references`` is a list of ``{type, url}``.
        taken: Whether a different advisory already has an id.

    """
    for advisory in _states(state, finding.cls):
        if advisory.context.get("state") != key or advisory.introduced != (sha or ""):
            continue
        if advisory.withdrawn is None:
            return Step()
        kept = {name: value for name, value in advisory.context.items() if name != "ended_at"}
        again = replace(
            advisory,
            findings=(TrackedFinding(finding=finding),),
            withdrawn=None,
            modified=max(now, advisory.modified),
            context={**kept, **(context or {})},
        )
        return _step(again, AdvisoryAction.REINTRODUCED)
    made = Advisory(
        id=advisory_id(
            repo.endpoint,
            repo.id,
            finding.cls,
            state_key(key, sha),
            committed_at=now,
            repo_created_at=repo_created_at,
            now=now,
            taken=taken,
        ),
        repo=repo,
        cls=finding.cls,
        severity=finding.severity,
        reason=finding.reason,
        introduced=sha or "",
        predecessor=None,
        ref=ref,
        findings=(TrackedFinding(finding=finding),),
        spans=(),
        published=now,
        modified=now,
        context={**(context or {}), "state": key},
    )
    return _step(made, AdvisoryAction.OPENED)


def end_state(
    state: Sequence[Advisory], *, cls: str, now: datetime, keep: Iterable[str] = (), key: str | None = None
) -> Step:
    """End the open repo-state advisories of a class, but for the ids in ``keep``; with ``key``, of that state."""
    spared = frozenset(keep)
    ended = []
    for advisory in _states(state, cls):
        wanted = key is None or advisory.context.get("state") == key
        if wanted and advisory.withdrawn is None and advisory.id not in spared:
            at = max(now, advisory.modified)
            findings = tuple(replace(item, holds=False, ended_by=RESTORED) for item in advisory.findings)
            context = {**advisory.context, "ended_at": now.astimezone(UTC).isoformat()}
            ended.append(replace(advisory, findings=findings, withdrawn=at, modified=at, context=context))
    events = tuple(_event(advisory, AdvisoryAction.WITHDRAWN) for advisory in ended)
    return Step(advisories=tuple(ended), events=events)


def withdraw(advisory: Advisory, *, now: datetime, related: Iterable[str] = ()) -> Step:
    """Take back a wrong advisory, naming those that stand for it; an empty step when it is withdrawn."""
    if advisory.withdrawn is not None:
        return Step()
    at = max(now, advisory.modified)
    taken_back = replace(advisory, withdrawn=at, modified=at, related=_related(advisory, related))
    return _step(taken_back, AdvisoryAction.WITHDRAWN)


def supplant(old: Sequence[Advisory], new: Sequence[Advisory], *, now: datetime) -> Step:
    """Let a deeper reading of history replace what a cut history could only date before its horizon.

    Every advisory of ``old`` whose first span begins at the horizon is withdrawn; those of ``new`` that warn
    of the same values are related to it, and it to them.
    """
    altered: dict[str, Advisory] = {}
    events: list[AdvisoryEvent] = []
    for advisory in old:
        if advisory.withdrawn is not None or not advisory.spans or advisory.spans[0].introduced != HORIZON:
            continue
        values = _values(advisory)
        heirs = [other for other in new if other.id != advisory.id and values & _values(other)]
        step = withdraw(advisory, now=now, related=[heir.id for heir in heirs])
        altered.update((item.id, item) for item in step.advisories)
        events += step.events
        for heir in heirs:
            current = altered.get(heir.id, heir)
            related = _related(current, [advisory.id])
            altered[heir.id] = replace(current, related=related, modified=max(now, current.modified))
    return Step(advisories=tuple(altered.values()), events=tuple(events))


def _states(state: Iterable[Advisory], cls: str) -> list[Advisory]:
    return [advisory for advisory in state if advisory.cls == cls and not advisory.spans]


def _values(advisory: Advisory) -> set[tuple[str, str | None]]:
    changes = (item.finding.change for item in advisory.findings)
    return {(change.facet, change.after_digest) for change in changes if change.facet}


def _related(advisory: Advisory, more: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*advisory.related, *more} - {advisory.id}))


def _step(advisory: Advisory, action: AdvisoryAction) -> Step:
    return Step(advisories=(advisory,), events=(_event(advisory, action),))


def _event(advisory: Advisory, action: AdvisoryAction) -> AdvisoryEvent:
    return AdvisoryEvent(advisory_id=advisory.id, action=action, sha=None)
