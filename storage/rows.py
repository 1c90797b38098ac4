"""Small helpers shared by the modules of this package: repo rows, upserts, chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Row, Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite

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


def insert_missing(tx: Transaction, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row unless one with the same key is there; returns whether it was inserted."""
    dialect = sqlite if tx.dialect.name == "sqlite" else postgresql
    statement = dialect.insert(table).values(**row).on_conflict_do_nothing()
    return tx.execute(statement.returning(*table.primary_key)).first() is not None


def upsert(tx: Transaction, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row, or bring the one with the same primary key up to date."""
    dialect = sqlite if tx.dialect.name == "sqlite" else postgresql
    keys = [column.name for column in table.primary_key]
    statement = dialect.insert(table).values(**row)
    changed = {name: statement.excluded[name] for name in row if name not in keys}
    tx.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))


# --- repos ---------------------------------------------------------------------------------------


def find_repo(tx: Transaction, repo: RepoRef) -> int | None:
    """The row id of a repo."""
    return tx.scalar(
        select(repos.c.id).where(
            repos.c.endpoint == repo.endpoint, repos.c.owner == repo.owner, repos.c.name == repo.name
        )
    )


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
    """Let one transaction at a time write this repo's history (SQLite has one writer anyway)."""
    tx.execute(select(repos.c.id).where(repos.c.id == repo_id).with_for_update())


def followed_ref(tx: Transaction, repo_id: int) -> str:
    """The ref that is followed, or was when the repo was last watched."""
    ref: str = tx.execute(select(repos.c.ref).where(repos.c.id == repo_id)).scalar_one()
    return ref


REPO_COLUMNS = (repos.c.endpoint, repos.c.owner, repos.c.name)


def repo_of(row: Row[*tuple[Any, ...]]) -> RepoRef:
    """The repo of a row that holds `REPO_COLUMNS`."""
    return RepoRef(endpoint=row.endpoint, owner=row.owner, name=row.name)
