"""Checks by a pool of threads in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from storage.model import Watch

WAITING = 16
"""Checks in hand for each thread: enough for the short ones between two ticks, few enough to let others pass."""


class ThreadDispatcher:
    """At most ``threads`` checks at a time, and some waiting; the rest stay due in the database."""

    def __init__(self, check: Callable[[Watch], object], *, threads: int) -> None:
        self._check = check
        self._room = threads * WAITING
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="check")
        self._lock = threading.Lock()
        self._open: dict[int, Future[object]] = {}
        self._closed = False

    def start(self) -> None:
        """See `tracker.dispatch.interface.Dispatcher`; a thread starts with the first check that needs it."""

    def submit(self, watch: Watch) -> bool:
        """See `tracker.dispatch.interface.Dispatcher`."""
        with self._lock:
            if self._closed or watch.id in self._open or len(self._open) >= self._room:
                return False
            future = self._pool.submit(self._check, watch)
            self._open[watch.id] = future
        future.add_done_callback(lambda _: self._forget(watch.id))
        return True

    def drain(self, timeout: float | None = None) -> bool:
        """See `tracker.dispatch.interface.Dispatcher`."""
        with self._lock:
            self._closed = True
            running = list(self._open.values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not wait(running, timeout=timeout).not_done

    def _forget(self, watch_id: int) -> None:
        with self._lock:
            self._open.pop(watch_id, None)
