"""The schema's version: made, brought up to date, checked, and backed up.

Migrations live in this package and run inside one transaction each time, so that two processes which start
on the same database at once do not meet half of one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from storage.database import Database
from storage.errors import SchemaError, StorageError, UsageError
from storage.faults import translated

_MIGRATIONS = Path(__file__).with_name("migrations")
_LOCK = 0x68756277  # "hubw": one upgrade at a time on a PostgreSQL server
BACKUP_SECONDS = 3600


def newest() -> str:
    """The schema version that this hubwatch works with."""
    return ScriptDirectory(str(_MIGRATIONS)).get_current_head() or ""


def current(db: Database) -> str | None:
    """The schema version of a database; None for an empty one. Raises StorageError."""
    with db.snapshot() as tx:
        return _version(tx)


def upgrade(db: Database) -> str:
    """Bring a database, empty or older, to the newest version, and return that.

    Raises SchemaError for one that a newer hubwatch made or that holds something else.
    """
    with _exclusive(db) as connection:
        _refuse_foreign(connection, db.place)
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return newest()


def require_current(db: Database) -> None:
    """Make sure that a database can be used: an empty one is set up, any other must have the newest version.

    Raises SchemaError whose help names the command that mends it.
    """
    version = current(db)
    if version == newest():
        return
    if version is None:
        upgrade(db)
        return
    _refuse_unknown(version, db.place)
    raise SchemaError(f"the database {db.place} has the older schema {version}", help="run: hubwatch db upgrade")


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _refuse_foreign(connection: Connection, place: str) -> None:
    version = _version(connection)
    if version is not None:
        _refuse_unknown(version, place)
    elif inspect(connection).get_table_names():
        raise SchemaError(
            f"the database {place} holds tables of something else", help="give hubwatch a database of its own"
        )


def _refuse_unknown(version: str, place: str) -> None:
    known = {script.revision for script in ScriptDirectory(str(_MIGRATIONS)).walk_revisions()}
    if version not in known:
        raise SchemaError(
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
