"""Figures for monitoring: sums over what is kept, never a name from a repo.

Two kinds, by what they cost. `pressing` looks at what waits (due watches, messages, pauses) and costs as much as
there is of that. `standing` reads every watch once. `News` counts what was written since it last looked.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Integer, Row, Select, Table, case, func, select, text

from storage import budgets, pauses
from storage.budgets import Quota
from storage.database import Database, Transaction
from storage.errors import StorageError
from storage.model import DeliveryState, Severity, Urgency
from storage.tables import (
    advisories,
    advisory_events,
    deliveries,
    delivery_attempts,
    notices,
    outbox,
    repos,
    revisions,
    subscriptions,
    watches,
)

LATE = tuple(timedelta(seconds=seconds) for seconds in (60, 300, 900, 3_600, 21_600, 86_400))
"""Overdue watches are counted by at least how long they are."""
_MOST_QUEUES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """The watches of one urgency that are due: how many, since when the first, and how many for each of `LATE`."""

    due: int
    oldest: datetime
    late: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Things that wait: how many, and since when the first; None when there is none."""

    count: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressing:
    """What waits to be done."""

    overdue: Mapping[Urgency, Overdue]
    outbox: Waiting
    deliveries: Waiting
    notices: int
    pauses: Mapping[str, datetime]
    quotas: tuple[Quota, ...]
    jobs: Mapping[str, int] | None  # by status; None where there is no queue in the database
    database_bytes: int
    database_free_bytes: int | None  # None where the server does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is there."""

    watches: Mapping[str, int]  # by the repo's state, those not paused
    paused: int
    failing: int
    dead_letters: int
    subscriptions: Mapping[bool, int]  # by whether they are enabled


def pressing(database: Database, now: datetime) -> Pressing:
    """What waits now. Raises StorageError."""
    with database.snapshot() as tx:
        size, free = _size(database, tx)
        return Pressing(
            overdue=_overdue(tx, now),
            outbox=_waiting(tx, outbox),
            deliveries=_waiting(tx, deliveries),
            notices=tx.scalar(select(func.count()).select_from(notices)) or 0,
            pauses={scope: until for scope, until, _ in pauses.standing(tx, now)},
            quotas=tuple(budgets.every(tx)),
            jobs=None if database.is_sqlite else _jobs(tx),
            database_bytes=size,
            database_free_bytes=free,
        )


def standing(database: Database) -> Standing:
    """What is there. Raises StorageError."""
    with database.snapshot() as tx:
        by_state: Counter[str] = Counter()
        paused = failing = 0
        failed = _count_if(watches.c.errors > 0)
        query = (
            select(repos.c.state, watches.c.paused, func.count(), failed)
            .join(watches, watches.c.repo_id == repos.c.id)
            .group_by(repos.c.state, watches.c.paused)
        )
        for state, is_paused, count, errors in tx.execute(query):
            if is_paused:
                paused += count
            else:
                by_state[state] += count
                failing += errors
        enabled = subscriptions.c.disabled_at.is_(None)
        return Standing(
            watches=by_state,
            paused=paused,
            failing=failing,
            dead_letters=_dead_letters(tx),
            subscriptions={bool(on): n for on, n in tx.execute(select(enabled, func.count()).group_by(enabled))},
        )


def _overdue(tx: Transaction, now: datetime) -> dict[Urgency, Overdue]:
    late = [_count_if(watches.c.next_check_at <= now - by) for by in LATE]
    query = (
        select(watches.c.urgency, func.count(), func.min(watches.c.next_check_at), *late)
        .where(watches.c.next_check_at <= now, watches.c.paused.is_(False))
        .group_by(watches.c.urgency)
    )
    return {
        Urgency(urgency): Overdue(due=due, oldest=oldest, late=tuple(counts))
        for urgency, due, oldest, *counts in tx.execute(query)
    }


def _waiting(tx: Transaction, table: Table) -> Waiting:
    query = select(func.count(), func.min(table.c.created_at)).where(table.c.done_at.is_(None))
    count, oldest = tx.execute(query).one()
    return Waiting(count=count, oldest=oldest)


def _dead_letters(tx: Transaction) -> int:
    # one look-up by index for each subscription: the log of what was sent is not read
    dead = (
        select(func.count())
        .where(deliveries.c.subscription_id == subscriptions.c.id, deliveries.c.state == DeliveryState.DEAD.value)
        .scalar_subquery()
    )
    return sum(tx.scalars(select(dead).select_from(subscriptions)))


def _count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0), type_=Integer), 0)


def _jobs(tx: Transaction) -> dict[str, int] | None:
    """Jobs of all queues (`storage.queue`) that are not over, by status; None when there is no queue."""
    named = text(
        "SELECT nspname FROM pg_namespace WHERE nspname ~ '^hubwatch_queue_[0-9a-f]{8}$' ORDER BY nspname"
    )
    found = dict.fromkeys(("todo", "doing", "failed"), 0)
    places = [place for place in tx.scalars(named) if _readable(tx, place)][:_MOST_QUEUES]
    for place in places:
        query = text(
            f"SELECT status::text, count(*) FROM {place}.procrastinate_jobs "  # noqa: S608 - matched above
            "WHERE status IN ('todo', 'doing', 'failed') GROUP BY status"
        )
        for status, count in tx.execute(query):
            found[status] += count
    return found if places else None


def _readable(tx: Transaction, place: str) -> bool:
    table = f"{place}.procrastinate_jobs"
    there = tx.scalar(select(func.to_regclass(table))) is not None
    return there and bool(tx.scalar(select(func.has_table_privilege(table, "SELECT"))))


def _size(database: Database, tx: Transaction) -> tuple[int, int | None]:
    """Bytes of the database, and bytes that its disk has left."""
    if not database.is_sqlite:
        return int(tx.scalar(select(func.pg_database_size(func.current_database()))) or 0), None
    path = Path(database.place)
    sizes = (file.stat().st_size for file in (path, Path(f"{path}-wal")) if file.exists())
    try:
        return sum(sizes), shutil.disk_usage(path.parent).free
    except OSError as error:
        raise StorageError(f"the size of {path} cannot be told: {error.strerror}", help="check the disk") from None


# --- what happened ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tail:
    """Rows of a growing table, each counted once.

    Transactions may commit in another order than that of their ids, so the last `_BACK` ids are looked at again.
    """

    table: Table
    query: Select[Any]
    last: int | None = None
    seen: set[int] = field(default_factory=set)

    def new(self, tx: Transaction) -> list[Row[Any]]:
        """The rows written since the last call; none the first time."""
        first = self.last is None
        newest = tx.scalar(select(func.max(self.table.c.id))) or 0
        low = max(0, min(newest, self.last if self.last is not None else newest) - _BACK)
        rows = tx.execute(self.query.where(self.table.c.id > low)).all()
        fresh = [] if first else [row for row in rows if row.id not in self.seen and row.id > low]
        self.seen = {row.id for row in rows if row.id > newest - _BACK}
        self.last = newest
        return fresh


_BACK = 1_000


@dataclass(slots=True)
class News:
    """Counts what any process wrote since the first look. Not thread-safe."""

    revisions: Counter[bool] = field(default_factory=Counter)
    """Revisions landed, by whether they were there before the watch began."""
    advisories: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What happened to advisories, by action and severity."""
    attempts: Counter[bool] = field(default_factory=Counter)
    """Tries to send a message, by whether it was delivered."""
    _tails: tuple[_Tail, _Tail, _Tail] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Prepare the three tables."""
        events = select(advisory_events.c.id, advisory_events.c.action, advisories.c.severity).join(
            advisories, advisories.c.id == advisory_events.c.advisory_id
        )
        self._tails = (
            _Tail(revisions, select(revisions.c.id, revisions.c.backfill)),
            _Tail(advisory_events, events),
            _Tail(delivery_attempts, select(delivery_attempts.c.id, delivery_attempts.c.delivered)),
        )

    def look(self, database: Database) -> None:
        """Count what is new. Raises StorageError."""
        landed, happened, tried = self._tails
        with database.snapshot() as tx:
            self.revisions.update(row.backfill for row in landed.new(tx))
            self.advisories.update((row.action, Severity(row.severity).label) for row in happened.new(tx))
            self.attempts.update(row.delivered for row in tried.new(tx))
