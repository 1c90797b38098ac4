"""What is to be told to subscribers, written in the transaction that made it true and sent later."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import delete, select, update

from storage.database import Transaction
from storage.model import Notice, OutboxItem, RepoRef
from storage.rows import REPO_COLUMNS, chunks, ensure_repo, insert_missing, repo_of
from storage.tables import outbox, repos


def append(tx: Transaction, items: Iterable[OutboxItem]) -> int:
    """Add items; one whose key was ever added is left out. Returns how many are new."""
    ids: dict[RepoRef, int] = {}
    new = 0
    for item in items:
        repo_id = ids.setdefault(item.repo, ids.get(item.repo) or ensure_repo(tx, item.repo))
        row = {
            "key": item.key,
            "kind": item.kind,
            "repo_id": repo_id,
            "payload": dict(item.payload),
            "created_at": item.created_at,
        }
        new += insert_missing(tx, outbox, row)
    return new


def pending(tx: Transaction, limit: int) -> list[OutboxItem]:
    """Items not yet done, in the order added."""
    return [notice.item for notice in numbered(tx, limit)]


def numbered(tx: Transaction, limit: int, *, lock: bool = False) -> list[Notice]:
    """Items not yet done, with their numbers, in the order added.

    With ``lock`` nobody else gets them before this transaction ends, and whoever waited for that sees which of
    them are done by then.

    Which are done is kept item by item: on PostgreSQL a transaction that took a lower number may commit later
    than one with a higher, so a mark of how far one has read would lose items.
    """
    query = (
        select(outbox, *REPO_COLUMNS).join(repos, repos.c.id == outbox.c.repo_id).where(outbox.c.done_at.is_(None))
    )
    if lock:
        query = query.with_for_update(of=outbox)
    return [
        Notice(
            number=row.id,
            item=OutboxItem(
                key=row.key, kind=row.kind, repo=repo_of(row), payload=row.payload, created_at=row.created_at
            ),
        )
        for row in tx.execute(query.order_by(outbox.c.id).limit(limit))
    ]


def mark_done(tx: Transaction, keys: Iterable[str], *, now: datetime) -> None:
    """Say that items were dealt with; their keys stay, so that they are not added again."""
    for chunk in chunks(keys):
        tx.execute(update(outbox).where(outbox.c.key.in_(chunk), outbox.c.done_at.is_(None)).values(done_at=now))


def prune(tx: Transaction, done_before: datetime) -> int:
    """Drop items done before a time; returns how many."""
    return tx.execute(delete(outbox).where(outbox.c.done_at < done_before)).rowcount
