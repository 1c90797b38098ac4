"""A landed history, judged again by the installed version: differs, probes, rules, estimators.

The followed chain of a repo is played from its first revision into an empty ledger, from what storage holds, and
what comes out is held against what is stored (`advisories.reconcile`). Nothing is read from the Hub unless asked.

A history that was rewritten is left as it is, but for its estimates: which of its advisories began where depends
on when each rewriting was seen, and that cannot be played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib.metadata import version
from uuid import uuid4

from advisories import ledger
from advisories.evidence import probe_context
from advisories.outbox import announcements
from advisories.reconcile import Reconciled, reconcile
from storage import advisories as stored_advisories
from storage import amend, changes, estimates, history, outbox, watches
from storage.database import Database, Transaction
from storage.errors import HubwatchError
from storage.findings import to_row
from storage.model import (
    Advisory,
    AdvisoryEvent,
    Change,
    Estimate,
    Finding,
    Gap,
    Json,
    ProbeOutcome,
    RecordedRevision,
    RepoRef,
    Snapshot,
    canonical_json,
)
from tracker.diff.registry import observe
from tracker.examine import Examination, Examiner
from tracker.loader import Loader, NotKept
from tracker.pipeline import revert
from tracker.worker import LEASE

DONE, REWRITTEN, INCOMPLETE, UNSURE, BUSY, ERROR = "ok", "rewritten", "not_kept", "unsure", "busy", "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one repo. ``revisions`` and ``estimates`` count those that are said anew."""

    repo: str
    status: str
    reconciled: Reconciled = field(default_factory=Reconciled)
    revisions: int = 0
    estimates: int = 0
    error: str | None = None

    def to_json(self) -> dict[str, Json]:
        """As the command line gives it."""
        done = self.reconciled
        return {
            "repo": self.repo,
            "status": self.status,
            "added": [item.id for item in done.added],
            "changed": [item.id for item in done.changed],
            "withdrawn": [item.id for item in done.withdrawn],
            "unchanged": done.unchanged,
            "revisions": self.revisions,
            "estimates": self.estimates,
            "error": self.error,
        }


@dataclass(slots=True)
class _Played:
    """What playing a history gave; of revisions only what differs from what is stored."""

    advisories: tuple[Advisory, ...] = ()
    events: list[AdvisoryEvent] = field(default_factory=list)
    findings: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    gaps: dict[str, tuple[Gap, ...]] = field(default_factory=dict)
    estimates: dict[str, Estimate] = field(default_factory=dict)


class _Unsure(HubwatchError):
    """A probe could not run that could before."""


class _Busy(HubwatchError):
    """Somebody else is at the repo."""


@dataclass(slots=True)
class Reassessor:
    """Judges landed histories again."""

    database: Database
    loader: Loader
    examiner: Examiner
    clock: Callable[[], datetime]

    def reassess(
        self, repo: RepoRef, *, dry_run: bool = False, fetch: bool = False, announce: bool = False
    ) -> Outcome:
        """Judge one repo again and write what differs, all at once. Raises NotFound for an unknown repo.

        ``fetch`` reads contents again that are not kept; ``announce`` tells subscribers what is open and new,
        or was open and is withdrawn.
        """
        with self.database.snapshot() as tx:
            standing = amend.standing(tx, repo)
            rows = history.revisions(tx, repo, newest_first=False)
            stored = stored_advisories.of_repo(tx, repo)
        try:
            played = self._play(repo, standing, rows, stored, fetch=fetch)
            now = self.clock()
            done = Reconciled()
            if not standing.rewritten:
                done = reconcile(
                    stored,
                    played.advisories,
                    played.events,
                    revisions={row.revision.sha for row in rows},
                    ref=standing.ref,
                    version=version("hubwatch"),
                    now=now,
                )
            if not dry_run:
                self._write(repo, standing, stored, played, done, now=now, announce=announce)
        except NotKept as error:
            told = f"{error.message}: give --fetch to read them again"
            return Outcome(repo=repo.id, status=INCOMPLETE, error=told)
        except _Unsure as error:
            return Outcome(repo=repo.id, status=UNSURE, error=str(error))
        except _Busy as error:
            return Outcome(repo=repo.id, status=BUSY, error=str(error))
        except HubwatchError as error:
            return Outcome(repo=repo.id, status=ERROR, error=str(error))
        return Outcome(
            repo=repo.id,
            status=REWRITTEN if standing.rewritten else DONE,
            reconciled=done,
            revisions=len(played.findings.keys() | played.gaps.keys()),
            estimates=len(played.estimates),
            error="its history was rewritten: only estimates are made anew" if standing.rewritten else None,
        )

    # --- playing -----------------------------------------------------------------------------------

    def _play(
        self,
        repo: RepoRef,
        standing: amend.Standing,
        rows: list[RecordedRevision],
        stored: list[Advisory],
        *,
        fetch: bool,
    ) -> _Played:
        played = _Played()
        source = _source(repo, standing.canonical) if fetch else None
        ids = {item.id: item for item in stored}
        before: Snapshot | None = None
        last: Examination | None = None
        authors: set[str] = set()
        trees: dict[str, str] = {}
        for row in rows:
            sha = row.revision.sha
            after = self.loader.replayed(repo, sha, before, source=source)
            horizon = before is None and self._cut(repo, sha, after)
            last = self._examine(row, before, after, last, authors, trees, played, horizon=horizon)
            _require_sure(repo, last, [item for item in stored if item.introduced == sha])
            step = ledger.advance(
                played.advisories,
                repo=repo,
                ref=standing.ref,
                revision=row.revision,
                predecessor=before.revision.sha if before else None,
                findings=last.findings,
                observe=_observer(after),
                now=row.observed_at,
                repo_created_at=standing.created_at,
                context=last.context(),
                context_by_class=probe_context(last.findings, last.probes),
                horizon=horizon,
                taken=partial(self._taken, ids, sha),
            )
            played.advisories = step.apply(played.advisories)
            played.events += step.events
            self._compare(repo, last, played, only_estimate=standing.rewritten)
            authors.add(row.revision.author)
            trees[row.manifest_digest] = sha
            before = after
        return played

    def _examine(
        self,
        row: RecordedRevision,
        before: Snapshot | None,
        after: Snapshot,
        last: Examination | None,
        authors: Iterable[str],
        trees: dict[str, str],
        played: _Played,
        *,
        horizon: bool,
    ) -> Examination:
        had_model = before is not None and any(item.cls == "repo.first_files" for item in played.advisories)
        extra: tuple[Change, ...] = revert(before, after, trees.get(row.manifest_digest))
        return self.examiner.examine(
            before,
            after,
            estimate_before=last.estimate if last else None,
            extra=extra,
            known_authors=frozenset(authors),
            position=row.position,
            horizon=horizon,
            had_model=had_model,
        )

    def _cut(self, repo: RepoRef, sha: str, first: Snapshot) -> bool:
        """Whether history was cut at the first revision: then only standing dangers were said of its files."""
        with self.database.snapshot() as tx:
            said = changes.of(tx, repo, sha)
        return bool(first.manifest.files) and all(item.change.facts.get("at_horizon") for item in said)

    def _taken(self, own: dict[str, Advisory], sha: str, name: str) -> bool:
        """Whether a different advisory has an id: of another repo, or of another revision of this one."""
        if name in own:
            return own[name].introduced != sha
        with self.database.snapshot() as tx:
            return stored_advisories.get(tx, name) is not None

    def _compare(self, repo: RepoRef, seen: Examination, played: _Played, *, only_estimate: bool) -> None:
        """Note what is stored otherwise of a revision."""
        sha = seen.after.revision.sha
        with self.database.snapshot() as tx:
            findings = changes.of(tx, repo, sha)
            unread = history.gaps(tx, repo, sha)
            estimate = estimates.of(tx, repo, sha)
        if seen.estimate is not None and _figures(seen.estimate) != _figures(estimate):
            played.estimates[sha] = seen.estimate
        if only_estimate:
            return
        if _rows(findings) != _rows(seen.findings):
            played.findings[sha] = seen.findings
        if unread != seen.after.gaps:
            played.gaps[sha] = seen.after.gaps

    # --- writing -----------------------------------------------------------------------------------

    def _write(
        self,
        repo: RepoRef,
        standing: amend.Standing,
        stored: list[Advisory],
        played: _Played,
        done: Reconciled,
        *,
        now: datetime,
        announce: bool,
    ) -> None:
        holder = f"reassess|{uuid4().hex[:12]}"
        with self.database.transaction() as tx:
            watch = watches.get(tx, repo)
            # nobody else can see this lease: it is there only to find out whether somebody has one
            if watch is not None and not watches.claim(tx, watch.id, holder, now, now + LEASE):
                raise _Busy(f"{repo.id} is being checked right now", help="run it again in a minute")
            if amend.standing(tx, repo, lock=True) != standing or _changed(tx, repo, stored):
                raise _Busy(f"{repo.id} moved meanwhile", help="run it again")
            for sha in played.findings.keys() | played.gaps.keys():
                found, unread = played.findings.get(sha), played.gaps.get(sha)
                amend.change(tx, repo, standing.ref, sha, findings=found, unread=unread)
            for sha, estimate in played.estimates.items():
                estimates.put(tx, repo, sha, estimate)
            for advisory in done.advisories:
                stored_advisories.save(tx, advisory)
            stored_advisories.record_events(tx, repo, done.events, now=now)
            if announce:
                was_open = {item.id for item in stored if item.open}
                by_id = {item.id: item for item in done.advisories}
                worth = [event for event in done.events if _is_news(event, by_id, was_open)]
                outbox.append(tx, announcements(repo, worth, by_id, now=now))
            if watch is not None:
                watches.release(tx, watch.id, holder)


def _changed(tx: Transaction, repo: RepoRef, stored: list[Advisory]) -> bool:
    return stored_advisories.of_repo(tx, repo) != stored


def _is_news(event: AdvisoryEvent, advisories: dict[str, Advisory], was_open: set[str]) -> bool:
    advisory = advisories[event.advisory_id]
    if advisory.open:
        newly = event.advisory_id not in was_open
        return newly and event.action in {"opened", "reintroduced"}
    return event.action == "withdrawn" and event.advisory_id in was_open


def _source(repo: RepoRef, canonical: str | None) -> RepoRef:
    owner, _, name = (canonical or repo.id).partition("/")
    return replace(repo, owner=owner, name=name) if name else repo


def _observer(snapshot: Snapshot) -> Callable[[str], str | None]:
    return lambda facet: observe(snapshot, facet)


def _rows(findings: Iterable[Finding]) -> str:
    return canonical_json([to_row(item) for item in findings])


def _figures(estimate: Estimate | None) -> str | None:
    if estimate is None:
        return None
    head = [
        estimate.estimator,
        estimate.version,
        str(estimate.status),
        estimate.source,
        estimate.model_type,
        estimate.architecture,
        estimate.reason,
    ]
    return canonical_json([head, dict(estimate.body)])


def _require_sure(repo: RepoRef, seen: Examination, stored: list[Advisory]) -> None:
    """A probe that cannot run now but could when the revision landed must not change what is said of it."""
    gap = any(item.outcome is ProbeOutcome.GAP for results in seen.probes.values() for item in results)
    if not gap:
        return
    for advisory in stored:
        known = advisory.context.get("probes")
        if known and all(item.get("outcome") != ProbeOutcome.GAP.value for item in known):
            raise _Unsure(
                f"{repo.id}: a probe of {seen.after.revision.sha[:10]} could not run now, and could before",
                help="run it again when the machine has less to do",
            )
