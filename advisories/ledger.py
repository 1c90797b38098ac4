"""What a revision does to a repo's advisories: open, close, re-introduce. Pure.

Everything is told by **facets**, the watched values (see `tracker.diff.interface`). A finding holds for as
long as its facet has the value it warned of, and an advisory is open while any of its findings holds:

    A, B        B opens                       [B ..
    A, B, A     B is closed, fixed            [B .. fixed A)
    A, B, C     B is superseded, C opens      [B .. last_affected B]  [C ..
    A, B, C, A  C is closed, nothing opens
    A, B, C, B  C is closed, B re-introduced  [B .. B]  [B' ..

A value counts as *restored* when the facet is known to have had it before, else as *superseded*. The known
values are those on either side of any finding: since every change is a finding, that is all of them.

Each function returns a `Step`: the advisories that are new or altered, as they now stand, and what happened.
Applied to the state and run again it gives an empty step, so that a crash and a repeat do no harm. The
clock only sets ``published`` and ``modified``; nothing is decided by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from advisories.ids import advisory_id
from advisories.rules.context import Observe
from advisories.rules.interface import holds
from storage.model import (
    Advisory,
    AdvisoryAction,
    AdvisoryEvent,
    Change,
    Finding,
    Json,
    RepoRef,
    Revision,
    Span,
    TrackedFinding,
)

HORIZON = "0"
RESTORED = "restored"
SUPERSEDED = "superseded"
Taken = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one revision (or one change of state) did: new and altered advisories, and the events."""

    advisories: tuple[Advisory, ...] = ()
    events: tuple[AdvisoryEvent, ...] = ()

    def apply(self, state: Sequence[Advisory]) -> tuple[Advisory, ...]:
        """The state after the step; order kept, new advisories last."""
        by_id = {advisory.id: advisory for advisory in state}
        by_id.update((advisory.id, advisory) for advisory in self.advisories)
        return tuple(by_id.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of some facets before a revision."""

    values: Mapping[str, set[str | None]]  # every value a facet had
    warned: frozenset[tuple[str, str | None]]  # the values that have an advisory of their own

    @classmethod
    def of(cls, advisories: Iterable[Advisory], facets: Set[str]) -> _Known:
        values: dict[str, set[str | None]] = defaultdict(set)
        warned = set()
        for advisory in advisories:
            for item in advisory.findings:
                change = item.finding.change
                if change.facet in facets:
                    values[change.facet] |= {change.before_digest, change.after_digest}
                    warned.add((change.facet, change.after_digest))
        return cls(values=values, warned=frozenset(warned))

    def has(self, facet: str, value: str | None) -> bool:
        return value in self.values.get(facet, ())


def tracked(state: Iterable[Advisory], *, repo: RepoRef, ref: str) -> list[Advisory]:
    """The advisories that follow this ref's commits: not withdrawn, not states of the repo."""
    return [
        advisory
        for advisory in state
        if advisory.spans and advisory.withdrawn is None and advisory.repo == repo and advisory.ref == ref
    ]


def advance(
    state: Sequence[Advisory],
    *,
    repo: RepoRef,
    ref: str,
    revision: Revision,
    predecessor: str | None,
    findings: Sequence[Finding],
    observe: Observe,
    now: datetime,
    repo_created_at: datetime | None = None,
    context: Mapping[str, Json] | None = None,
    context_by_class: Mapping[str, Mapping[str, Json]] | None = None,
    horizon: bool = False,
    taken: Taken = lambda _: False,
) -> Step:
    """Bring a repo's advisories to the next revision.

    Args:
        state: All of the repo's advisories, in any order.
        repo: The repo as watched; its endpoint is the identity.
        ref: The ref that is followed.
        revision: The revision that landed.
        predecessor: The revision it was compared with; None for the first one read.
        findings: The revision's findings, as rated.
        observe: The digest of a facet's value at this revision.
        now: The time of observation.
        repo_created_at: When the Hub says the repo was made; bounds the year in new ids.
        context: What new advisories carry beside their findings.
        context_by_class: More of it, for the advisories of one class.
        horizon: The history was cut here: what is there was introduced before.
        taken: Whether a different advisory, of whatever repo, already has an id.

    """
    old = tracked(state, repo=repo, ref=ref)
    look = cache(observe)
    turned = list(_turned(old, look))
    # most revisions touch few values: only those are looked up in what is known
    known = _Known.of(old, {change.facet for change in _changes(turned, findings)})
    seen = {advisory.id: _observed(advisory, known, look) for advisory in turned}
    opened = _open(
        state,
        known,
        findings,
        lambda cls, items: Advisory(
            id=advisory_id(
                repo.endpoint,
                repo.id,
                cls,
                revision.sha,
                committed_at=revision.committed_at,
                repo_created_at=repo_created_at,
                now=now,
                taken=taken,
            ),
            repo=repo,
            cls=cls,
            severity=_gravest(items).severity,
            reason=_gravest(items).reason,
            introduced=revision.sha,
            predecessor=predecessor,
            ref=ref,
            findings=tuple(TrackedFinding(finding=finding) for finding in items),
            spans=(Span(introduced=HORIZON if horizon else revision.sha),),
            published=now,
            modified=now,
            context=_context(items, context, (context_by_class or {}).get(cls)),
        ),
    )
    standing = [replace(item, findings=seen[item.id]) if item.id in seen else item for item in old] + opened
    closed, back, touched = [], [], []
    for advisory in turned:
        items, span = seen[advisory.id], advisory.spans[-1]
        still = any(item.holds for item in items)
        if span.introduced == revision.sha and not still:
            continue  # it is what this very revision opened
        altered = replace(advisory, findings=items, modified=max(now, advisory.modified))
        if span.open and not still:
            closed.append(_close(altered, revision.sha, predecessor, standing))
        elif not span.open and still:
            # a commit that fell off a rewritten history and is back opens its own span again
            ended = altered.spans[:-1] if span.introduced == revision.sha else altered.spans
            spans = (*ended, Span(introduced=revision.sha))
            back.append(replace(altered, spans=spans, superseded_by=None))
        else:
            touched.append(altered)
    events = (
        *(_event(advisory, _ending(advisory), revision.sha) for advisory in closed),
        *(_event(advisory, AdvisoryAction.REINTRODUCED, revision.sha) for advisory in back),
        *(_event(advisory, AdvisoryAction.OPENED, revision.sha) for advisory in opened),
    )
    return Step(advisories=(*closed, *back, *touched, *opened), events=events)


def rewind(
    state: Sequence[Advisory],
    *,
    repo: RepoRef,
    ref: str,
    old_head: str,
    observe: Observe,
    now: datetime,
    successor: str | None = None,
) -> Step:
    """Take a repo's advisories back to the common ancestor of a rewritten history.

    Findings that do not hold there end with the old head as the last commit affected: the old chain stays
    affected for whoever pinned it, and no commit of it fixed anything. Findings that had ended on the old
    chain and hold at the ancestor are re-introduced by `advance` at the next revision that lands.

    Args:
        state: All of the repo's advisories.
        repo: The repo as watched.
        ref: The ref that is followed.
        old_head: The head of the chain that is gone.
        observe: The digest of a facet's value at the common ancestor; None for all when there is none.
        now: The time of observation.
        successor: The advisory that tells of the rewriting, if there is one.

    """
    look = cache(observe)
    altered, events = [], []
    for advisory in tracked(state, repo=repo, ref=ref):
        items = tuple(
            replace(item, holds=False, ended_by=SUPERSEDED)
            if item.holds and not holds(item.finding.change, look)
            else item
            for item in advisory.findings
        )
        if items == advisory.findings:
            continue
        after = replace(advisory, findings=items, modified=max(now, advisory.modified))
        if advisory.spans[-1].open and not after.open:
            spans = (*advisory.spans[:-1], replace(advisory.spans[-1], last_affected=old_head))
            after = replace(after, spans=spans, superseded_by=successor)
            events.append(_event(after, AdvisoryAction.SUPERSEDED, old_head))
        altered.append(after)
    return Step(advisories=tuple(altered), events=tuple(events))


def _turned(advisories: Iterable[Advisory], look: Observe) -> Iterator[Advisory]:
    """Those of which any finding began or ceased to hold."""
    for advisory in advisories:  # all that a repo ever had, at every revision: loops take a third of `any`
        for item in advisory.findings:
            if holds(item.finding.change, look) != item.holds:
                yield advisory
                break


def _changes(advisories: Iterable[Advisory], findings: Iterable[Finding]) -> Iterator[Change]:
    yield from (item.finding.change for advisory in advisories for item in advisory.findings)
    yield from (finding.change for finding in findings)


def _observed(advisory: Advisory, known: _Known, look: Observe) -> tuple[TrackedFinding, ...]:
    def now_stands(item: TrackedFinding) -> TrackedFinding:
        there = holds(item.finding.change, look)
        if there == item.holds:
            return item
        if there:
            return replace(item, holds=True, ended_by=None)
        facet = item.finding.change.facet
        return replace(item, holds=False, ended_by=RESTORED if known.has(facet, look(facet)) else SUPERSEDED)

    return tuple(now_stands(item) for item in advisory.findings)


def _open(
    state: Sequence[Advisory],
    known: _Known,
    findings: Sequence[Finding],
    make: Callable[[str, Sequence[Finding]], Advisory],
) -> list[Advisory]:
    """One advisory a class for the findings whose value was never seen before."""
    fresh: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        change = finding.change
        warned = (change.facet, change.after_digest) in known.warned
        if not change.facet or not (warned or known.has(change.facet, change.after_digest)):
            fresh[change.cls].append(finding)
    existing = {(advisory.cls, advisory.introduced): advisory for advisory in state if advisory.spans}
    opened = []
    for cls, items in fresh.items():
        advisory = make(cls, items)
        stored = existing.get((cls, advisory.introduced))
        if stored is None:
            opened.append(advisory)
        elif stored.withdrawn is not None:  # it stood for what was cut off; now it is read in full
            opened.append(
                replace(
                    advisory,
                    id=stored.id,
                    published=stored.published,
                    modified=max(advisory.modified, stored.modified, stored.withdrawn),
                    related=stored.related,
                )
            )
    return opened


def _close(advisory: Advisory, sha: str, predecessor: str | None, standing: Sequence[Advisory]) -> Advisory:
    *earlier, span = advisory.spans
    superseded = {item.finding.change.facet for item in advisory.findings if item.ended_by != RESTORED}
    last = predecessor or (span.introduced if span.introduced != HORIZON else None)
    if not superseded or last is None:
        return replace(advisory, spans=(*earlier, replace(span, fixed=sha)))
    return replace(
        advisory,
        spans=(*earlier, replace(span, last_affected=last)),
        superseded_by=_successor(advisory, superseded, standing),
    )


def _successor(advisory: Advisory, facets: set[str], standing: Sequence[Advisory]) -> str | None:
    """The advisory that now warns of one of the facets: of the same class if there is one, else the gravest."""
    candidates = [
        (other.cls != advisory.cls, -other.severity, other.id)
        for other in standing
        if other.id != advisory.id
        and any(item.holds and item.finding.change.facet in facets for item in other.findings)
    ]
    return min(candidates)[2] if candidates else None


def _gravest(findings: Sequence[Finding]) -> Finding:
    return max(findings, key=lambda finding: finding.severity)


def _context(findings: Sequence[Finding], *parts: Mapping[str, Json] | None) -> Mapping[str, Json]:
    made: dict[str, Json] = {}
    if any(finding.change.facts.get("since_first") for finding in findings):
        made["since_first"] = True
    for part in parts:
        made.update(part or {})
    return made


def _ending(advisory: Advisory) -> AdvisoryAction:
    return AdvisoryAction.FIXED if advisory.spans[-1].fixed else AdvisoryAction.SUPERSEDED


def _event(advisory: Advisory, action: AdvisoryAction, sha: str | None) -> AdvisoryEvent:
    return AdvisoryEvent(advisory_id=advisory.id, action=action, sha=sha)
