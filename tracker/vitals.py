"""Whether a process is alive and ready, by what its parts last did."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from storage import schema
from storage.database import Database
from storage.errors import SchemaError, StorageError

LATE_S = 60.0
"""A scheduler that did not finish its tick for this long is not well."""

log = structlog.get_logger("hubwatch.vitals")


@dataclass(slots=True, eq=False)
class Vitals:
    """What one process tells of itself. Shared by threads.

    Args:
        database: What the process works on.
        clock: The wall clock.
        roles: The parts that run here; with ``scheduler`` among them ticks are expected.
        expects: The ticks that must come, and go on coming; rarer ones may beat as well.
        monotonic: The clock by which lateness is measured.

    """

    database: Database
    clock: Callable[[], datetime]
    roles: tuple[str, ...] = ()
    expects: tuple[str, ...] = ()
    monotonic: Callable[[], float] = time.monotonic
    beats: dict[str, datetime] = field(default_factory=dict)
    """When each tick last ended well, by its name."""
    _began: float = field(init=False)
    _ticked: dict[str, float] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        """Start the time in which the first tick is expected."""
        self._began = self.monotonic()

    def beat(self, name: str) -> None:
        """A tick ended well."""
        with self._lock:
            self._ticked[name] = self.monotonic()
            self.beats[name] = self.clock()

    def troubles(self) -> list[str]:
        """Why the process is not ready, in words that tell nothing secret; empty when it is."""
        return [*self._storage_troubles(), *self._tick_troubles()]

    def _storage_troubles(self) -> list[str]:
        try:
            schema.require_usable(self.database)
        except SchemaError as error:
            log.warning("not ready", error=str(error))
            return ["the database has another schema: hubwatch db current tells which"]
        except StorageError as error:
            log.warning("not ready", error=str(error))
            return ["the database cannot be used"]
        return []

    def _tick_troubles(self) -> list[str]:
        if "scheduler" not in self.roles:
            return []
        now = self.monotonic()
        with self._lock:
            silent = {name: now - self._ticked.get(name, self._began) for name in self.expects}
        return [
            f"the scheduler's tick {name!r} did not end well for {seconds:.0f} s"
            for name, seconds in silent.items()
            if seconds > LATE_S
        ]
