"""What a database takes of the disk, and giving it back."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from storage.database import Database
from storage.faults import translated
from storage.tables import blobs


@dataclass(frozen=True, slots=True)
class Usage:
    """Bytes of a database: ``used`` by what it holds, ``idle`` for what comes next (as far as it is known)."""

    used: int
    idle: int = 0


def usage(db: Database) -> Usage:
    """What a database takes, logs of transactions not counted.

    PostgreSQL does not say what it holds ready within its files; there, contents count by their own sizes, so
    that what was forgotten does not count, whether or not it was vacuumed.
    """
    with db.snapshot() as tx:
        if db.is_sqlite:
            pages, free, size = (
                int(tx.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            )
            return Usage(used=(pages - free) * size, idle=free * size)
        whole = int(tx.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
        table = int(tx.exec_driver_sql("SELECT pg_total_relation_size('blobs')").scalar_one())
        held = int(tx.scalar(select(func.coalesce(func.sum(func.octet_length(blobs.c.data)), 0))) or 0)
        return Usage(used=whole - table + min(held, table), idle=max(table - held, 0))


def free(db: Database) -> int | None:
    """Bytes that are free where an SQLite database lies; None where that is on another machine."""
    return shutil.disk_usage(Path(db.place).parent).free if db.is_sqlite else None


def vacuum(db: Database) -> None:
    """Give back to the disk what was forgotten (SQLite), or to later rows (PostgreSQL), and count anew.

    SQLite writes the file afresh: nobody else writes meanwhile, and as much room is needed as it takes.
    Raises StorageError when another process is writing, or the disk is full.
    """
    with translated(db.place):
        if not db.is_sqlite:
            with db.engine.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM (ANALYZE)")
            return
        with db.engine.connect() as connection:
            connection.detach()  # what is set on it here must meet no other transaction
            driver = connection.connection.dbapi_connection
            assert driver is not None  # noqa: S101 - it was just connected
            cursor = driver.cursor()
            cursor.execute("PRAGMA query_only = OFF")
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA optimize")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.close()
