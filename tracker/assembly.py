"""The composition root: which parts there are, and how they are wired to one database and one upstream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from storage.database import Database
from storage.model import Urgency
from tracker.allocator import give_back_large_blocks
from tracker.estimating import exact_estimator
from tracker.examine import Examiner
from tracker.hub.budget import SharedBudget, scope_of
from tracker.hub.client import HubClient
from tracker.hub.errors import RateLimited
from tracker.hub.history_git import GitReader
from tracker.hub.readers import Histories
from tracker.intervals import Intervals
from tracker.loader import Loader
from tracker.owners import Owners
from tracker.pipeline import Pipeline
from tracker.probe.meta import MetaCounter
from tracker.probe.render import Prober
from tracker.refs import RefKeeper
from tracker.related import SECONDS as RELATED_SECONDS
from tracker.related import RelatedKeeper
from tracker.rounds import Rounds
from tracker.settings import Settings
from tracker.slow import SlowReads
from tracker.snapshot.build import Parser
from tracker.states import StateKeeper
from tracker.worker import Worker

Clock = Callable[[], datetime]


def clock() -> datetime:
    """The one clock of a process that is not a test."""
    return datetime.now(UTC)


def budget_of(settings: Settings, database: Database, *, token: str | None, clock: Clock = clock) -> SharedBudget:
    """The account of who asks with this token (None: with none), shared with all processes on a database."""
    return SharedBudget(
        database, scope_of(settings.hub.endpoint, token), share=settings.hub.budget_share, clock=clock
    )


def upstream_of(settings: Settings, database: Database, *, clock: Clock = clock) -> HubClient:
    """The client for the configured Hub; what it asks is paid from the account in the database."""
    token = settings.hub.token.get_secret_value() if settings.hub.token else None
    gate = budget_of(settings, database, token=token, clock=clock)
    seconds = settings.hub.deadline_seconds
    return HubClient(settings.hub.endpoint, token, deadline_s=seconds, clock=clock, gate=gate)


def histories_of(settings: Settings, upstream: HubClient) -> Histories:
    """The readers of history for the configured Hub."""
    token = settings.hub.token.get_secret_value() if settings.hub.token else None
    git = GitReader(settings.hub.endpoint, token) if settings.hub.git == "auto" else None
    return Histories(upstream, git, settings.hub.git_from)


def loader_of(settings: Settings, database: Database) -> Loader:
    """A loader for what is stored, and for what the configured Hub holds."""
    return Loader(upstream_of(settings, database), database, Parser())


def slow_reads(
    settings: Settings,
    database: Database,
    upstream: HubClient,
    histories: Histories,
    parser: Parser,
    *,
    budget: SharedBudget,
    paused: Callable[[RateLimited], None],
    clock: Clock,
) -> SlowReads:
    """What is read at a slower pace: refs with our token if there is one, related repos always without."""
    anonymous = HubClient(
        settings.hub.endpoint,
        None,
        deadline_s=min(RELATED_SECONDS, settings.hub.deadline_seconds),
        clock=clock,
        gate=budget_of(settings, database, token=None, clock=clock),
    )
    refs = RefKeeper(upstream, database, clock, lambda repo: histories.refs(repo, by_git=budget.is_scarce()))
    related = RelatedKeeper(anonymous, database, Loader(anonymous, database, parser), clock)
    return SlowReads(
        database,
        {"refs": refs.look, "related": lambda watch, _: related.look(watch)},
        every=settings.poll.refs_every,
        clock=clock,
        paused=paused,
        affordable=lambda: budget.room("api", Urgency.IDLE) != 0,
    )


@dataclass(slots=True)
class Services:
    """Everything that does work, wired to one database and one upstream."""

    settings: Settings
    database: Database
    worker: Worker
    loader: Loader
    examiner: Examiner
    owners: Owners
    rounds: Rounds
    stopping: threading.Event = field(default_factory=threading.Event)
    abandoned: bool = False
    """Whether something still ran when the grace was over: only the end of the process ends it."""

    def stop(self) -> None:
        """Ask running checks to end after the revision they are at."""
        self.stopping.set()


@contextmanager
def assemble(settings: Settings, database: Database, *, clock: Clock = clock) -> Iterator[Services]:
    """Wire the services; the probes' child process ends with the block."""
    give_back_large_blocks()
    stopping = threading.Event()
    upstream = upstream_of(settings, database, clock=clock)
    loader = Loader(upstream, database, Parser())
    with Prober() as prober, MetaCounter() as counter:
        examiner = Examiner(prober, exact_estimator(settings.estimate.transformers, counter))
        histories = histories_of(settings, upstream)
        pipeline = Pipeline(histories, database, loader, examiner, clock, stopping.is_set)
        states = StateKeeper(upstream, database, clock, settings.poll.gone_after, settings.poll.gone_within)
        intervals = Intervals(
            floor=settings.poll.floor, default=settings.poll.default, ceiling=settings.poll.ceiling
        )
        token = settings.hub.token.get_secret_value() if settings.hub.token else None
        budget = budget_of(settings, database, token=token, clock=clock)
        worker = Worker(upstream, database, pipeline, states, intervals, clock, scarce=budget.is_scarce)
        worker.slow = slow_reads(
            settings,
            database,
            upstream,
            histories,
            loader.parser,
            budget=budget,
            paused=worker.pause,
            clock=clock,
        )
        owners = Owners(upstream, database, clock, settings.poll.default)
        rounds = Rounds(upstream, database, worker, owners, budget, clock, soon=settings.poll.default / 4)
        owners.on_listed = rounds.heard
        yield Services(settings, database, worker, loader, examiner, owners, rounds, stopping)
