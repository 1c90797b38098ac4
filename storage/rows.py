"""Small helpers shared by the modules of this package: repo rows, upserts, chunks."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Insert, Row, Table, bindparam, insert, select

from storage.database import Transaction
from storage.errors import NotFound
from storage.model import RepoRef, RepoState
from storage.tables import repos

T = TypeVar("T")
CHUNK = 500
"""How many values go into one IN list: below every driver's limit of parameters."""


def chunks(values: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Cut values into lists of at most ``size``."""
    chunk: list[T] = []
    for value in values:
        chunk.append(value)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def path_key(path: str) -> str:
    """What stands for a path in keys and indexes: paths can be longer than an index entry."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def insert_all(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; an empty list does nothing."""
    if rows:
        tx.execute(insert(table), list(rows))


def insert_new(tx: Transaction, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert those of the rows that break no unique key; an empty list does nothing."""
    if rows:
        tx.execute(_insert_new(tx.dialect.name, table), [dict(row) for row in rows])


def insert_missing(tx: Transaction, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row unless one with the same key is there; returns whether it was inserted."""
    return tx.execute(_insert_missing(tx.dialect.name, table), dict(row)).first() is not None


def upsert(tx: Transaction, table: Table, *rows: Mapping[str, Any]) -> None:
    """Insert rows, which all have the same columns, or bring those with the same primary key up to date."""
    if rows:
        given = [dict(row) for row in rows]
        tx.execute(_upsert(tx.dialect.name, table, tuple(rows[0])), given if len(given) > 1 else given[0])


# Making a statement costs more than running it: each is made once.


@cache
def _insert_new(dialect: str, table: Table) -> Insert:
    made: Insert = _dialect(dialect).insert(table).on_conflict_do_nothing()
    return made


@cache
def _insert_missing(dialect: str, table: Table) -> Insert:
    made: Insert = _dialect(dialect).insert(table).on_conflict_do_nothing().returning(*table.primary_key)
    return made


@cache
def _upsert(dialect: str, table: Table, names: tuple[str, ...]) -> Insert:
    keys = [column.name for column in table.primary_key]
    fresh = _dialect(dialect).insert(table)
    changed = {name: fresh.excluded[name] for name in names if name not in keys}
    made: Insert = fresh.on_conflict_do_update(index_elements=keys, set_=changed)
    return made


def _dialect(name: str) -> Any:
    return importlib.import_module(f"sqlalchemy.dialects.{name}")  # the other one is never needed


# --- repos ---------------------------------------------------------------------------------------


_FIND = select(repos.c.id).where(
    repos.c.endpoint == bindparam("endpoint"),
    repos.c.owner == bindparam("owner"),
    repos.c.name == bindparam("name"),
)
_LOCK = select(repos.c.id).where(repos.c.id == bindparam("repo_id")).with_for_update()
_FOLLOWED = select(repos.c.ref).where(repos.c.id == bindparam("repo_id"))


# What was found in a transaction, which is one connection object. Rows of repos are never deleted.
_FOUND: WeakKeyDictionary[Transaction, dict[RepoRef, int]] = WeakKeyDictionary()


def find_repo(tx: Transaction, repo: RepoRef) -> int | None:
    """The row id of a repo."""
    found = _FOUND.setdefault(tx, {})
    if repo not in found:
        row_id: int | None = tx.scalar(_FIND, {"endpoint": repo.endpoint, "owner": repo.owner, "name": repo.name})
        if row_id is None:
            return None
        found[repo] = row_id
    return found[repo]


def require_repo(tx: Transaction, repo: RepoRef) -> int:
    """The row id of a repo; raises NotFound when this database never heard of it."""
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        raise NotFound(f"{repo.id} is not known here", help=f"run: hubwatch watch add {repo.id}")
    return repo_id


def ensure_repo(tx: Transaction, repo: RepoRef, ref: str = "main") -> int:
    """The row id of a repo, made when there is none."""
    repo_id = find_repo(tx, repo)
    if repo_id is not None:
        return repo_id
    insert_missing(
        tx,
        repos,
        {
            "endpoint": repo.endpoint,
            "owner": repo.owner,
            "name": repo.name,
            "ref": ref,
            "state": RepoState.OK.value,
            "private": False,
            "public": False,
            "restricted": False,
        },
    )
    return require_repo(tx, repo)


def lock_repo(tx: Transaction, repo_id: int) -> None:
    """Let one transaction at a time write this repo's history; SQLite has one writer anyway."""
    if tx.dialect.name != "sqlite":
        tx.execute(_LOCK, {"repo_id": repo_id})


def followed_ref(tx: Transaction, repo_id: int) -> str:
    """The ref that is followed, or was when the repo was last watched."""
    ref: str = tx.execute(_FOLLOWED, {"repo_id": repo_id}).scalar_one()
    return ref


REPO_COLUMNS = (repos.c.endpoint, repos.c.owner, repos.c.name)


def repo_of(row: Row[*tuple[Any, ...]]) -> RepoRef:
    """The repo of a row that holds `REPO_COLUMNS`."""
    return RepoRef(endpoint=row.endpoint, owner=row.owner, name=row.name)
