"""The place of a job queue: a PostgreSQL schema of its own beside our tables.

The queue library keeps its tables there and knows nothing of ours. Every shape of those tables gets a place of
its own, named by their definition. So nodes with different versions of the library never meet in one queue, and
nothing in it is ever migrated: what is due stands in the watches, and a queue that is left holds only hints.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select

from storage import meta, watches
from storage.database import Database, Transaction
from storage.errors import UsageError
from storage.model import Watch
from storage.rows import REPO_COLUMNS, repo_of
from storage.tables import meta as meta_table
from storage.tables import repos
from storage.tables import watches as watches_table

KEPT = timedelta(days=7)
"""How long a queue that nobody uses is kept: longer than any upgrade, node by node, takes."""

_PREFIX = "hubwatch_queue_"
_LOCK = 0x68756271  # "hubq": one process at a time makes or drops a queue
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{8}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a queue is: the name of its schema, and how a driver of PostgreSQL's own URLs gets there.

    ``url`` holds the password and must not be shown.
    """

    name: str
    url: str
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        return f"Place(name={self.name!r})"


def prepare(db: Database, definition: str, now: datetime) -> Place:
    """Make the queue that ``definition`` (SQL) describes unless it is there, and give its place.

    Raises UsageError when this user may not make it, StorageError for whatever the database refuses.
    """
    name = _PREFIX + hashlib.sha256(definition.encode()).hexdigest()[:8]
    with db.transaction() as tx:
        tx.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        if tx.exec_driver_sql(f"SELECT to_regnamespace('{name}')").scalar() is None:
            _make(tx, name, definition)
        touch(tx, name, now)
    return Place(name=name, url=_url(db), arguments=_arguments(db, name))


def touch(tx: Transaction, name: str, now: datetime) -> None:
    """Remember that a queue is in use."""
    meta.put(tx, name, now.isoformat())


def drop_unused(tx: Transaction, now: datetime) -> list[str]:
    """Drop the queues that nobody has used for `KEPT`; returns their names."""
    tx.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    rows = tx.execute(select(meta_table).where(meta_table.c.key.startswith(_PREFIX, autoescape=True)))
    old = [row.key for row in rows if _NAME.fullmatch(row.key) and _is_old(row.value, now)]
    for name in old:
        tx.exec_driver_sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        tx.execute(delete(meta_table).where(meta_table.c.key == name))
    return old


def watched(tx: Transaction, watch_id: int) -> Watch | None:
    """The watch that a job names, as it is now; None when it was removed."""
    query = select(*REPO_COLUMNS).join(watches_table, watches_table.c.repo_id == repos.c.id)
    row = tx.execute(query.where(watches_table.c.id == watch_id)).one_or_none()
    return watches.get(tx, repo_of(row)) if row else None


def driver_errors() -> tuple[type[Exception], ...]:
    """What a driver of its own, which a queue library brings, may raise."""
    import psycopg

    return (psycopg.Error,)


def _make(tx: Transaction, name: str, definition: str) -> None:
    allowed = "SELECT has_database_privilege(current_database(), 'CREATE'), current_database(), current_user"
    may, database, user = tx.exec_driver_sql(allowed).one()
    if not may:
        raise UsageError(
            f"the user {user} may not make the schema {name} for the queue",
            help=f'run once as the owner: GRANT CREATE ON DATABASE "{database}" TO "{user}"',
        )
    tx.exec_driver_sql(f"CREATE SCHEMA {name}")
    tx.exec_driver_sql(f"SET LOCAL search_path TO {name}")
    # several statements, none with parameters: the driver must not look for placeholders in them
    tx.execution_options(no_parameters=True).exec_driver_sql(definition)
    tx.execution_options(no_parameters=False).exec_driver_sql("SET LOCAL search_path TO DEFAULT")


def _is_old(value: object, now: datetime) -> bool:
    try:
        return now - datetime.fromisoformat(str(value)) > KEPT
    except ValueError:
        return False


def _url(db: Database) -> str:
    return db.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def _arguments(db: Database, name: str) -> dict[str, Any]:
    defaults = {"connect_timeout": "10", "application_name": "hubwatch queue", "client_encoding": "utf8"}
    given = db.engine.url.query
    options = given.get("options", "")
    options = " ".join(options) if isinstance(options, tuple) else options
    return {
        **{key: value for key, value in defaults.items() if key not in given},
        "options": f"{options} -c search_path={name}".strip(),
    }
