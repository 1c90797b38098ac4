"""A few ticks, never a job per repo: each asks storage what is due and hands it on.

The ticks do not sleep, do not talk to the Hub and do not wait for a check. Whatever a tick could not place
stays due and is found by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from storage import pauses, watches
from storage.database import Database
from storage.errors import HubwatchError
from storage.model import Urgency
from tracker.dispatch.interface import Dispatcher
from tracker.rounds import Rounds
from tracker.worker import HUB

TICK = timedelta(seconds=5)
BATCH = 200
"""Most watches taken from the database by one tick."""

log = structlog.get_logger("hubwatch.scheduler")


@dataclass(frozen=True, slots=True)
class Tick:
    """Something that is done again and again, the first time at once."""

    run: Callable[[], object]
    every: timedelta = TICK


@dataclass(slots=True)
class Scheduler:
    """Owns the ticks of one daemon: its own, which hands on what is due, and those ``beside`` it, by name.

    ``ticked`` is told the name of each tick that ended well.
    """

    database: Database
    dispatcher: Dispatcher
    rounds: Rounds
    clock: Callable[[], datetime]
    beside: Mapping[str, Tick] = field(default_factory=dict)
    ticked: Callable[[str], object] = lambda _: None
    tick_every: timedelta = TICK
    _scheduler: BackgroundScheduler = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the APScheduler instance; nothing runs before `start`."""
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(3)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
        )

    def start(self) -> None:
        """Start ticking, the first time at once."""
        now = self.clock()
        for name, tick in {"due": Tick(self.tick, self.tick_every), **self.beside}.items():
            self._scheduler.add_job(
                self._guard(tick.run, name),
                "interval",
                seconds=tick.every.total_seconds(),
                id=name,
                next_run_time=now,
            )
        self._scheduler.start()

    def stop(self) -> None:
        """Stop ticking; what was handed on goes on."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def tick(self) -> int:
        """Hand on what is due, as far as the Hub and our budget allow it. Returns how many were handed on."""
        now = self.clock()
        with self.database.snapshot() as tx:
            until = pauses.until(tx, HUB)
            if until is not None and until > now:
                return 0
        least = self.rounds.least_urgent()
        if least is None:
            return 0
        with self.database.snapshot() as tx:
            due = watches.due(tx, now, limit=BATCH, at_least=least)
        plan = self.rounds.plan(due)
        # before the listings of those at rest: what begins a window must not be what can wait
        urgent = [watch for watch in plan.single if watch.urgency > Urgency.QUIET]
        handed = sum(self.dispatcher.submit(watch) for watch in urgent)
        listed = sum(
            len(asked)
            for owner, asked in plan.listings.items()
            if self.rounds.submit(owner, asked, self.dispatcher.submit)
        )
        rest = (watch for watch in plan.single if watch.urgency <= Urgency.QUIET)
        return handed + listed + sum(self.dispatcher.submit(watch) for watch in rest)

    def _guard(self, job: Callable[[], object], name: str) -> Callable[[], None]:
        """A tick that fails is logged and comes again; APScheduler would log it to nobody."""

        def run() -> None:
            try:
                job()
            except HubwatchError as error:
                log.warning("tick failed", tick=name, error=str(error))
            else:
                self.ticked(name)

        return run
