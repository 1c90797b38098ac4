"""Revisions on their way into the database: whole ones, in their order, several in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

from storage import history
from storage.database import Database
from storage.errors import StorageError
from storage.model import Landing

OnLanded = Callable[[Landing, int, int], None]
"""Called for each revision that is written, with its number, from 1, and how many there are."""

BATCH = 32
"""Revisions that are written in one transaction at most: a statement costs more than the rows that it writes."""
BATCH_SECONDS = 1.0
"""How long one that is whole waits for others at most; none waits for an answer of the Hub (`write`)."""


class Landings:
    """Writes the landings of one repo and ref, oldest first.

    What is whole is written also where reading the next one failed, but not where writing did.
    """

    def __init__(self, database: Database, total: int, on_landed: OnLanded | None) -> None:
        """Expect ``total`` landings."""
        self.written: list[Landing] = []
        self._waiting: list[Landing] = []
        self._database, self._total, self._on_landed = database, total, on_landed
        self._since = 0.0

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what waits."""
        if not isinstance(error, StorageError):
            self.write()

    def add(self, landing: Landing) -> None:
        """Write a landing, soon."""
        if not self._waiting:
            self._since = monotonic()
        self._waiting.append(landing)
        if len(self._waiting) >= BATCH or monotonic() - self._since > BATCH_SECONDS:
            self.write()

    def write(self) -> None:
        """Write what waits, now."""
        if not self._waiting:
            return
        with self._database.transaction() as tx:
            history.land_all(tx, self._waiting)
        done, self._waiting = self._waiting, []
        for landing in done:
            self.written.append(landing)
            if self._on_landed:
                self._on_landed(landing, len(self.written), self._total)
