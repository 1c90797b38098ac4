"""What people changed through the API and the command line: who, from where, what. Only ever added to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import insert, select

from storage.database import Transaction
from storage.model import JournalEntry, Json
from storage.tables import journal


def record(
    tx: Transaction,
    *,
    now: datetime,
    actor: str,
    client: str,
    action: str,
    target: str,
    detail: Mapping[str, Json] | None = None,
) -> None:
    """Write one entry, in the transaction of the change itself: neither is there without the other."""
    tx.execute(
        insert(journal).values(
            at=now, actor=actor, client=client, action=action, target=target, detail=dict(detail or {})
        )
    )


def entries(tx: Transaction, *, limit: int | None = None, before: int | None = None) -> list[JournalEntry]:
    """The entries, newest first; ``before``, an entry's number, goes on behind it."""
    query = select(journal).order_by(journal.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(journal.c.id < before)
    return [
        JournalEntry(
            id=row.id,
            at=row.at,
            actor=row.actor,
            client=row.client,
            action=row.action,
            target=row.target,
            detail=row.detail,
        )
        for row in tx.execute(query)
    ]
