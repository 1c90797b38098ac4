"""The daemon: which parts run in which roles, and how they start and stop."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

from advisories.deliver import Deliverer
from storage import schema
from storage.database import Database
from storage.errors import SchemaError, StorageError
from tracker.assembly import Services, assemble, clock
from tracker.dispatch.choice import uses_queue
from tracker.dispatch.interface import Dispatcher
from tracker.dispatch.threads import ThreadDispatcher
from tracker.housekeeping import Housekeeper
from tracker.scheduler import Scheduler, Tick
from tracker.serving import serving_metrics
from tracker.settings import Settings
from tracker.vitals import Vitals

ROLES = ("scheduler", "worker", "web")
GRACE_SECONDS = 30.0
"""How long a stopping daemon waits for the revisions being landed; what is left is abandoned whole."""
SCHEMA_SECONDS = 5.0
"""How often a daemon looks whether the database still has a schema that it can work with."""

log = structlog.get_logger("hubwatch.daemon")


def run(
    settings: Settings,
    database: Database,
    *,
    roles: tuple[str, ...] = ROLES,
    started: Callable[[str], None] = lambda _: None,
) -> bool:
    """Run until SIGINT or SIGTERM, then stop in order: no new checks, running ones end, the web last.

    ``started`` is told the address of the pages once they are served ("" where the web is not a role). Returns
    False when something had to be abandoned, which lives on in threads of this process. Raises UsageError for
    roles that this database cannot serve, SchemaError, after stopping in order, when another version took the
    database to a schema that this one cannot use.
    """
    uses_queue(settings, database, roles)
    asked_to_stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked_to_stop.set())
    with assemble(settings, database) as services:
        with running(services, roles) as url:
            started(url)
            gc.freeze()  # what a process starts with stays: no later collection has to go through it
            log.info("started", roles=roles, database=database.place)
            while not asked_to_stop.wait(SCHEMA_SECONDS):
                _require_usable(database)
            log.info("stopping")
        return not services.abandoned


def _require_usable(database: Database) -> None:
    try:
        schema.require_usable(database)
    except SchemaError:
        log.error("the schema went past what this version can use: stopping")
        raise
    except StorageError as error:
        log.warning("database not reached", error=str(error))


@contextmanager
def running(services: Services, roles: tuple[str, ...] = ROLES) -> Iterator[str]:
    """The daemon's parts at work for as long as the block runs; gives the address of the pages."""
    settings = services.settings
    dispatcher = _dispatcher(services, roles)
    deliverer = Deliverer(
        services.database,
        clock,
        schemes=frozenset(settings.notify.schemes),
        threads=settings.notify.threads,
        policy=settings.house_policy,
    )
    vitals = Vitals(services.database, clock, roles, expects=("due", "deliver"))
    keeper = Housekeeper(
        services.database, clock, settings.retention.keep, settings.retention.disk, services.stopping.is_set
    )
    beside = {
        "owners": Tick(lambda: services.owners.look(only_due=True), timedelta(minutes=1)),
        "deliver": Tick(deliverer.tick),
        "housekeeping": Tick(keeper.run, timedelta(hours=1)),
    }
    scheduler = Scheduler(services.database, dispatcher, services.rounds, clock, beside=beside, ticked=vitals.beat)
    with (
        serving_metrics(settings.metrics, vitals),
        _web(services, vitals) if "web" in roles else _no_web() as url,
    ):
        dispatcher.start()
        if "scheduler" in roles:
            scheduler.start()
        try:
            yield url
        finally:
            _stop(services, scheduler, deliverer, dispatcher)


def _stop(services: Services, scheduler: Scheduler, deliverer: Deliverer, dispatcher: Dispatcher) -> None:
    """Stop everything within one grace, and note what was still at it then."""
    ends = time.monotonic() + GRACE_SECONDS

    def left() -> float:
        return max(0.0, ends - time.monotonic())

    services.stop()
    ticks = threading.Thread(target=scheduler.stop, daemon=True, name="stop")  # it waits for the tick under way
    ticks.start()
    if not deliverer.stop(left()):
        services.abandoned = True
        log.warning("abandoned a message under way; it is sent again, under the same id")
    if not dispatcher.drain(left()):
        services.abandoned = True
        log.warning("abandoned what still ran; the next start takes it up")
    ticks.join(left())
    if not services.rounds.drain(left()) or ticks.is_alive():
        services.abandoned = True
        log.warning("abandoned a tick under way; the next start takes it up")


def _dispatcher(services: Services, roles: tuple[str, ...]) -> Dispatcher:
    """The queue where there is one, else threads of this process."""
    settings = services.settings
    check = services.worker.check
    if not uses_queue(settings, services.database, roles):
        return ThreadDispatcher(check, threads=settings.poll.threads)
    from tracker.dispatch.jobs import JobDispatcher

    return JobDispatcher(
        services.database,
        check,
        clock,
        settings.poll.threads,
        gives="scheduler" in roles,
        takes="worker" in roles,
    )


@contextmanager
def _web(services: Services, vitals: Vitals) -> Iterator[str]:
    from tracker.web.server import serving

    with serving(
        services.settings,
        services.database,
        loader=services.loader,
        examiner=services.examiner,
        vitals=vitals,
    ) as url:
        yield url


@contextmanager
def _no_web() -> Iterator[str]:
    yield ""
