"""Checks as jobs on the same PostgreSQL: schedulers put them there, workers on any number of machines take them.

    scheduler's tick -> submit -> a job per watch -> any worker -> check(watch)
                                        ^
                 scheduler's watchdog --+  a job whose worker died is waiting again

The queue holds hints and nothing else. What is due stands in the watches' rows, and a check is protected by the
lease there: a job that is lost is made again by the next tick, one that is done twice finds nothing to do. So
jobs are deleted once they are done, and several schedulers do no harm.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import procrastinate
import structlog
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, ProcrastinateException, UniqueViolation
from procrastinate.jobs import Job, Status
from procrastinate.schema import SchemaManager

from storage import queues, watches
from storage.database import Database
from storage.errors import StorageError
from storage.model import Watch
from tracker.leases import is_dead

QUEUE = "checks"
TASK = "hubwatch.check"
CALL_SECONDS = 15.0
"""How long a tick waits for the queue."""
HEARTBEAT_SECONDS = 5.0
DEAD_SECONDS = 20.0
"""A worker that was not heard of for so long is taken for dead. Too early does no harm: its leases still count."""
RESCUE_SECONDS = 5.0
RESTART_SECONDS = 3.0
LIST_SECONDS = 2.0
"""How long a list of what waits in the queue is relied on; it only spares attempts that the queue would refuse."""
TOUCH_SECONDS = 3600.0

_T = TypeVar("_T")

log = structlog.get_logger("hubwatch.queue")


@dataclass(slots=True, eq=False)
class JobDispatcher:
    """One process's part in the queue: it puts checks there, or takes them, or both.

    ``check`` is run in one of ``threads`` threads. Everything else runs in an event loop of its own thread.
    """

    database: Database
    check: Callable[[Watch], object]
    clock: Callable[[], datetime]
    threads: int
    gives: bool = True
    takes: bool = True
    _place: queues.Place = field(init=False, repr=False)
    _app: procrastinate.App = field(init=False, repr=False)
    _pool: ThreadPoolExecutor = field(init=False, repr=False)
    _loop: asyncio.AbstractEventLoop = field(init=False, repr=False)
    _thread: threading.Thread = field(init=False, repr=False)
    _stop: asyncio.Event = field(init=False, repr=False)
    _closed: threading.Event = field(init=False, repr=False, default_factory=threading.Event)
    _waiting: set[str] = field(init=False, repr=False, default_factory=set)
    _listed_at: float = field(init=False, repr=False, default=float("-inf"))
    _errors: tuple[type[Exception], ...] = field(init=False, repr=False)

    def start(self) -> None:
        """Make the queue where there is none, and begin. Raises StorageError when that is not possible."""
        self._errors = (ProcrastinateException, StorageError, FutureTimeout, *queues.driver_errors())
        self._place = queues.prepare(self.database, SchemaManager.get_schema(), self.clock())
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(
                conninfo=self._place.url,
                kwargs=self._place.arguments,
                min_size=1,
                max_size=4,
                timeout=CALL_SECONDS,
            )
        )
        self._app.task(name=TASK, queue=QUEUE)(self._do)
        _tell_library_log()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="check")
        started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), name="queue", daemon=True)
        self._thread.start()
        try:
            started.result(2 * CALL_SECONDS)
        except self._errors as error:
            raise StorageError(f"the queue in {self.database.place} does not answer", help="try again") from error

    def submit(self, watch: Watch) -> bool:
        """See `tracker.dispatch.interface.Dispatcher`. Raises StorageError when the queue does not answer."""
        return not self._closed.is_set() and self._call(self._give(watch))

    def rescue(self) -> int:
        """Have the jobs of dead workers done by others; returns how many. Runs by itself every few seconds."""
        return self._call(self._rescue())

    def drain(self, timeout: float | None = None) -> bool:
        """See `tracker.dispatch.interface.Dispatcher`."""
        if not self._closed.is_set():
            self._closed.set()
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout)
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not self._thread.is_alive()

    # --- the loop's thread -----------------------------------------------------------------------

    async def _run(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            await self._app.open_async()
        except self._errors as error:
            started.set_exception(error)
            return
        parts = [*([self._take()] if self.takes else []), *([self._tend()] if self.gives else [])]
        tasks = [asyncio.create_task(part) for part in parts]
        started.set_result(None)
        await self._stop.wait()
        for task in tasks:
            task.cancel()  # the worker takes nothing more and waits for what runs
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._app.close_async()

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Have something done in the loop, from another thread."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(CALL_SECONDS)
        except self._errors as error:
            future.cancel()
            cause = error.__cause__ or error
            raise StorageError(f"the queue does not answer: {cause}"[:300], help="it is tried again") from error

    # --- giving ----------------------------------------------------------------------------------

    async def _give(self, watch: Watch) -> bool:
        lock = _lock(watch.id)
        if time.monotonic() - self._listed_at > LIST_SECONDS:
            waiting = await self._app.job_manager.list_jobs_async(queue=QUEUE, status=Status.TODO.value)
            self._waiting = {str(job.queueing_lock) for job in waiting}
            self._listed_at = time.monotonic()
        if lock in self._waiting:
            return False
        self._waiting.add(lock)
        due = watch.next_check_at.isoformat() if watch.next_check_at else None
        job = self._app.configure_task(TASK, lock=lock, queueing_lock=lock, priority=int(watch.urgency))
        try:
            await job.defer_async(watch_id=watch.id, due=due)
        except AlreadyEnqueued:
            return False
        return True

    async def _tend(self) -> None:
        """The watchdog, and the housekeeping, of whoever gives."""
        touched_at = time.monotonic()
        while True:
            await asyncio.sleep(RESCUE_SECONDS)
            try:
                await self._rescue()
                if time.monotonic() - touched_at > TOUCH_SECONDS:
                    await asyncio.to_thread(self._keep_house)
                    touched_at = time.monotonic()
            except self._errors as error:
                log.warning("queue not looked after", error=str(error.__cause__ or error))

    async def _rescue(self) -> int:
        manager = self._app.job_manager
        silent = await manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=DEAD_SECONDS)
        running = await manager.list_jobs_async(queue=QUEUE, status=Status.DOING.value)
        killed = await asyncio.to_thread(self._killed_here, running)
        lost = {job.id: job for job in (*silent, *killed)}
        for job in lost.values():
            try:
                await manager.retry_job(job)
            except UniqueViolation:  # another one for the same watch is waiting already
                await manager.finish_job(job, Status.FAILED, delete_job=True)
            except ConnectorException as error:
                log.info("job not taken back; it may just have ended", job=job.id, error=str(error.__cause__))
                continue
            log.warning("a worker died; its check is waiting again", job=job.id, watch=job.task_kwargs)
        return len(lost)

    def _killed_here(self, jobs: Any) -> list[Job]:
        """Those whose check was under way in a process of this machine that is gone: known before its silence."""
        found = []
        with self.database.snapshot() as tx:
            for job in jobs:
                holder = watches.lease_holder(tx, int(job.task_kwargs["watch_id"]))
                if holder is not None and is_dead(holder):
                    found.append(job)
        return found

    def _keep_house(self) -> None:
        with self.database.transaction() as tx:
            queues.touch(tx, self._place.name, self.clock())
            for name in queues.drop_unused(tx, self.clock()):
                log.info("dropped a queue that an older version left", name=name)

    # --- taking ----------------------------------------------------------------------------------

    async def _take(self) -> None:
        """Run the library's worker, again whenever it ends because the database went away."""
        while not self._stop.is_set():
            try:
                await self._app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self.threads,
                    delete_jobs="always",
                    install_signal_handlers=False,
                    update_heartbeat_interval=HEARTBEAT_SECONDS,
                    stalled_worker_timeout=DEAD_SECONDS,
                )
                log.warning("the queue's worker ended; it is started again")
            except self._errors as error:
                log.warning("the queue was lost; it is taken up again", error=str(error.__cause__ or error))
            if not self._stop.is_set():
                await asyncio.sleep(RESTART_SECONDS)

    async def _do(self, watch_id: int, due: str | None = None) -> None:
        await asyncio.get_running_loop().run_in_executor(self._pool, self._checked, watch_id, due)

    def _checked(self, watch_id: int, due: str | None) -> None:
        """Check a watch as it is now, unless it went away, was paused, or was looked at since the job was made."""
        if self._closed.is_set():
            return
        try:
            with self.database.snapshot() as tx:
                watch = queues.watched(tx, watch_id)
        except StorageError as error:
            log.warning("a job came to nothing; its watch stays due", watch=watch_id, error=str(error))
            return
        if watch is None or watch.paused or _is_later(watch.next_check_at, due):
            return
        self.check(watch)


def _lock(watch_id: int) -> str:
    return f"watch {watch_id}"


def _is_later(now_due: datetime | None, due: str | None) -> bool:
    """Whether a watch was rescheduled since it was due; by its own times, so that no machine's clock counts."""
    return due is not None and now_due is not None and now_due > datetime.fromisoformat(due)


class _Told(logging.Handler):
    """Hands what the library warns of on to our log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        log.warning("queue", told=record.getMessage()[:500])


def _tell_library_log() -> None:
    logger = logging.getLogger("procrastinate")
    if not any(isinstance(handler, _Told) for handler in logger.handlers):
        logger.addHandler(_Told(logging.WARNING))
        logger.propagate = False
