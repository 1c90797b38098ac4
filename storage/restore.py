"""A backup made into a database again: checked first, and never over anything."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import func, inspect, select

from storage import schema
from storage.database import Database
from storage.errors import SchemaError, StorageError, UsageError
from storage.faults import translated
from storage.tables import repos, revisions

RESTORE_SECONDS: Final = 6 * 3600
_SQLITE: Final = b"SQLite format 3\x00"
_DUMP: Final = b"PGDMP"
_BROKEN: Final = "restore an older backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What came back."""

    schema: str
    repos: int
    revisions: int


def restore(db: Database, source: Path) -> Restored:
    """Fill an empty database from a file that `storage.schema.backup` wrote for a database of its kind.

    The file is checked before anything is written, and a restore that fails leaves the database empty. An older
    schema is restored as it is, to be upgraded. Raises UsageError when the database holds anything or the file
    is no such backup, StorageError for one that is damaged, SchemaError for one that a newer hubwatch made.
    """
    try:
        with source.open("rb") as file:
            head = file.read(len(_SQLITE))
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}", help="check the path") from error
    kind = "SQLite" if head == _SQLITE else "PostgreSQL" if head.startswith(_DUMP) else None
    if kind is None:
        raise UsageError(f"{source} is no backup of hubwatch", help="name a file that hubwatch db backup wrote")
    if db.is_sqlite != (kind == "SQLite"):
        raise UsageError(
            f"{source} is a backup of a {kind} database, and {db.place} is none",
            help="restore into a database of the same kind: give its URL",
        )
    _require_empty(db)
    if db.is_sqlite:
        _from_sqlite(db, source)
    else:
        _from_dump(db, source)
    with db.snapshot() as tx:
        counts = [tx.scalar(select(func.count()).select_from(table)) or 0 for table in (repos, revisions)]
    return Restored(schema=schema.current(db) or "", repos=counts[0], revisions=counts[1])


def _require_empty(db: Database) -> None:
    with db.snapshot() as tx:
        names = inspect(tx).get_table_names()
    if names:
        raise UsageError(
            f"the database {db.place} holds something already",
            help="give the URL of a new database, and point hubwatch there afterwards",
        )


def _refuse_newer(version: str | None, source: Path) -> None:
    if version is None:
        raise UsageError(f"{source} is no backup of hubwatch", help="name a file that hubwatch db backup wrote")
    if version > schema.newest():
        raise SchemaError(
            f"{source} has schema {version}, which this hubwatch does not know: it is newer",
            help="install a newer hubwatch",
        )


# --- SQLite --------------------------------------------------------------------------------------


def _from_sqlite(db: Database, source: Path) -> None:
    beside = source.with_name(f"{source.name}-wal")
    if beside.exists() and beside.stat().st_size:
        raise UsageError(
            f"{source} is in use: not all of it is in that file", help="copy it with hubwatch db backup"
        )
    # Immutable: a backup is only read, wherever it lies, and no -wal or -shm is made beside it.
    location = f"file:{quote(str(source.absolute()))}?mode=ro&immutable=1"
    with translated(str(source)), closing(sqlite3.connect(location, uri=True)) as backup:
        _refuse_newer(_check_sqlite(backup, source), source)
        with translated(db.place), db.engine.connect() as connection:
            target: Any = connection.connection.dbapi_connection
            target.execute("PRAGMA query_only = OFF")
            backup.backup(target)
            target.execute("PRAGMA journal_mode = WAL")


def _check_sqlite(backup: sqlite3.Connection, source: Path) -> str | None:
    """The schema's version, of a file in which every page and every reference is right."""
    words = backup.execute("PRAGMA integrity_check(1)").fetchone()[0]
    broken = backup.execute("PRAGMA foreign_key_check").fetchone() if words == "ok" else None
    if words != "ok" or broken is not None:
        what = words if broken is None else f"table {broken[0]} has rows that point nowhere"
        error = StorageError(f"the backup {source} is damaged ({str(what)[:200]})", help=_BROKEN)
        error.retryable = False
        raise error
    tables = {row[0] for row in backup.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "alembic_version" not in tables:
        return None
    row = backup.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


# --- PostgreSQL ----------------------------------------------------------------------------------


def _from_dump(db: Database, source: Path) -> None:
    """Restore by pg_restore in one transaction: what fails leaves nothing."""
    told = _run(db, ["--data-only", "--table=alembic_version", "--file=-", str(source)], source)
    lines = told.splitlines()
    copies = [
        number for number, line in enumerate(lines) if line.startswith("COPY ") and "alembic_version" in line
    ]
    _refuse_newer(lines[copies[0] + 1].strip() if copies and len(lines) > copies[0] + 1 else None, source)
    # The password goes by the environment: an argument list is seen by every user of the machine.
    location = db.engine.url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", "--no-password"]
    _run(db, [*options, f"--dbname={location}", str(source)], source)


def _run(db: Database, arguments: list[str], source: Path) -> str:
    program = shutil.which("pg_restore")
    if program is None:
        raise UsageError(
            "pg_restore is not installed", help="install the PostgreSQL client programs, or restore on the server"
        )
    environment = dict(os.environ)
    if db.engine.url.password is not None:
        environment["PGPASSWORD"] = str(db.engine.url.password)
    try:
        result = subprocess.run(  # noqa: S603 - a fixed program, no shell
            [program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=RESTORE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StorageError("pg_restore did not come to an end", help="restore on the server") from error
    if result.returncode != 0:
        words = (result.stderr.strip().splitlines() or ["no message"])[0][:300]
        raise StorageError(
            f"pg_restore failed with {source}: {words}",
            help=f"use a pg_restore at least as new as the one that wrote it, or {_BROKEN}",
        )
    return result.stdout
