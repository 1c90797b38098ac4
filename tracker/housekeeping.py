"""Keeping the database small without taking anything from an advisory: on demand, and once a day.

What may go is decided in `storage.retention`: contents of files that are current nowhere, and old logs. A
content that is wanted again (a file put back, a rewritten history) is read again from the Hub.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog

from storage import disk, logs, meta, retention
from storage.database import Database
from storage.logs import Logs
from storage.model import Json
from storage.retention import Contents

EVERY: Final = timedelta(days=1)
SLACK: Final = 0.9
"""Share of the disk budget that is aimed at once it is exceeded, so that not every day has to forget."""
_LAST: Final = "housekeeping"

log = structlog.get_logger("hubwatch.housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was forgotten, or would be. ``orphans`` is None where a check under way forbade to look."""

    contents: Contents = field(default_factory=Contents)
    logs: Logs = field(default_factory=Logs)
    orphans: Contents | None = None

    def to_json(self) -> dict[str, Json]:
        """As the command line gives it."""
        return {
            "contents": self.contents.count,
            "content_bytes": self.contents.bytes,
            "orphans": None if self.orphans is None else self.orphans.count,
            "orphan_bytes": None if self.orphans is None else self.orphans.bytes,
            "messages": self.logs.deliveries,
            "attempts": self.logs.attempts,
            "outbox": self.logs.outbox,
            "journal": self.logs.journal,
        }


def prune(
    database: Database,
    *,
    now: datetime,
    keep: timedelta | None,
    budget: int | None = None,
    unwatched: bool = False,
    dry_run: bool = False,
    stopping: Callable[[], bool] = lambda: False,
) -> Pruned:
    """Forget what is older than ``keep``, and beyond that the oldest contents until ``budget`` bytes hold it all.

    ``unwatched`` counts nothing as current of repos that are watched no longer. Stops between two transactions
    when asked to; the next call goes on.
    """
    known = retention.retired(database, unwatched=unwatched)
    before = None if keep is None else now - keep
    by_size = None if budget is None else _by_size(database, known, budget)
    until = max((item for item in (before, by_size) if item is not None), default=None)
    if dry_run:
        with database.snapshot() as tx:
            old = logs.old(tx, before) if before is not None else Logs()
        contents = retention.forgettable(database, known, until) if until is not None else Contents()
        lost = retention.orphans(database, known, now=now, dry_run=True) if before is not None else None
        return Pruned(contents=contents, logs=old, orphans=lost)
    contents, old, lost = Contents(), Logs(), None
    for gone in retention.forget(database, known, until) if until is not None else ():
        contents += gone
        if stopping():
            return Pruned(contents=contents)
    for entries in logs.forget(database, before) if before is not None else ():
        old += entries
        if stopping():
            return Pruned(contents=contents, logs=old)
    if before is not None:
        lost = retention.orphans(database, known, now=now)
    return Pruned(contents=contents, logs=old, orphans=lost)


def _by_size(database: Database, known: retention.Retired, budget: int) -> datetime | None:
    used = disk.usage(database).used
    if used <= budget:
        return None
    return retention.oldest(database, known, used - int(budget * SLACK))


@dataclass(slots=True)
class Housekeeper:
    """Prunes once a day, whichever process comes first; with neither ``keep`` nor ``budget`` it does nothing."""

    database: Database
    clock: Callable[[], datetime]
    keep: timedelta | None = None
    budget: int | None = None
    stopping: Callable[[], bool] = lambda: False

    def run(self) -> Pruned | None:
        """Prune if it is due; None when it is not. Raises StorageError; then the next call tries again."""
        if self.keep is None and self.budget is None:
            return None
        now = self.clock()
        with self.database.transaction() as tx:
            last = meta.get(tx, _LAST)
            if isinstance(last, str) and now - datetime.fromisoformat(last) < EVERY:
                return None
            meta.put(tx, _LAST, now.isoformat())
        try:
            pruned = prune(self.database, now=now, keep=self.keep, budget=self.budget, stopping=self.stopping)
        except BaseException:
            self._due_again(last)
            raise
        log.info("pruned", **pruned.to_json())
        used = disk.usage(self.database).used
        if self.budget is not None and used > self.budget:
            log.warning("over the disk budget, and nothing more may be forgotten", used=used, budget=self.budget)
        return pruned

    def _due_again(self, last: Json) -> None:
        with self.database.transaction() as tx:
            meta.put(tx, _LAST, last)
