"""Tokens of ours: made here, shown once, kept as the SHA-256 of a secret of 256 random bits.

A secret that cannot be guessed needs no slow hash, and its digest is found by index, so that checking one
costs the same whether it is known or not.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, insert, select, update

from storage.database import Transaction
from storage.errors import NotFound, UsageError
from storage.model import AccessToken, Scope
from storage.tables import tokens

PREFIX = "hubwatch_"
"""What every secret begins with, so that scanners for leaked secrets can find it."""
_BYTES = 32
_LONGEST_NAME = 100
USED_EVERY = timedelta(minutes=10)
"""How exactly ``last_used_at`` is kept: reading must not write each time."""


def create(tx: Transaction, name: str, scopes: Iterable[Scope], *, now: datetime) -> tuple[AccessToken, str]:
    """Make a token; returns it and its secret, which cannot be had again.

    Raises UsageError for a name that is empty, too long, or that of a token in use, and where no scope is given.
    """
    chosen = frozenset(scopes)
    if not chosen:
        raise UsageError("a token needs a scope", help="give read or write")
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UsageError("a token needs a name", help=f"one line of at most {_LONGEST_NAME} characters")
    if _in_use(tx, name) is not None:
        raise UsageError(f"there is a token {name!r} already", help="choose another name, or revoke it first")
    secret = PREFIX + secrets.token_urlsafe(_BYTES)
    values = {
        "name": name,
        "digest": _digest(secret),
        "scopes": sorted(chosen),
        "created_at": now,
    }
    row = tx.execute(insert(tokens).values(**values).returning(tokens)).one()
    return _token(row), secret


def find(tx: Transaction, secret: str) -> AccessToken | None:
    """The token in use that has this secret; None for an unknown or revoked one."""
    if not secret.startswith(PREFIX) or len(secret) > 200:
        return None
    query = select(tokens).where(tokens.c.digest == _digest(secret), tokens.c.revoked_at.is_(None))
    row = tx.execute(query).one_or_none()
    return None if row is None else _token(row)


def is_stale(token: AccessToken, now: datetime) -> bool:
    """Whether ``last_used_at`` is so old that it is worth writing anew."""
    return token.last_used_at is None or now - token.last_used_at >= USED_EVERY


def used(tx: Transaction, token: AccessToken, *, now: datetime) -> None:
    """Remember that a token was used."""
    tx.execute(update(tokens).where(tokens.c.id == token.id).values(last_used_at=now))


def revoke(tx: Transaction, name_or_id: str, *, now: datetime) -> AccessToken:
    """Make a token useless from now on, by name or number. Raises NotFound when none such is in use."""
    row = _in_use(tx, name_or_id)
    if row is None and name_or_id.isascii() and name_or_id.isdecimal() and len(name_or_id) < 18:
        query = select(tokens).where(tokens.c.id == int(name_or_id), tokens.c.revoked_at.is_(None))
        row = tx.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no token {name_or_id[:100]!r} in use", help="see: hubwatch token list")
    done = update(tokens).where(tokens.c.id == row.id).values(revoked_at=now).returning(tokens)
    return _token(tx.execute(done).one())


def list_all(tx: Transaction) -> list[AccessToken]:
    """Every token, revoked ones too, in the order made."""
    return [_token(row) for row in tx.execute(select(tokens).order_by(tokens.c.id))]


def _in_use(tx: Transaction, name: str) -> Row[Any] | None:
    query = select(tokens).where(tokens.c.name == name, tokens.c.revoked_at.is_(None))
    return tx.execute(query.order_by(tokens.c.id).limit(1)).one_or_none()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _token(row: Row[Any]) -> AccessToken:
    return AccessToken(
        id=row.id,
        name=row.name,
        scopes=frozenset(Scope(scope) for scope in row.scopes),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )
