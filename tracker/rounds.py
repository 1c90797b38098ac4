"""Many repos of one owner are asked about in one question: a listing says where each of them stands.

A round takes what is due, finds the owners of whom several repos are due or will be soon, lists each of them
once, and leaves for a check of its own whatever the listing does not confirm to be unchanged. A listing proves
nothing by what it leaves out: a repo that is missing from it is asked about by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from storage import watches
from storage.database import Database
from storage.errors import HubwatchError
from storage.model import Head, RepoRef, Urgency, Watch
from tracker.hub.budget import SharedBudget, asking_as
from tracker.hub.client import LISTING_PAGE
from tracker.hub.errors import RateLimited
from tracker.hub.interface import Listing
from tracker.owners import Owners
from tracker.worker import MAIN, Outcome, Worker

API, RESOLVERS = "api", "resolvers"
FEWEST = 2
"""Repos of an owner from which on a listing is worth its request."""
PER_PAGE = 2
"""Repos that each further page of a listing must be able to answer for, or it is not read."""
NO_USE = timedelta(hours=24)
"""How long an owner is not listed again who has so many repos that the listing did not come to ours."""

Owner = tuple[str, str]

log = structlog.get_logger("hubwatch.rounds")


@dataclass(frozen=True, slots=True)
class Plan:
    """Which owners to list, with the repos to be answered; and which repos to ask about by themselves."""

    listings: dict[Owner, list[Watch]] = field(default_factory=dict)
    single: list[Watch] = field(default_factory=list)


class Rounds:
    """Lists owners, and takes the answers in. Shared by threads.

    Args:
        upstream: What gives listings.
        database: Where the watches are.
        worker: What an answer is handed to.
        owners: The owners that are watched whole: a listing of one is good for finding its new repos, too.
        budget: What may still be asked; None where nothing limits it.
        clock: The wall clock.
        soon: How far ahead repos count as due when their owner is listed anyway.

    """

    def __init__(
        self,
        upstream: Listing,
        database: Database,
        worker: Worker,
        owners: Owners,
        budget: SharedBudget | None,
        clock: Callable[[], datetime],
        *,
        soon: timedelta,
    ) -> None:
        self._upstream, self._database, self._worker, self._owners = upstream, database, worker, owners
        self._budget, self._clock, self._soon = budget, clock, soon
        self._no_use: dict[Owner, datetime] = {}
        self._alone: dict[int, datetime] = {}  # what a listing left, and until when it is asked by itself
        self._open: dict[Owner, Future[None]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="listing")

    def least_urgent(self) -> Urgency | None:
        """The least urgent checks that either quota has room for; None when neither has any."""
        if self._budget is None:
            return Urgency.QUIET
        floors = [self._budget.least_urgent(API), self._budget.least_urgent(RESOLVERS)]
        return min((floor for floor in floors if floor is not None), default=None)

    def plan(self, due: Iterable[Watch]) -> Plan:
        """Sort what is due by the question that costs least."""
        now = self._clock()
        due = list(due)
        single = [watch for watch in due if not self._listable(watch)]
        listable = [watch for watch in due if self._listable(watch)]
        with self._database.snapshot() as tx:
            groups = watches.due_of_owners(tx, sorted({_owner(watch) for watch in listable}), now + self._soon)
        listings: dict[Owner, list[Watch]] = {}
        for owner, around in groups.items():
            asked = {watch.id: watch for watch in around if self._listable(watch)}
            asked |= {watch.id: watch for watch in listable if _owner(watch) == owner}
            if self._pays(owner, len(asked), now):
                listings[owner] = list(asked.values())
            else:
                single += [watch for watch in listable if _owner(watch) == owner]
        return Plan(listings, single)

    def _pays(self, owner: Owner, count: int, now: datetime) -> bool:
        if count < FEWEST or self._no_use.get(owner, now) > now:
            return False
        if self._budget is None or not self._budget.is_scarce():
            return True
        # While the API is scarce: one request of it against one peek a repo, each in shares of what is left.
        api, resolvers = (self._budget.room(name, Urgency.QUIET) for name in (API, RESOLVERS))
        return api is None or resolvers is None or (api > 0 and count * api >= resolvers)

    def ask(self, owner: Owner, asked: Sequence[Watch]) -> dict[int, Outcome]:
        """List an owner and take the answers in; returns the outcomes of those that did not move, by watch id.

        Raises HubError.
        """
        endpoint, name = owner
        most = max(1, len(asked) // PER_PAGE)
        urgency = max((watch.urgency for watch in asked), default=Urgency.QUIET)
        with asking_as(urgency):
            heads = self._upstream.listing(name, max_pages=most)
        with self._database.snapshot() as tx:
            watched = watches.get_owner(tx, name, endpoint=endpoint)
        whole = len(heads) < most * LISTING_PAGE
        if whole and watched is not None and not watched.paused:
            self._owners.take_in(watched, heads)
        done = self.answer(asked, heads)
        found = {head.canonical for head in heads}
        if not whole and sum(watch.repo.id in found for watch in asked) * 2 < len(asked):
            self._no_use[owner] = self._clock() + NO_USE
        log.info("listed", owner=name, asked=len(asked), unchanged=len(done))
        return done

    def heard(self, endpoint: str, owner: str, heads: Sequence[Head]) -> dict[int, Outcome]:
        """Take in a listing that was read for another reason: what is due by and by need not be asked again."""
        with self._database.snapshot() as tx:
            around = watches.due_of_owners(tx, [(endpoint, owner)], self._clock() + self._soon)
        return self.answer(around[endpoint, owner], heads)

    def answer(self, asked: Iterable[Watch], heads: Iterable[Head]) -> dict[int, Outcome]:
        """Take in what a listing says of these watches; see `ask`."""
        by_name = {head.canonical: head for head in heads}
        return self._worker.answered(
            (watch, by_name[watch.repo.id])
            for watch in asked
            if self._listable(watch) and watch.repo.id in by_name
        )

    def submit(self, owner: Owner, asked: Sequence[Watch], then: Callable[[Watch], object]) -> bool:
        """List an owner in the background, and hand on what the listing left; False while that is under way."""
        with self._lock:
            if owner in self._open:
                return False
            future = self._pool.submit(self._run, owner, asked, then)
            self._open[owner] = future
        future.add_done_callback(lambda _: self._forget(owner))
        return True

    def drain(self, timeout: float | None = None) -> bool:
        """Begin nothing more and wait for what runs; False when something still ran at the timeout."""
        with self._lock:
            running = list(self._open.values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(running, timeout=timeout).not_done

    def _run(self, owner: Owner, asked: Sequence[Watch], then: Callable[[Watch], object]) -> None:
        done: dict[int, Outcome] = {}
        try:
            done = self.ask(owner, asked)
        except RateLimited as error:
            self._worker.pause(error)
            return
        except HubwatchError as error:
            # the listing says nothing: every repo is asked by itself
            log.info("not listed", owner=owner[1], error=str(error))
            self._no_use[owner] = self._clock() + self._soon
        now = self._clock()
        left = [watch for watch in asked if watch.id not in done]
        self._alone = {key: until for key, until in self._alone.items() if until > now}
        self._alone |= {watch.id: now + self._soon for watch in left}
        for watch in left:
            if (watch.next_check_at or now) <= now:
                then(watch)

    def _listable(self, watch: Watch) -> bool:
        """Whether a listing can answer for a repo: what is new, moved, or hinted to have is asked in full."""
        alone = self._alone.get(watch.id)
        return (
            watch.ref == MAIN
            and watch.head is not None
            and watch.urgency is not Urgency.HINTED
            and (alone is None or alone <= self._clock())
        )

    def _forget(self, owner: Owner) -> None:
        with self._lock:
            self._open.pop(owner, None)


def _owner(watch: Watch) -> Owner:
    repo: RepoRef = watch.repo
    return repo.endpoint, repo.owner
