"""The schema's version: made, brought up to date, checked, and backed up.

Migrations live in this package and run inside one transaction each time, so that two processes which start
on the same database at once do not meet half of one. Nodes of several versions may share a database for as long
as a migration allows it (docs/decisions/0006-rolling-upgrades.md).
"""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, column, inspect, select, table

from storage import meta
from storage.database import Database
from storage.errors import SchemaError, StorageError, UsageError
from storage.faults import translated

_MIGRATIONS = Path(__file__).with_name("migrations")
_VERSION = table("alembic_version", column("version_num"))
_LOCK = 0x68756277  # "hubw": one upgrade at a time on a PostgreSQL server
_TERMS = "schema"  # key in `storage.meta`
BACKUP_SECONDS = 3600


# Alembic is for changing a schema: to look at its version it would be imported by every command for nothing.


@functools.cache
def newest() -> str:
    """The schema version that this hubwatch works with."""
    return max(_versions())


def current(db: Database) -> str | None:
    """The schema version of a database; None for an empty one. Raises StorageError."""
    with db.snapshot() as tx:
        return _version(tx)


def usable_from() -> str:
    """The oldest schema version whose code works on the newest one.

    Every migration says so of itself by ``usable_from``. One that does not can be used by its own version and
    later ones only; the strictest of all counts.
    """
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(_MIGRATIONS)).walk_revisions()
    return max(getattr(script.module, "usable_from", script.revision) for script in scripts)


def upgrade(db: Database) -> str:
    """Bring a database, empty or older, to the newest version, and return that.

    Daemons of older versions down to `usable_from` go on working on it; the others stop by themselves.
    Raises SchemaError for one that a newer hubwatch made or that holds something else.
    """
    from alembic import command
    from alembic.config import Config

    with _exclusive(db) as connection:
        _refuse_foreign(connection, db.place)
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        meta.put(connection, _TERMS, {"version": newest(), "usable_from": usable_from()})
    return newest()


def require_current(db: Database) -> None:
    """Make sure that a database can be used; an empty one is set up. Raises SchemaError, see `require_usable`."""
    if current(db) is None:
        upgrade(db)
    else:
        require_usable(db)


def require_usable(db: Database) -> None:
    """Make sure that this hubwatch can work on a database as it is now. One cheap question.

    That is so for the newest version that it knows, and for a later one whose makers said so. Raises
    SchemaError whose help names what mends it, StorageError when the database cannot be asked.
    """
    with db.snapshot() as tx:
        version = _version(tx)
        if version == newest():
            return
        terms = meta.get(tx, _TERMS) if version is not None else None
    if version is None or _is_known(version):
        raise SchemaError(
            f"the database {db.place} has the older schema {version or 'none'}", help="run: hubwatch db upgrade"
        )
    if not (isinstance(terms, dict) and terms.get("version") == version and str(terms["usable_from"]) <= newest()):
        raise _too_new(version, db.place)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION.name):
        return None
    version: str | None = connection.scalar(select(_VERSION.c.version_num))
    return version


def _refuse_foreign(connection: Connection, place: str) -> None:
    version = _version(connection)
    if version is not None:
        if not _is_known(version):
            raise _too_new(version, place)
    elif inspect(connection).get_table_names():
        raise SchemaError(
            f"the database {place} holds tables of something else", help="give hubwatch a database of its own"
        )


def _is_known(version: str) -> bool:
    return version in _versions()


@functools.cache
def _versions() -> frozenset[str]:
    # Kept, so that files which an upgrade exchanges under a running process do not speak for its code.
    return frozenset(path.name.partition("_")[0] for path in _MIGRATIONS.glob("versions/[0-9]*_*.py"))


def _too_new(version: str, place: str) -> SchemaError:
    return SchemaError(
        f"the database {place} has schema {version}, which this hubwatch does not know: it is newer",
        help="install a newer hubwatch",
    )


@contextmanager
def _exclusive(db: Database) -> Iterator[Connection]:
    """A write transaction for changing tables: one at a time, and free to rebuild tables on SQLite."""
    if not db.is_sqlite:
        with db.transaction() as tx:
            tx.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield tx
        return
    with db.transaction(foreign_keys=False) as tx:
        yield tx
        broken = tx.exec_driver_sql("PRAGMA foreign_key_check").first()
        if broken is not None:
            raise SchemaError(
                f"the database {db.place} has rows that point nowhere (table {broken[0]})",
                help="restore a backup (hubwatch db backup makes them)",
            )


# --- backup --------------------------------------------------------------------------------------


def backup(db: Database, target: Path) -> None:
    """Write a whole, consistent copy to a new file, while the database is in use.

    SQLite: another database file, to be used as it is. PostgreSQL: an archive for pg_restore, made by
    pg_dump. Raises UsageError when the file exists or pg_dump is missing.
    """
    if target.exists():
        raise UsageError(f"{target} exists", help="name a file that does not exist yet")
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        if db.is_sqlite:
            _copy_sqlite(db, partial)
        else:
            _dump_postgres(db, partial)
        partial.replace(target)
    except OSError as error:
        raise StorageError(
            f"the backup {target} cannot be written: {error.strerror}", help="check the path and the free space"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def _copy_sqlite(db: Database, target: Path) -> None:
    with translated(db.place), db.engine.connect() as connection:
        copy = sqlite3.connect(target)
        try:
            source: Any = connection.connection.dbapi_connection
            source.backup(copy)
        finally:
            copy.close()


def _dump_postgres(db: Database, target: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise UsageError(
            "pg_dump is not installed", help="install the PostgreSQL client programs, or back up on the server"
        )
    # The password goes by the environment: an argument list is seen by every user of the machine.
    location = db.engine.url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    environment = dict(os.environ)
    if db.engine.url.password is not None:
        environment["PGPASSWORD"] = str(db.engine.url.password)
    arguments = [program, "--format=custom", "--no-password", f"--file={target}", f"--dbname={location}"]
    try:
        result = subprocess.run(  # noqa: S603 - a fixed program, no shell
            arguments, env=environment, capture_output=True, text=True, timeout=BACKUP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise StorageError("pg_dump did not come to an end", help="back up on the server") from error
    if result.returncode != 0:
        words = (result.stderr.strip().splitlines() or ["no message"])[-1][:300]
        raise StorageError(f"pg_dump failed: {words}", help="use a pg_dump at least as new as the server")
