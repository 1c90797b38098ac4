"""Small facts about this installation, by key: JSON values that belong to no repo."""

from __future__ import annotations

from sqlalchemy import select

from storage.database import Transaction
from storage.model import Json
from storage.rows import upsert
from storage.tables import meta


def get(tx: Transaction, key: str) -> Json:
    """The value under a key; None when there is none."""
    return tx.scalar(select(meta.c.value).where(meta.c.key == key))


def put(tx: Transaction, key: str, value: Json) -> None:
    """Set the value under a key."""
    upsert(tx, meta, {"key": key, "value": value})
