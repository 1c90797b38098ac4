"""Old entries of logs: what was sent, and who changed what. Forgotten in short transactions.

Notices, messages still to be sent, and what happened to advisories are no logs: they stay. So do the outbox
keys of new repos, which keep a repo from being told of twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, delete, func, select

from storage.database import Database, Transaction
from storage.tables import deliveries, delivery_attempts, journal, outbox

BATCH: Final = 500
_ONCE_ONLY: Final = "repo.new"


@dataclass(frozen=True, slots=True)
class Logs:
    """Rows by table."""

    outbox: int = 0
    deliveries: int = 0
    attempts: int = 0
    journal: int = 0

    def __add__(self, other: Logs) -> Logs:
        """Both together."""
        return Logs(
            self.outbox + other.outbox,
            self.deliveries + other.deliveries,
            self.attempts + other.attempts,
            self.journal + other.journal,
        )


def old(tx: Transaction, before: datetime) -> Logs:
    """What `forget` would forget."""
    of_deliveries = select(deliveries.c.id).where(_sent(before))
    return Logs(
        outbox=_count(tx, select(outbox.c.id).where(_told(before))),
        deliveries=_count(tx, of_deliveries),
        attempts=_count(
            tx, select(delivery_attempts.c.id).where(delivery_attempts.c.delivery_id.in_(of_deliveries))
        ),
        journal=_count(tx, select(journal.c.id).where(journal.c.at < before)),
    )


def forget(db: Database, before: datetime) -> Iterator[Logs]:
    """Forget what was done before a time; gives what each transaction forgot."""
    while True:
        with db.transaction() as tx:
            gone = _batch(tx, before)
        if gone == Logs():
            return
        yield gone


def _batch(tx: Transaction, before: datetime) -> Logs:
    ids = list(tx.scalars(select(deliveries.c.id).where(_sent(before)).order_by(deliveries.c.id).limit(BATCH)))
    attempts = tx.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(ids))).rowcount
    return Logs(
        outbox=_drop(tx, outbox, _told(before)),
        deliveries=tx.execute(delete(deliveries).where(deliveries.c.id.in_(ids))).rowcount,
        attempts=attempts,
        journal=_drop(tx, journal, journal.c.at < before),
    )


def _told(before: datetime) -> ColumnElement[bool]:
    return (outbox.c.done_at < before) & (outbox.c.kind != _ONCE_ONLY)


def _sent(before: datetime) -> ColumnElement[bool]:
    return deliveries.c.done_at < before


def _drop(tx: Transaction, table: Any, condition: ColumnElement[bool]) -> int:
    some = select(table.c.id).where(condition).order_by(table.c.id).limit(BATCH)
    return tx.execute(delete(table).where(table.c.id.in_(list(tx.scalars(some))))).rowcount


def _count(tx: Transaction, query: Select[Any]) -> int:
    return tx.scalar(select(func.count()).select_from(query.subquery())) or 0
