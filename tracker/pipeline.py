"""The story of a ref, revision by revision: network first, pure functions next, one transaction last.

    histories.history    which commits are new, oldest first, read by the API or by git
      loader.fetch       tree, unseen small blobs, weight headers     -> Snapshot
      examiner.examine   diff, probes, estimate, rules                -> Findings
      ledger.advance     what opens, holds on, closes                 -> Advisories
      history.land       all of it, in one transaction

Nothing of a revision is written before it is whole, and every row is unique by content: a run that dies
anywhere is taken up by the next one at the first revision that had not landed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from advisories import ledger
from advisories.evidence import probe_context
from advisories.outbox import announcements
from advisories.rules.judge import judge_state
from advisories.states import open_state
from storage import advisories as stored_advisories
from storage import history, outbox
from storage.database import Database
from storage.model import Advisory, Change, Head, Landing, Manifest, RepoRef, Snapshot, Watch
from tracker.diff.registry import observe
from tracker.examine import Examination, Examiner
from tracker.hub.errors import UpstreamFault
from tracker.hub.readers import Histories, Reading
from tracker.loader import Loader

OnLanded = Callable[[Landing, int, int], None]

PATIENCE = 3
"""Checks in a row that may fail because of a file that is gone or corrupt, before it is taken for a gap."""


@dataclass(slots=True)
class Pipeline:
    """Turns the new commits of a watched ref into landed revisions."""

    histories: Histories
    database: Database
    loader: Loader
    examiner: Examiner
    clock: Callable[[], datetime]
    stopping: Callable[[], bool] = lambda: False

    def follow(self, watch: Watch, head: Head, *, on_landed: OnLanded | None = None) -> list[Landing]:
        """Land every revision between what is known and ``head``, oldest first.

        Stops between two revisions when asked to. Raises HubError for what a later run may do better;
        what landed until then stays.
        """
        if head.sha is None:
            return []
        source = source_of(watch, head)
        with self.database.snapshot() as tx:
            known = history.known_shas(tx, watch.repo)
            newest = history.head(tx, watch.repo)
        tip = newest.revision.sha if newest else None
        first = tip is None and watch.head is None  # a rewriting that was cut short leaves no tip, either
        with self.histories.history(
            source,
            head=head.sha,
            known=known.__contains__,
            since=watch.since if first else None,
            only_head=watch.from_head and first,
            base=lambda: self._manifest(watch, tip),
        ) as reading:
            return self._follow(watch, source, head.sha, tip, reading, on_landed)

    def _follow(
        self,
        watch: Watch,
        source: RepoRef,
        head_sha: str,
        tip: str | None,
        reading: Reading,
        on_landed: OnLanded | None,
    ) -> list[Landing]:
        """Land what is new; ``tip`` is the revision that was the newest one until now."""
        walk = reading.walk
        rewritten = tip is not None and walk.met != tip
        if rewritten and tip is not None:
            self._require_moved(watch, source, head_sha)
            self._rewind(watch, source, reading, head_sha, tip)
        shas = [revision.sha for revision in walk.revisions]
        landed: list[Landing] = []
        with self.database.snapshot() as tx:
            state = _by_id(stored_advisories.of_repo(tx, watch.repo))
            chain = history.known_shas(tx, watch.repo)
        # A new chain is read as such to its end, also where an earlier check had begun it and was cut short.
        begun = _begun(state.values(), shas)
        renewed = len(shas) if rewritten else _index(shas, begun.after if begun else None) + 1
        backfilled = max(renewed, _index(shas, watch.backfill_target) + 1)
        # With no common ancestor the new chain is held against the old one's end: only what differs is news.
        base = walk.met or (tip if rewritten else begun.before if begun else None)
        before = self.loader.stored(watch.repo, base, source=source) if base and shas else None
        last: Examination | None = None
        for number, revision in enumerate(walk.revisions):
            if self.stopping():
                break
            after = self.loader.fetch(source, revision, before, reading, patient=watch.errors < PATIENCE)
            horizon = number == 0 and walk.horizon
            had_model = before is not None and any(
                advisory.cls == "repo.first_files" and advisory.introduced in chain for advisory in state.values()
            )
            last = self._examine(
                watch, before, after, last, horizon=horizon, rewritten=number < renewed, had_model=had_model
            )
            landing = self._land(watch, state, last, horizon=horizon, backfill=number < backfilled)
            landed.append(landing)
            chain.add(revision.sha)
            before = after
            if on_landed:
                on_landed(landing, number + 1, len(shas))
        return landed

    def _manifest(self, watch: Watch, sha: str | None) -> Manifest | None:
        """The files of a landed revision."""
        if sha is None:
            return None
        with self.database.snapshot() as tx:
            return history.manifest(tx, watch.repo, sha)

    def _examine(
        self,
        watch: Watch,
        before: Snapshot | None,
        after: Snapshot,
        last: Examination | None,
        *,
        horizon: bool,
        rewritten: bool,
        had_model: bool,
    ) -> Examination:
        with self.database.snapshot() as tx:
            tip = history.head(tx, watch.repo)
            position = tip.position + 1 if tip else 0
            authors = history.authors(tx, watch.repo, before_position=position)
            earlier = history.revision_with_manifest(
                tx, watch.repo, after.manifest.digest, before_position=position
            )
        return self.examiner.examine(
            before,
            after,
            estimate_before=last.estimate if last else None,
            extra=revert(before, after, earlier),
            known_authors=authors,
            position=position,
            rewritten=rewritten,
            horizon=horizon,
            had_model=had_model,
        )

    def _land(
        self, watch: Watch, state: dict[str, Advisory], seen: Examination, *, horizon: bool, backfill: bool
    ) -> Landing:
        """Work out what the revision does to the repo's advisories and write everything at once.

        ``state`` is the repo's advisories by id; it is brought up to date once the transaction stands.
        """
        now = self.clock()
        with self.database.transaction() as tx:
            step = ledger.advance(
                tuple(state.values()),
                repo=watch.repo,
                ref=watch.ref,
                revision=seen.after.revision,
                predecessor=seen.before.revision.sha if seen.before else None,
                findings=seen.findings,
                observe=lambda facet: observe(seen.after, facet),
                now=now,
                repo_created_at=watch.repo_created_at,
                context=seen.context(),
                context_by_class=probe_context(seen.findings, seen.probes),
                horizon=horizon,
                taken=lambda advisory_id: stored_advisories.get(tx, advisory_id) is not None,
            )
            changed = state | _by_id(step.advisories)
            told = () if backfill else announcements(watch.repo, step.events, changed, now=now)
            landing = Landing(
                repo=watch.repo,
                ref=watch.ref,
                revision=seen.after.revision,
                observed_at=now,
                backfill=backfill,
                manifest=seen.after.manifest,
                gaps=seen.after.gaps,
                findings=seen.findings,
                estimate=seen.estimate,
                advisories=step.advisories,
                events=step.events,
                outbox=told,
            )
            history.land(tx, landing)
        state.update(_by_id(step.advisories))
        return landing

    def _require_moved(self, watch: Watch, source: RepoRef, head_sha: str) -> None:
        """Take a history for rewritten only where the list of refs says so, too: an answer may be stale.

        Raises UpstreamFault where two answers differ.
        """
        told = self.histories.refs(source, by_git=True).get(f"refs/heads/{watch.ref}", head_sha)
        if told != head_sha:
            raise UpstreamFault(
                f"{watch.repo.id}: {watch.ref} is said to be at {head_sha[:10]} and at {told[:10]}",
                help="nothing to do: one of the Hub's answers is stale, the next check asks again",
            )

    def _rewind(self, watch: Watch, source: RepoRef, reading: Reading, head_sha: str, tip: str) -> None:
        """History was rewritten: say so once, with the net difference, and go back to what both have."""
        walk = reading.walk
        old = self.loader.stored(watch.repo, tip)
        base = self.loader.stored(watch.repo, walk.met, source=source) if walk.met else None
        newest = walk.revisions[-1] if walk.revisions else None
        patient = watch.errors < PATIENCE
        new = self.loader.fetch(source, newest, base, reading, patient=patient) if newest else base
        net = self.examiner.examine(old, new).findings if new else ()
        now = self.clock()
        with self.database.transaction() as tx:
            state = stored_advisories.of_repo(tx, watch.repo)
            change = _rewritten(watch, tip, head_sha, walk.met, [finding.change.summary for finding in net])
            opened = open_state(
                state,
                repo=watch.repo,
                ref=watch.ref,
                finding=judge_state(change),
                key=f"rewritten:{tip}",
                sha=head_sha,
                now=now,
                repo_created_at=watch.repo_created_at,
            )
            ended = ledger.rewind(
                state,
                repo=watch.repo,
                ref=watch.ref,
                old_head=tip,
                observe=lambda facet: observe(base, facet) if base else None,
                now=now,
                successor=next((advisory.id for advisory in opened.advisories), None),
            )
            history.rewind(tx, watch.repo, walk.met)
            for advisory in (*ended.advisories, *opened.advisories):
                stored_advisories.save(tx, advisory)
            events = (*ended.events, *opened.events)
            stored_advisories.record_events(tx, watch.repo, events, now=now)
            changed = _by_id(state, (*ended.advisories, *opened.advisories))
            outbox.append(tx, announcements(watch.repo, events, changed, now=now))


def source_of(watch: Watch, head: Head) -> RepoRef:
    """The name to ask the upstream by: where a renamed repo answers now."""
    owner, _, name = head.canonical.partition("/")
    return replace(watch.repo, owner=owner, name=name) if name else watch.repo


def _index(shas: list[str], sha: str | None) -> int:
    return shas.index(sha) if sha in shas else -1


def _by_id(*groups: Iterable[Advisory]) -> dict[str, Advisory]:
    return {advisory.id: advisory for group in groups for advisory in group}


def revert(before: Snapshot | None, after: Snapshot, earlier: str | None) -> tuple[Change, ...]:
    """A tree that was there before, other than the predecessor's own, is a revert."""
    if before is None or earlier is None or before.manifest.digest == after.manifest.digest:
        return ()
    summary = f"every file is again as it was at {earlier[:7]}"
    return (Change(cls="history.revert", path="", summary=summary, facts={"restores": earlier}),)


def _begun(advisories: Iterable[Advisory], shas: list[str]) -> Change | None:
    """The rewriting whose new chain ends among these commits, which have not landed."""
    told = (item.findings[0].finding.change for item in advisories if item.cls == "history.rewritten")
    return next((change for change in told if change.after in shas), None)


def _rewritten(watch: Watch, old: str, new: str, met: str | None, net: list[str]) -> Change:
    """The change that stands for a rewritten history."""
    common = f"they share {met[:7]}" if met else "they share no commit"
    return Change(
        cls="history.rewritten",
        path="",
        summary=f"{watch.ref} was moved from {old[:7]} to {new[:7]}, which does not descend from it; {common}",
        before=old,
        after=new,
        facts={"common": met, "net": net[:50]},
    )
