"""A few ticks, never a job per repo: each asks storage what is due and hands it on.

The ticks do not sleep, do not talk to the Hub and do not wait for a check. Whatever a tick could not place
stays due and is found by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from storage import pauses, watches
from storage.database import Database
from storage.errors import HubwatchError
from tracker.dispatch.interface import Dispatcher
from tracker.worker import HUB

TICK = timedelta(seconds=5)
BATCH = 200
"""Most watches taken from the database by one tick."""

log = structlog.get_logger("hubwatch.scheduler")


@dataclass(slots=True)
class Scheduler:
    """Owns the ticks of one daemon."""

    database: Database
    dispatcher: Dispatcher
    look_for_new_repos: Callable[[], object]
    clock: Callable[[], datetime]
    deliver: Callable[[], object] = lambda: None
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
        seconds = self.tick_every.total_seconds()
        now = self.clock()
        self._scheduler.add_job(self._guard(self.tick), "interval", seconds=seconds, id="due", next_run_time=now)
        self._scheduler.add_job(
            self._guard(self.look_for_new_repos),
            "interval",
            seconds=max(60, seconds),
            id="owners",
            next_run_time=now,
        )
        self._scheduler.add_job(
            self._guard(self.deliver), "interval", seconds=seconds, id="deliver", next_run_time=now
        )
        self._scheduler.start()

    def stop(self) -> None:
        """Stop ticking; what was handed on goes on."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def tick(self) -> int:
        """Hand on what is due, unless the Hub asked for a pause. Returns how many were handed on."""
        now = self.clock()
        with self.database.snapshot() as tx:
            until = pauses.until(tx, HUB)
            if until is not None and until > now:
                return 0
            due = watches.due(tx, now, limit=BATCH)
        return sum(self.dispatcher.submit(watch) for watch in due)

    def _guard(self, job: Callable[[], object]) -> Callable[[], None]:
        """A tick that fails is logged and comes again; APScheduler would log it to nobody."""

        def run() -> None:
            try:
                job()
            except HubwatchError as error:
                log.warning("tick failed", job=getattr(job, "__name__", "?"), error=str(error))

        return run
