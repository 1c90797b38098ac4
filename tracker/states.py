"""What a repo's state says: gated, disabled, gone, renamed, taken by a stranger.

Each is told once, when it begins, and closed when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from advisories import ledger
from advisories.outbox import announcements
from advisories.rules.judge import judge_state
from advisories.states import end_state, open_state
from storage import advisories as stored_advisories
from storage import history, outbox, refs, watches
from storage.database import Database, Transaction
from storage.model import Advisory, AdvisoryEvent, Change, Head, RepoState, Watch
from tracker.hub.interface import Upstream
from tracker.lookalike import look_alikes

OnChanged = Callable[[Iterable[Advisory], Iterable[AdvisoryEvent]], None]


@dataclass(slots=True)
class StateKeeper:
    """Compares each answer of the Hub with what was known, and keeps both the state and its advisories.

    A repo is called gone only after ``gone_after`` answers in a row, over at least ``gone_within``, and
    never while our own token is refused: an expired token makes every private repo look deleted.
    """

    upstream: Upstream
    database: Database
    clock: Callable[[], datetime]
    gone_after: int
    gone_within: timedelta
    on_changed: OnChanged = lambda _advisories, _events: None

    def observe(self, watch: Watch, head: Head) -> Watch:
        """Take in an answer; returns the watch as it now stands (and is kept)."""
        if head.state is RepoState.TOKEN_BAD:
            return watch
        now = self.clock()
        after = self._count_missing(replace(watch, state=head.state), head, now)
        if head.hub_id is not None:
            after = replace(
                after,
                hub_id=head.hub_id,
                canonical=head.canonical,
                repo_created_at=head.created_at or watch.repo_created_at,
                gated=head.gated,
                private=head.private,
                downloads=watch.downloads if head.downloads is None else head.downloads,
            )
        taken_over = watch.hub_id is not None and head.hub_id is not None and head.hub_id != watch.hub_id
        if taken_over:
            after = replace(after, head=None, backfill_target=None)
        if replace(after, downloads=watch.downloads) == watch:
            return after  # a count that moves all the time is kept with the check, and is no change of state
        self._keep(watch, after, head, now, taken_over=taken_over)
        return after

    def _count_missing(self, watch: Watch, head: Head, now: datetime) -> Watch:
        if head.state is not RepoState.MISSING:
            return replace(watch, missing_count=0, missing_since=None)
        if watch.missing_count and self.upstream.token_is_good() is False:
            return watch  # our token went bad between two calls: this answer says nothing about the repo
        return replace(watch, missing_count=watch.missing_count + 1, missing_since=watch.missing_since or now)

    def _gone(self, watch: Watch, now: datetime) -> bool:
        since = watch.missing_since
        return watch.missing_count >= self.gone_after and since is not None and now - since >= self.gone_within

    def _keep(self, before: Watch, after: Watch, head: Head, now: datetime, *, taken_over: bool) -> None:
        with self.database.transaction() as tx:
            state = stored_advisories.of_repo_state(tx, after.repo)
            tip = history.head(tx, after.repo)
            sha = head.sha or (tip.revision.sha if tip else None) or "0" * 40
            steps = []
            if before.hub_id is not None:  # what was so before the watch began is not news
                steps += [
                    open_state(
                        state,
                        repo=after.repo,
                        ref=after.ref,
                        finding=judge_state(change),
                        key=f"{change.cls.removeprefix('repo.')}:{change.after}",
                        sha=sha,
                        now=now,
                        repo_created_at=after.repo_created_at,
                    )
                    for change in self._begun(before, after, now, taken_over=taken_over)
                ]
            opened = [advisory.id for step in steps for advisory in step.advisories]
            steps += [end_state(state, cls=cls, now=now, keep=opened) for cls in self._ended(before, after)]
            changed = {advisory.id: advisory for step in steps for advisory in step.advisories}
            events = tuple(event for step in steps for event in step.events)
            for advisory in changed.values():
                stored_advisories.save(tx, advisory)
            stored_advisories.record_events(tx, after.repo, events, now=now)
            outbox.append(tx, announcements(after.repo, events, changed, now=now))
            watches.save(tx, after)
            if taken_over:
                self._begin_anew(tx, after, tip.revision.sha if tip else None, opened, now)
            if before.hub_id is None and after.hub_id is not None:
                look_alikes(tx, after, sha=head.sha, now=now)
        self.on_changed(changed.values(), events)

    def _begin_anew(
        self, tx: Transaction, watch: Watch, tip: str | None, opened: list[str], now: datetime
    ) -> None:
        """The name belongs to another repo: what was said of the old one ends with its head, its history stays."""
        if tip is not None:
            ended = ledger.rewind(
                stored_advisories.of_repo(tx, watch.repo),
                repo=watch.repo,
                ref=watch.ref,
                old_head=tip,
                observe=lambda _: None,
                now=now,
                successor=next(iter(opened), None),
            )
            for advisory in ended.advisories:
                stored_advisories.save(tx, advisory)
            changed = {advisory.id: advisory for advisory in ended.advisories}
            stored_advisories.record_events(tx, watch.repo, ended.events, now=now)
            outbox.append(tx, announcements(watch.repo, ended.events, changed, now=now))
        history.rewind(tx, watch.repo, None)
        refs.forget(tx, watch.repo)

    def _begun(self, before: Watch, after: Watch, now: datetime, *, taken_over: bool) -> Iterator[Change]:
        name = after.repo.id
        if taken_over:
            yield _state(
                "repo.owner_changed",
                f"{name} is another repo now: its identity on the Hub changed",
                before.hub_id,
                after.hub_id,
            )
        if after.canonical not in {name, before.canonical}:
            yield _state("repo.renamed", f"{name} answers as {after.canonical} now", name, after.canonical)
        if after.gated and after.gated != before.gated:
            yield _state("repo.gated", f"{name} asks for access now ({after.gated})", None, after.gated)
        if after.private and not before.private:
            yield _state("repo.private", f"{name} is private now", False, True)
        if after.state is RepoState.DISABLED and before.state is not RepoState.DISABLED:
            yield _state("repo.disabled", f"{name} was disabled by the Hub", "enabled", "disabled")
        if self._gone(after, now) and not self._gone(before, now):
            yield _state(
                "repo.deleted",
                f"{name} is gone, or private to us: answered so {after.missing_count} times",
                "public",
                "missing",
            )

    def _ended(self, before: Watch, after: Watch) -> Iterator[str]:
        """Classes whose state no longer stands. A missing repo says nothing about the others."""
        if after.state is RepoState.MISSING:
            return
        yield "repo.deleted"
        if after.state is not RepoState.DISABLED:
            yield "repo.disabled"
        if after.gated != before.gated:
            yield "repo.gated"
        if not after.private:
            yield "repo.private"
        if after.canonical == after.repo.id or after.canonical != before.canonical:
            yield "repo.renamed"


def _state(cls: str, summary: str, before: object, after: object) -> Change:
    return Change(cls=cls, path="", summary=summary, before=before, after=after)
