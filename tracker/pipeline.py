"""The story of a ref, revision by revision: network first, pure functions next, one transaction last.

    histories.history    which commits are new, oldest first, read by the API or by git
      loader.fetch       tree, unseen small blobs, weight headers     -> Snapshot
      examiner.examine   diff, probes, estimate, rules                -> Findings
      ledger.advance     what opens, holds on, closes                 -> Advisories
      history.land_all   all of it, in one transaction, those of a few revisions where many are new

Nothing of a revision is written before it is whole, and every row is unique by content: a run that dies
anywhere is taken up by the next one at the first revision that had not landed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
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
from storage.errors import StorageError
from storage.history import Chain
from storage.model import Advisory, Change, Estimate, Head, Landing, Manifest, RepoRef, Snapshot, Watch
from tracker.ahead import ReadAhead
from tracker.diff.registry import observe
from tracker.examine import Examination, Examiner
from tracker.hub.errors import UpstreamFault
from tracker.hub.readers import Histories, Reading
from tracker.landings import Landings, OnLanded
from tracker.loader import Loader

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
            chain = history.chain(tx, watch.repo)
        tip = chain.tip
        first = tip is None and watch.head is None  # a rewriting that was cut short leaves no tip, either
        with self.histories.history(
            source,
            head=head.sha,
            known=chain.shas.__contains__,
            place=chain.shas.get,
            since=watch.since if first else None,
            only_head=watch.from_head and first,
            base=lambda: self._manifest(watch, tip),
            paths=head.paths,
            wary=watch.errors > 0,
        ) as reading:
            return self._follow(watch, source, head.sha, reading, chain, on_landed)

    def _follow(
        self,
        watch: Watch,
        source: RepoRef,
        head_sha: str,
        reading: Reading,
        chain: Chain,
        on_landed: OnLanded | None,
    ) -> list[Landing]:
        """Land what is new on top of what was known until now."""
        walk, tip = reading.walk, chain.tip
        rewritten = tip is not None and walk.met != tip
        if rewritten and tip is not None:
            self._require_moved(watch, source, head_sha)
            self._rewind(watch, source, reading, head_sha, tip)
        shas = [revision.sha for revision in walk.revisions]
        self.examiner.expect(len(shas))
        with self.database.snapshot() as tx:
            state = _by_id(stored_advisories.of_repo(tx, watch.repo))
            chain = history.chain(tx, watch.repo) if rewritten else chain
        # A new chain is read as such to its end, also where an earlier check had begun it and was cut short.
        begun = _begun(state.values(), shas)
        renewed = len(shas) if rewritten else _index(shas, begun.after if begun else None) + 1
        backfilled = max(renewed, _index(shas, watch.backfill_target) + 1)
        # With no common ancestor the new chain is held against the old one's end: only what differs is news.
        base = walk.met or (tip if rewritten else begun.before if begun else None)
        before = self.loader.stored(watch.repo, base, source=source) if base and shas else None
        estimate: Estimate | None = None
        landings = Landings(self.database, len(shas), on_landed)
        with self._ahead(source, reading, shas, landings.write) as files, landings:
            for number, revision in enumerate(walk.revisions):
                if self.stopping():
                    break
                after = self.loader.fetch(source, revision, before, files, patient=watch.errors < PATIENCE)
                horizon = number == 0 and walk.horizon
                had_model = before is not None and any(
                    advisory.cls == "repo.first_files" and advisory.introduced in chain.shas
                    for advisory in state.values()
                )
                seen = self.examiner.examine(
                    before,
                    after,
                    estimate_before=estimate,
                    extra=revert(before, after, chain.trees.get(after.manifest.digest)),
                    known_authors=frozenset(chain.authors),
                    position=chain.length,
                    rewritten=number < renewed,
                    horizon=horizon,
                    had_model=had_model,
                )
                landings.add(self._landing(watch, state, seen, horizon=horizon, backfill=number < backfilled))
                chain.add(revision.sha, revision.author, after.manifest.digest)
                before, estimate = after, seen.estimate
                del seen  # it holds the revision before, whose tokenizer may be large
        return landings.written

    @contextmanager
    def _ahead(
        self, source: RepoRef, reading: Reading, shas: list[str], waiting: Callable[[], None]
    ) -> Iterator[ReadAhead]:
        """The files of the new revisions, read ahead; what came too early for a failure is kept, too."""
        files = ReadAhead(reading, source, shas, self.loader.absent, waiting)
        try:
            with files:
                yield files
        finally:
            with suppress(StorageError):  # then it is fetched again
                self.loader.keep(files.unclaimed())

    def _manifest(self, watch: Watch, sha: str | None) -> Manifest | None:
        """The files of a landed revision."""
        if sha is None:
            return None
        with self.database.snapshot() as tx:
            return history.manifest(tx, watch.repo, sha)

    def _landing(
        self, watch: Watch, state: dict[str, Advisory], seen: Examination, *, horizon: bool, backfill: bool
    ) -> Landing:
        """All that a revision writes, and what it does to the repo's advisories.

        ``state`` is the repo's advisories by id; it is brought up to date.
        """
        now = self.clock()
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
            taken=lambda advisory_id: advisory_id in state or self._is_taken(advisory_id),
        )
        state.update(_by_id(step.advisories))
        return Landing(
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
            outbox=() if backfill else announcements(watch.repo, step.events, state, now=now),
        )

    def _is_taken(self, advisory_id: str) -> bool:
        with self.database.snapshot() as tx:
            return stored_advisories.has(tx, advisory_id)

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
