"""Pauses that the Hub asked for, as rows that every thread and every machine sees."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select

from storage.database import Transaction
from storage.rows import upsert
from storage.tables import pauses


def until(tx: Transaction, scope: str) -> datetime | None:
    """The end of a scope's pause, which may have passed; None when there never was one."""
    end: datetime | None = tx.scalar(select(pauses.c.until).where(pauses.c.scope == scope))
    return end


def reason(tx: Transaction, scope: str) -> str | None:
    """Why a scope was paused last."""
    words: str | None = tx.scalar(select(pauses.c.reason).where(pauses.c.scope == scope))
    return words


def put(tx: Transaction, scope: str, end: datetime, *, reason: str = "") -> None:
    """Pause a scope until ``end``. Of two pauses the longer one counts."""
    standing = until(tx, scope)
    if standing is None or standing < end:
        upsert(tx, pauses, {"scope": scope, "until": end, "reason": reason})


def clear(tx: Transaction, scope: str) -> None:
    """End a pause now."""
    tx.execute(delete(pauses).where(pauses.c.scope == scope))


def standing(tx: Transaction, now: datetime) -> list[tuple[str, datetime, str]]:
    """The pauses that have not passed, as (scope, until, reason), by scope."""
    rows = tx.execute(select(pauses).where(pauses.c.until > now).order_by(pauses.c.scope))
    return [(row.scope, row.until, row.reason) for row in rows]
