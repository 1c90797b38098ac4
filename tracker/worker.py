"""One check of one watch, from lease to outcome: the same for the scheduler, the command line and any queue.

This is where a third party's failure ends: whatever one repo does, the check of the others goes on, the
watch keeps its place, and the next check takes up what is left.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

import structlog

from storage import history, moves, pauses, watches
from storage.database import Database
from storage.errors import HubwatchError, StorageError
from storage.model import Head, Landing, RepoState, Urgency, Watch
from tracker import metrics
from tracker.hub.budget import asking_as
from tracker.hub.errors import AccessDenied, BudgetSpent, RateLimited
from tracker.hub.interface import Upstream
from tracker.intervals import Intervals
from tracker.landings import OnLanded
from tracker.leases import is_dead, new_holder
from tracker.pipeline import Pipeline, source_of
from tracker.slow import SlowReads
from tracker.states import StateKeeper

LEASE = timedelta(seconds=90)
"""How long a claim lasts without being renewed; a running check renews it every third of that."""
MAIN = "main"
"""The ref that a listing tells of."""
MOVES = 50
"""How many of its last moves the interval of a repo is taken from."""
HUB = "hub"
"""The scope under which a rate-limit pause is kept: one budget for all repos of the upstream."""

log = structlog.get_logger("hubwatch.worker")


class Status(enum.StrEnum):
    """How a check ended; the words of ``hubwatch poll --json``."""

    OK = "ok"
    UNCHANGED = "unchanged"
    GATED = "gated"
    DISABLED = "disabled"
    MISSING = "missing"
    PRIVATE = "private"
    RENAMED = "renamed"
    TOKEN_BAD = "token_bad"  # noqa: S105 - a state, not a secret
    PAUSED = "paused"
    ERROR = "error"

    @property
    def good(self) -> bool:
        """Whether the repo could be followed."""
        return self in {Status.OK, Status.UNCHANGED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one check came to."""

    repo: str
    status: Status
    new_revisions: int = 0
    new_advisories: int = 0
    error: str | None = None
    wait: float | None = None  # seconds until asking is allowed again, for what was held back


@dataclass(slots=True)
class Worker:
    """Checks watches. Shared by threads."""

    upstream: Upstream
    database: Database
    pipeline: Pipeline
    states: StateKeeper
    intervals: Intervals
    clock: Callable[[], datetime]
    on_landed: OnLanded | None = None
    slow: SlowReads | None = None
    scarce: Callable[[], bool] = lambda: False
    """Whether the quota that heads are asked from is scarce, so that the other one is drawn on where it can be."""

    @metrics.observed
    def check(self, watch: Watch, *, on_landed: OnLanded | None = None) -> Outcome:
        """Look at one watch now. Never raises: what went wrong is in the outcome and in the watch's row."""
        now = self.clock()
        holder = new_holder()
        with structlog.contextvars.bound_contextvars(check=uuid4().hex[:12], repo=watch.repo.id):
            try:
                mine = self._claim(watch, holder, now)
            except StorageError as error:
                return Outcome(repo=watch.repo.id, status=Status.ERROR, error=str(error))
            if not mine:
                told = "another process is checking this repo right now: look again in a minute"
                return Outcome(repo=watch.repo.id, status=Status.PAUSED, error=told)
            try:
                with _Heartbeat(self, watch, holder):
                    outcome = self._guarded(watch, on_landed)
            finally:
                self._release(watch, holder)
            log.info("checked", status=outcome.status, revisions=outcome.new_revisions, error=outcome.error)
            return outcome

    def _claim(self, watch: Watch, holder: str, now: datetime) -> bool:
        """Take the watch's lease, also from a process of this machine that died with it."""
        with self.database.transaction() as tx:
            other = watches.lease_holder(tx, watch.id)
            if other is not None and is_dead(other):
                watches.release(tx, watch.id, other)
            return watches.claim(tx, watch.id, holder, now, now + LEASE)

    def _release(self, watch: Watch, holder: str) -> None:
        try:
            with self.database.transaction() as tx:
                watches.release(tx, watch.id, holder)
        except StorageError as error:
            log.error("lease not given back; it runs out by itself", error=str(error))

    def _guarded(self, watch: Watch, on_landed: OnLanded | None) -> Outcome:
        count = _Counter(on_landed or self.on_landed)
        if (pause := self._paused()) is not None:
            return self._postponed(watch, pause)
        try:
            with asking_as(watch.urgency):
                return self._check(watch, count)
        except RateLimited as error:
            self.pause(error)
            self._postpone(watch, error)
            return _held(watch, error, count)
        except AccessDenied as error:
            return self._failed(watch, Status(error.state), error, count)
        except HubwatchError as error:
            return self._failed(watch, Status.ERROR, error, count)
        except Exception as error:
            log.exception("check failed")
            wrapped = HubwatchError(
                f"{type(error).__name__}: {error}"[:300], help="this is a defect: please report it"
            )
            return self._failed(watch, Status.ERROR, wrapped, count)

    def _check(self, watch: Watch, count: _Counter) -> Outcome:
        head = self._ask(watch)
        watch = self._restrict(self.states.observe(watch, head), head)
        if head.state in {RepoState.MISSING, RepoState.TOKEN_BAD, RepoState.DISABLED}:
            return self._failed(watch, Status(head.state), _explain(watch, head), count)
        if head.sha != watch.head or self._unfinished(watch):
            watch = self._aim(watch, head)
            # a long read must not use up what is kept for the questions of other repos
            with asking_as(min(watch.urgency, Urgency.QUIET) if watch.head is None else watch.urgency):
                self.pipeline.follow(watch, head, on_landed=count)
        return self._beside(watch, head, self._finish(watch, head, count))

    def _ask(self, watch: Watch) -> Head:
        """Where the repo stands. While the quota of `head` is scarce, a repo at rest is only peeked at.

        A peek says nothing of the repo's state: whatever it does not confirm is asked in full, and so is a repo
        whose slower reads are due.
        """
        if self.scarce() and watch.gated is None and _at_rest(watch) and not self._slow_due(watch):
            try:
                sha = self.upstream.peek(watch.repo, ref=watch.ref)
            except BudgetSpent:
                sha = None
            if sha == watch.head:
                return _as_known(watch)
        return self.upstream.head(watch.repo, ref=watch.ref, paths=True)

    def _slow_due(self, watch: Watch) -> bool:
        if self.slow is None:
            return False
        with self.database.snapshot() as tx:
            return self.slow.is_due(tx, watch)

    def answered(self, answers: Iterable[tuple[Watch, Head]]) -> dict[int, Outcome]:
        """Take the answers that a listing gave; the outcomes, by watch id, of the repos where nothing moved.

        What is not among them takes a check of its own: another commit or state, slower reads that are due, a
        check that runs right now.
        """
        quiet = [(watch, head) for watch, head in answers if _at_rest(watch) and watch.ref == MAIN]
        quiet = [(watch, head) for watch, head in quiet if _confirms(head, watch)]
        now = self.clock()
        done: dict[int, Outcome] = {}
        with self.database.snapshot() as tx:
            after = [
                replace(
                    self.intervals.after(watch, moves.recent(tx, watch.repo, MOVES), now),
                    downloads=watch.downloads if head.downloads is None else head.downloads,
                )
                for watch, head in quiet
                if self.slow is None or not self.slow.is_due(tx, watch)
            ]
        if after:
            with self.database.transaction() as tx:
                for watch in after:
                    if watches.unchanged(tx, watch, now=now, next_check_at=watch.next_check_at or now):
                        metrics.listed()
                        done[watch.id] = Outcome(repo=watch.repo.id, status=Status.UNCHANGED)
        return done

    def _beside(self, watch: Watch, head: Head, outcome: Outcome) -> Outcome:
        """Read what is due at a slower pace; the check is done, and whatever happens here leaves it so."""
        if self.slow is None:
            return outcome
        try:
            with self.database.snapshot() as tx:
                current = watches.get(tx, watch.repo)
            with asking_as(Urgency.HINTED if self.slow.always else Urgency.IDLE):
                opened = self.slow.run(current, head, source_of(watch, head)) if current else 0
        except HubwatchError as error:
            log.warning("slower reads failed", error=str(error))
            return outcome
        except Exception:
            log.exception("slower reads failed")
            return outcome
        return replace(outcome, new_advisories=outcome.new_advisories + opened)

    def _restrict(self, watch: Watch, head: Head) -> Watch:
        """Remember, before anything is read, whether it is for everybody.

        An answer that does not say changes nothing.
        """
        if head.hub_id is None or (head.gated is not None and not head.restricted):
            return watch
        if head.restricted == watch.restricted:
            return watch
        watch = replace(watch, restricted=head.restricted)
        with self.database.transaction() as tx:
            watches.save(tx, watch)
        return watch

    def _unfinished(self, watch: Watch) -> bool:
        """Whether the newest landed revision is not the one the watch's row speaks of."""
        with self.database.snapshot() as tx:
            tip = history.head(tx, watch.repo)
        return (tip.revision.sha if tip else None) != watch.head

    def _aim(self, watch: Watch, head: Head) -> Watch:
        """Remember the head of the first read: what comes up to it was there before the watch began."""
        if watch.backfill_target is not None:
            return watch
        watch = replace(watch, backfill_target=head.sha)
        with self.database.transaction() as tx:
            watches.save(tx, watch)
        return watch

    def _finish(self, watch: Watch, head: Head, count: _Counter) -> Outcome:
        now = self.clock()
        with self.database.transaction() as tx:
            tip = history.head(tx, watch.repo)
            after = self.intervals.after(watch, moves.recent(tx, watch.repo, MOVES), now)
            current = watches.get(tx, watch.repo)
            if watch.urgency is Urgency.HINTED and not count.revisions:
                # the Hub's own answers may lag behind its hints
                after = replace(after, next_check_at=now + self.intervals.floor)
            elif current is not None and current.urgency is Urgency.HINTED is not watch.urgency:
                # hinted while this check ran: what was read may be older than the hint
                after = replace(after, next_check_at=now, urgency=Urgency.HINTED)
            if self.pipeline.stopping() and (tip is None or tip.revision.sha != head.sha):
                after = replace(after, next_check_at=now)  # cut short: whoever comes next reads the rest
            done = replace(
                after, head=tip.revision.sha if tip else None, checked_at=now, errors=0, last_error=None
            )
            watches.save(tx, done)
        status = Status.OK if count.revisions else Status.UNCHANGED
        error = None
        if head.state is RepoState.RENAMED:
            status, error = Status.RENAMED, str(_explain(watch, head))
        return Outcome(
            repo=watch.repo.id,
            status=status,
            new_revisions=count.revisions,
            new_advisories=count.advisories,
            error=error,
        )

    def _failed(self, watch: Watch, status: Status, error: HubwatchError, count: _Counter) -> Outcome:
        """Reschedule with back-off; what landed before the failure is kept and counted."""
        metrics.failed(error.code)
        now = self.clock()
        try:
            with self.database.transaction() as tx:
                current = watches.get(tx, watch.repo) or watch
                failed = replace(
                    current,
                    errors=current.errors + 1,
                    last_error=str(error),
                    checked_at=now,
                    next_check_at=self.intervals.after_failure(current, now),
                )
                watches.save(tx, failed)
        except StorageError as trouble:
            log.error("could not keep the failure", error=str(trouble))
        return Outcome(
            repo=watch.repo.id,
            status=status,
            new_revisions=count.revisions,
            new_advisories=count.advisories,
            error=str(error),
        )

    def _paused(self) -> datetime | None:
        """The end of the pause that the Hub asked for, while it lasts."""
        now = self.clock()
        with self.database.snapshot() as tx:
            until = pauses.until(tx, HUB)
        return until if until is not None and until > now else None

    def _postponed(self, watch: Watch, until: datetime) -> Outcome:
        """Ask nothing during a pause; the watch stays due."""
        wait = (until - self.clock()).total_seconds()
        told = f"the Hub asked for a pause, {wait:.0f} s are left: nothing was asked, and nothing is lost"
        return Outcome(repo=watch.repo.id, status=Status.PAUSED, error=told, wait=wait)

    def _postpone(self, watch: Watch, error: RateLimited) -> None:
        """Try again when the window is over whose share is spent: an earlier try would spend more for nothing.

        A repo at rest keeps its place among those that wait: it was refused before anything was asked.
        """
        at_rest = watch.urgency <= Urgency.QUIET and _at_rest(watch)
        if at_rest or not isinstance(error, BudgetSpent):
            return
        until = self.clock() + timedelta(seconds=error.seconds)
        try:
            with self.database.transaction() as tx:
                watches.postpone(tx, watch, until)
        except StorageError as trouble:
            log.warning("not postponed", error=str(trouble))

    def pause(self, error: RateLimited) -> None:
        """Keep the Hub's wish where every thread and every node sees it.

        Our own share of the window is no wish of the Hub's: more urgent questions may go on.
        """
        if isinstance(error, BudgetSpent):
            return
        until = self.clock() + timedelta(seconds=error.seconds)
        with self.database.transaction() as tx:
            pauses.put(tx, HUB, until, reason=error.message)


def _held(watch: Watch, error: RateLimited, count: _Counter) -> Outcome:
    """Not a failure of the repo: what landed is kept, and the watch is due as soon as asking is allowed again."""
    return Outcome(
        repo=watch.repo.id,
        status=Status.PAUSED,
        new_revisions=count.revisions,
        new_advisories=count.advisories,
        error=str(error),
        wait=error.seconds,
    )


def _at_rest(watch: Watch) -> bool:
    """Whether all that a question can bring of a repo is another commit."""
    return (
        watch.head is not None
        and watch.hub_id is not None
        and watch.canonical == watch.repo.id
        and watch.state is RepoState.OK
        and watch.missing_count == 0
    )


def _confirms(head: Head, watch: Watch) -> bool:
    """Whether an answer says that a repo is what and where it was."""
    said_less = head.gated is not None and not head.restricted
    return (
        head.state is RepoState.OK
        and head.sha == watch.head
        and head.hub_id == watch.hub_id
        and head.canonical == watch.canonical
        and head.gated == watch.gated
        and head.private == watch.private
        and (said_less or head.restricted == watch.restricted)
    )


def _as_known(watch: Watch) -> Head:
    """The answer to the cheap question, for a repo that stands as it stood."""
    return Head(
        state=watch.state,
        sha=watch.head,
        hub_id=watch.hub_id,
        canonical=watch.canonical or watch.repo.id,
        created_at=watch.repo_created_at,
        gated=watch.gated,
        private=watch.private,
        with_token=watch.restricted,
    )


@dataclass(slots=True)
class _Counter:
    """Counts what lands, and passes it on."""

    onward: OnLanded | None
    revisions: int = 0
    advisories: int = 0

    def __call__(self, landing: Landing, number: int, total: int) -> None:
        self.revisions += 1
        self.advisories += sum(event.action == "opened" for event in landing.events)
        if self.onward:
            self.onward(landing, number, total)


class _Heartbeat:
    """Keeps the lease alive while the block runs, so that a long backfill is not taken over."""

    def __init__(self, worker: Worker, watch: Watch, holder: str) -> None:
        self._worker, self._watch, self._holder = worker, watch, holder
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="lease")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._done.wait(LEASE.total_seconds() / 3):
            try:
                with self._worker.database.transaction() as tx:
                    watches.renew(tx, self._watch.id, self._holder, self._worker.clock() + LEASE)
            except StorageError as error:
                log.warning("lease not extended", error=str(error))


def _explain(watch: Watch, head: Head) -> HubwatchError:
    """What a state means and what to do about it."""
    name = watch.repo.id
    match head.state:
        case RepoState.RENAMED:
            told, todo = (
                f"{name} is now {head.canonical}",
                f"change what you run, then: hubwatch watch add {head.canonical}",
            )
        case RepoState.DISABLED:
            told, todo = f"{name} was disabled by the Hub", "mirror what you hold; its history here is kept"
        case RepoState.TOKEN_BAD:
            told, todo = "the Hub does not accept the token", "set HF_TOKEN to a valid one, or unset it"
        case _:
            told = f"{name} does not exist, or is private"
            todo = "check the name; for a private repo set HF_TOKEN to a token that may read it"
    return HubwatchError(told, help=todo)
