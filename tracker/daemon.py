"""The composition root: which parts there are, how they are wired, how the daemon starts and stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from advisories.deliver import Deliverer
from storage.database import Database
from tracker.dispatch.threads import ThreadDispatcher
from tracker.estimating import exact_estimator
from tracker.examine import Examiner
from tracker.hub.client import HubClient
from tracker.hub.errors import RateLimited
from tracker.intervals import Intervals
from tracker.loader import Loader
from tracker.owners import Owners
from tracker.pipeline import Pipeline
from tracker.probe.meta import MetaCounter
from tracker.probe.render import Prober
from tracker.refs import RefKeeper
from tracker.related import SECONDS as RELATED_SECONDS
from tracker.related import RelatedKeeper
from tracker.scheduler import Scheduler
from tracker.settings import Settings
from tracker.slow import SlowReads
from tracker.snapshot.build import Parser
from tracker.states import StateKeeper
from tracker.worker import Worker

ROLES = ("scheduler", "worker", "web")
GRACE_SECONDS = 30.0
"""How long a stopping daemon waits for the revisions being landed; what is left is abandoned whole."""

log = structlog.get_logger("hubwatch.daemon")


def clock() -> datetime:
    """The one clock of a process that is not a test."""
    return datetime.now(UTC)


def upstream_of(settings: Settings) -> HubClient:
    """The client for the configured Hub."""
    token = settings.hub.token.get_secret_value() if settings.hub.token else None
    return HubClient(settings.hub.endpoint, token, deadline_s=settings.hub.deadline_seconds)


def loader_of(settings: Settings, database: Database) -> Loader:
    """A loader for what is stored, and for what the configured Hub holds."""
    return Loader(upstream_of(settings), database, Parser())


def slow_reads(
    settings: Settings,
    database: Database,
    upstream: HubClient,
    parser: Parser,
    *,
    paused: Callable[[RateLimited], None],
) -> SlowReads:
    """What is read at a slower pace: refs with our token if there is one, related repos always without."""
    anonymous = HubClient(
        settings.hub.endpoint, None, deadline_s=min(RELATED_SECONDS, settings.hub.deadline_seconds)
    )
    refs = RefKeeper(upstream, database, clock)
    related = RelatedKeeper(anonymous, database, Loader(anonymous, database, parser), clock)
    return SlowReads(
        database,
        {"refs": refs.look, "related": lambda watch, _: related.look(watch)},
        every=settings.poll.refs_every,
        clock=clock,
        paused=paused,
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
    stopping: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Ask running checks to end after the revision they are at."""
        self.stopping.set()


@contextmanager
def assemble(settings: Settings, database: Database) -> Iterator[Services]:
    """Wire the services; the probes' child process ends with the block."""
    stopping = threading.Event()
    upstream = upstream_of(settings)
    loader = Loader(upstream, database, Parser())
    with Prober() as prober, MetaCounter() as counter:
        examiner = Examiner(prober, exact_estimator(settings.estimate.transformers, counter))
        pipeline = Pipeline(upstream, database, loader, examiner, clock, stopping.is_set)
        states = StateKeeper(upstream, database, clock, settings.poll.gone_after, settings.poll.gone_within)
        intervals = Intervals(
            floor=settings.poll.floor, default=settings.poll.default, ceiling=settings.poll.ceiling
        )
        worker = Worker(upstream, database, pipeline, states, intervals, clock)
        worker.slow = slow_reads(settings, database, upstream, loader.parser, paused=worker.pause)
        owners = Owners(upstream, database, clock, settings.poll.default)
        yield Services(settings, database, worker, loader, examiner, owners, stopping)


def run(
    settings: Settings,
    database: Database,
    *,
    roles: tuple[str, ...] = ROLES,
    started: Callable[[str], None] = lambda _: None,
) -> None:
    """Run until SIGINT or SIGTERM, then stop in order: no new checks, running ones end, the web last.

    ``started`` is told the address of the pages once they are served ("" where the web is not a role).
    """
    asked_to_stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked_to_stop.set())
    with assemble(settings, database) as services, running(services, roles) as url:
        started(url)
        log.info("started", roles=roles, database=database.place)
        asked_to_stop.wait()
        log.info("stopping")


@contextmanager
def running(services: Services, roles: tuple[str, ...] = ROLES) -> Iterator[str]:
    """The daemon's parts at work for as long as the block runs; gives the address of the pages."""
    settings = services.settings
    dispatcher = ThreadDispatcher(services.worker.check, threads=settings.poll.threads)
    deliverer = Deliverer(
        services.database,
        clock,
        schemes=frozenset(settings.notify.schemes),
        threads=settings.notify.threads,
        policy=settings.house_policy,
    )
    scheduler = Scheduler(
        services.database, dispatcher, lambda: services.owners.look(only_due=True), clock, deliver=deliverer.tick
    )
    with _web(services) if "web" in roles else _no_web() as url:
        if "scheduler" in roles:
            scheduler.start()
        try:
            yield url
        finally:
            scheduler.stop()
            services.stop()
            if not deliverer.stop(GRACE_SECONDS):
                log.warning("abandoned a message under way; it is sent again, under the same id")
            if not dispatcher.drain(GRACE_SECONDS):
                log.warning("abandoned what still ran; the next start takes it up")


@contextmanager
def _web(services: Services) -> Iterator[str]:
    from tracker.web.server import serving

    with serving(services.settings, services.database, loader=services.loader, examiner=services.examiner) as url:
        yield url


@contextmanager
def _no_web() -> Iterator[str]:
    yield ""
