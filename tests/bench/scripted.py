"""A Hub of many quiet repos without a network: what it is asked is paid for and counted, what it says is scripted.

`hubwatch` reads it through the real budget, planner, worker and storage; only the wire and the reading of new
revisions are replaced, at the price in requests that they have.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Table, insert

from storage import history, moves
from storage.database import Database, Transaction
from storage.model import (
    DEFAULT_IDENTITY,
    Head,
    Landing,
    Manifest,
    RepoRef,
    RepoState,
    Revision,
    Urgency,
    Watch,
)
from storage.tables import repo_refs, repos, revisions, slow_reads, watches
from tracker.demo.limits import RateLimiter
from tracker.hub.budget import SharedBudget, scope_of
from tracker.hub.errors import RateLimited
from tracker.hub.limits import parse_budgets
from tracker.intervals import Intervals
from tracker.owners import Owners
from tracker.refs import RefKeeper
from tracker.rounds import Rounds
from tracker.scheduler import Scheduler
from tracker.slow import SlowReads
from tracker.states import StateKeeper
from tracker.worker import MOVES, Outcome, Status, Worker

START = datetime(2026, 3, 1, tzinfo=UTC)
API, RESOLVERS = "api", "resolvers"
ANONYMOUS = {API: 500, RESOLVERS: 3000}
"""Requests in five minutes that the Hub allows an address without a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many repos of how many owners, and how they behave. Everything follows from the seed.

    ``every`` is a fixed interval for all watches; None: adaptive. ``moving`` is the share of repos that moved in
    the last hours; ``based`` the share that names another repo; ``hints`` how many a minute come in, each about
    a commit that is there.
    """

    watches: int = 10_000
    owners: int = 2_000
    every: timedelta | None = None
    moving: float = 0.02
    based: float = 0.5
    hints: int = 2
    quota: dict[str, int] = field(default_factory=lambda: dict(ANONYMOUS))
    seed: int = 1


@dataclass(slots=True)
class Clock:
    """A clock that stands until it is moved."""

    time: datetime = START

    def __call__(self) -> datetime:
        """The time."""
        return self.time


class ScriptedHub:
    """What stands where, and what it costs to ask. An `Upstream` as far as watches at rest need one."""

    def __init__(self, clock: Clock, quota: dict[str, int], gate: SharedBudget) -> None:
        """Nothing is there yet."""
        self.clock, self.gate = clock, gate
        self.limits = RateLimiter(self._seconds, dict(quota))
        self.heads: dict[str, str] = {}
        self.by_owner: dict[str, list[str]] = {}
        self.asked: Counter[str] = Counter()
        self.refused = 0
        self.fullest: Counter[str] = Counter()
        """The most that was spent of a quota in one of the Hub's own windows."""

    def _seconds(self) -> float:
        return self.clock.time.timestamp()

    def pay(self, bucket: str, what: str, count: int = 1) -> None:
        """One request or more: through the gate, then counted as the Hub counts, whose answer is taken in."""
        for _ in range(count):
            self.gate.take(bucket)
            allowance = self.limits.take(bucket, "all")
            self.asked[what] += 1
            if not allowance.granted:
                self.refused += 1
                raise RateLimited("spent", seconds=allowance.seconds)
            self.fullest[bucket] = max(self.fullest[bucket], allowance.quota - allowance.left)
            self.gate.learn(parse_budgets(allowance.headers, self.clock.time))

    def head(self, repo: RepoRef, *, ref: str = "main", paths: bool = False) -> Head:
        """See `Upstream.head`."""
        self.pay(API, "head")
        return self._head(repo.id)

    def peek(self, repo: RepoRef, *, ref: str = "main") -> str | None:
        """See `Upstream.peek`."""
        self.pay(RESOLVERS, "peek")
        return self.heads[repo.id]

    def listing(self, owner: str, *, max_pages: int | None = None) -> list[Head]:
        """See `Listing.listing`: one page, as nobody here has more than 1,000 repos."""
        self.pay(API, "listing")
        return [self._head(name) for name in self.by_owner[owner]]

    def refs(self, repo: RepoRef) -> dict[str, str]:
        """See `Upstream.refs`; while the API is scarce git is asked, which is out of both quotas."""
        if self.gate.is_scarce():
            self.asked["ls-remote"] += 1
        else:
            self.pay(API, "refs")
        return {"refs/heads/main": self.heads[repo.id]}

    def token_is_good(self) -> bool | None:
        """There is none."""
        return None

    def _head(self, name: str) -> Head:
        return Head(state=RepoState.OK, sha=self.heads[name], hub_id=hub_id(name), canonical=name)


@dataclass(slots=True)
class PaidPipeline:
    """Lands a head for what reading it costs: commits, tree, a file."""

    hub: ScriptedHub
    database: Database
    stopping: Callable[[], bool] = lambda: False

    def follow(self, watch: Watch, head: Head, *, on_landed: Any = None) -> list[Landing]:
        """See `Pipeline.follow`."""
        self.hub.pay(API, "read", 2)
        self.hub.pay(RESOLVERS, "read", 2)
        now = self.hub.clock()
        revision = Revision(sha=head.sha or "", committed_at=now, author="a", title="t", parents_unknown=True)
        landing = Landing(
            repo=watch.repo,
            ref=watch.ref,
            revision=revision,
            observed_at=now,
            backfill=False,
            manifest=Manifest(files={}),
            gaps=(),
            findings=(),
            estimate=None,
            advisories=(),
            events=(),
        )
        with self.database.transaction() as tx:
            history.land(tx, landing)
        if on_landed:
            on_landed(landing, 1, 1)
        return [landing]


class Inline(Executor):
    """Runs what is submitted at once: simulated time stands still meanwhile."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor`."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@dataclass(slots=True)
class Look:
    """One look at a repo: when it was due, and for how long it should have rested since the last."""

    urgency: int
    late: float


class WatchedWorker(Worker):
    """A worker whose answers are timed."""

    looks: list[Look]
    tries: int
    held: int
    hinted: dict[str, datetime]
    waiting: dict[str, datetime]
    """Since when those are due that were held back for the budget, by repo."""

    def check(self, watch: Watch, **options: Any) -> Outcome:
        """See `Worker.check`."""
        outcome = super().check(watch, **options)
        self.tries += 1
        if outcome.status in {Status.OK, Status.UNCHANGED}:
            self._note(watch)
        else:
            self.held += 1
            self.waiting.setdefault(watch.repo.id, watch.next_check_at or watch.created_at)
        return outcome

    def answered(self, answers: Any) -> dict[int, Outcome]:
        """See `Worker.answered`."""
        answers = list(answers)
        done = super().answered(answers)
        for watch, _ in answers:
            if watch.id in done:
                self._note(watch)
        return done

    def _note(self, watch: Watch) -> None:
        due = self.waiting.pop(watch.repo.id, watch.next_check_at or watch.created_at)
        if watch.urgency is Urgency.HINTED:  # one that was late already is due since the hint
            due = self.hinted.pop(watch.repo.id, due)
        self.looks.append(Look(int(watch.urgency), max(0.0, (self.clock() - due).total_seconds())))


@dataclass(slots=True)
class Taker:
    """A dispatcher that checks at once, as many in a tick as the threads of a daemon would."""

    worker: WatchedWorker
    room: int
    left: int = 0

    def submit(self, watch: Watch) -> bool:
        """See `Dispatcher.submit`."""
        if self.left <= 0:
            return False
        self.left -= 1
        self.worker.check(watch)
        return True

    def start(self) -> None:
        """See `Dispatcher.start`."""

    def drain(self, timeout: float | None = None) -> bool:
        """See `Dispatcher.drain`."""
        return True


@dataclass(slots=True)
class House:
    """A scheduler and a worker on a database, watching a scripted Hub."""

    plan: Plan
    clock: Clock
    hub: ScriptedHub
    database: Database
    worker: WatchedWorker
    scheduler: Scheduler
    taker: Taker
    names: list[str]
    chance: random.Random

    def tick(self) -> None:
        """One tick of the scheduler, with room for what the threads do until the next."""
        self.taker.left = self.taker.room
        self.scheduler.tick()


CHECKS_A_TICK = 64
"""Four threads and five seconds, at 0.3 seconds a check."""


@contextmanager
def house(database: Database, plan: Plan) -> Iterator[House]:
    """Everything wired as `tracker.assembly` does, on a database that this fills."""
    clock = Clock()
    gate = SharedBudget(database, scope_of(DEFAULT_IDENTITY, None), share=0.8, clock=clock)
    hub = ScriptedHub(clock, plan.quota, gate)
    chance = random.Random(plan.seed)  # noqa: S311
    names = fill(database, plan, chance)
    for name in names:
        hub.heads[name] = sha(name, 0)
        hub.by_owner.setdefault(name.partition("/")[0], []).append(name)
    intervals = Intervals(floor=timedelta(minutes=5), default=timedelta(minutes=30), ceiling=timedelta(hours=24))
    spread(database, intervals, clock.time, chance)
    states = StateKeeper(hub, database, clock, 3, timedelta(0))  # type: ignore[arg-type]
    pipeline = PaidPipeline(hub, database)
    worker = WatchedWorker(hub, database, pipeline, states, intervals, clock, scarce=gate.is_scarce)  # type: ignore[arg-type]
    worker.looks, worker.tries, worker.held, worker.hinted, worker.waiting = [], 0, 0, {}, {}
    based = {name for name in names if chance.random() < plan.based}

    def related(watch: Watch, _: RepoRef) -> int:
        if watch.repo.id in based:
            hub.pay(API, "related")
        return 0

    refs = RefKeeper(hub, database, clock, hub.refs)  # type: ignore[arg-type]
    worker.slow = SlowReads(
        database,
        {"refs": refs.look, "related": related},
        every=timedelta(hours=6),
        clock=clock,
        paused=worker.pause,
        affordable=lambda: gate.room(API, Urgency.IDLE) != 0,
    )
    owners = Owners(hub, database, clock)
    rounds = Rounds(hub, database, worker, owners, gate, clock, soon=timedelta(minutes=7.5))
    rounds._pool = Inline()  # type: ignore[assignment]
    taker = Taker(worker, CHECKS_A_TICK)
    scheduler = Scheduler(database, taker, rounds, clock)
    yield House(plan, clock, hub, database, worker, scheduler, taker, names, chance)


def sha(name: str, number: int) -> str:
    """A commit of a repo."""
    return hashlib.sha1(f"{name}/{number}".encode(), usedforsecurity=False).hexdigest()


def hub_id(name: str) -> str:
    """A repo's identity."""
    return sha(name, -1)[:24]


def fill(database: Database, plan: Plan, chance: random.Random) -> list[str]:
    """Write watches that were read long ago: a head, an identity, a revision, slower reads that are spread."""
    names = [f"owner{number % plan.owners}/model{number}" for number in range(plan.watches)]
    recent = plan.moving
    rows: dict[Table, list[dict[str, Any]]] = {t: [] for t in (repos, watches, revisions, slow_reads, repo_refs)}
    for number, name in enumerate(names, 1):
        owner, _, short = name.partition("/")
        rows[repos].append(
            {
                "id": number, "endpoint": DEFAULT_IDENTITY, "owner": owner, "name": short, "ref": "main",
                "hub_id": hub_id(name), "canonical": name, "state": "ok", "private": False, "public": False,
                "restricted": False,
            }
        )  # fmt: skip
        rows[watches].append(
            {
                "id": number, "repo_id": number, "every": plan.every, "from_head": False, "paused": False,
                "created_at": START - timedelta(days=400), "head": sha(name, 0), "backfill_target": sha(name, 0),
                "next_check_at": START, "errors": 0, "missing_count": 0, "urgency": 0,
            }
        )  # fmt: skip
        rest = (
            timedelta(hours=chance.uniform(0, 5))
            if chance.random() < recent
            else timedelta(days=chance.expovariate(1 / 60))
        )
        rows[revisions].append(
            {
                "repo_id": number, "ref": "main", "sha": sha(name, 0), "position": 0, "parents": [],
                "parents_unknown": True, "committed_at": START - rest, "author": "a", "title": "t",
                "observed_at": START - rest, "backfill": False, "manifest_digest": "0" * 64,
            }
        )  # fmt: skip
        rows[slow_reads] += [
            {
                "repo_id": number, "subject": subject, "head": sha(name, 0), "errors": 0,
                "due_at": START + timedelta(hours=chance.uniform(0, 6)),
            }
            for subject in ("refs", "related")
        ]  # fmt: skip
        rows[repo_refs].append({"repo_id": number, "name": "refs/heads/main", "sha": sha(name, 0)})
    with database.transaction() as tx:
        for table, made in rows.items():
            for at in range(0, len(made), 2000):
                tx.execute(insert(table), made[at : at + 2000])
        tx.exec_driver_sql("ANALYZE")
    return names


def spread(database: Database, intervals: Intervals, now: datetime, chance: random.Random) -> None:
    """Give every watch its interval, and a moment within it at which it is due."""
    from storage import watches as stored

    with database.transaction() as tx:
        for watch in stored.list_all(tx):
            every = intervals.interval(watch, moves.recent(tx, watch.repo, MOVES), now)
            _put(tx, watch, now + every * chance.random(), int(intervals.urgency(every)))


def _put(tx: Transaction, watch: Watch, due: datetime, urgency: int) -> None:
    tx.execute(watches.update().where(watches.c.id == watch.id).values(next_check_at=due, urgency=urgency))


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which such a share lies; 0 of nothing."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0
