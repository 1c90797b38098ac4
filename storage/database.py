"""The database: one engine, two kinds of transaction.

SQLite (WAL) and PostgreSQL are used through the same code. All other functions of this package take an open
transaction as their first argument, so that a caller decides what belongs together.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeAlias

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from storage.errors import StorageError, UsageError
from storage.faults import translated

Transaction: TypeAlias = Connection
"""An open transaction, to be handed on to the functions of this package and used for nothing else."""

BUSY_SECONDS = 30
"""How long a writer waits for another one before it gives up."""

_PAUSE_SECONDS = 0.01
_URL_HELP = "use sqlite:///path/to/file.db or postgresql://user@host/name"
_BEGIN = "hubwatch_begin"
_FOREIGN_KEYS = "hubwatch_foreign_keys"
_SETTINGS = "hubwatch_settings"


@dataclass(slots=True, eq=False)
class Database:
    """An open database, shared by all threads of a process."""

    engine: Engine
    place: str
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _writer: int | None = field(default=None, repr=False)

    @classmethod
    def open(cls, url: str) -> Database:
        """Prepare a database by URL; connections are made on first use.

        For ``sqlite:///path`` the file and its folders are created, readable by this user alone.
        Raises UsageError for a URL that is no database URL, StorageError for a missing driver or a
        folder that cannot be made.
        """
        target = _parse(url)
        if target.get_backend_name() == "sqlite":
            return cls(engine=_sqlite(target), place=str(target.database))
        return cls(engine=_postgres(target), place=target.render_as_string(hide_password=True))

    @property
    def is_sqlite(self) -> bool:
        """Whether this is an SQLite file (else PostgreSQL)."""
        return self.engine.dialect.name == "sqlite"

    @property
    def url(self) -> str:
        """The URL with its password, to open the same database in another process: never to be shown."""
        return self.engine.url.render_as_string(hide_password=False)

    @contextmanager
    def transaction(self, *, foreign_keys: bool = True) -> Iterator[Transaction]:
        """A transaction that writes: committed at the end of the block, rolled back when it raises.

        On SQLite it holds the write lock from the start, so that two writers wait for each other and never
        deadlock. ``foreign_keys=False`` is for migrations, which rebuild tables on SQLite. Raises StorageError
        for whatever the database refuses.
        """
        with translated(self.place), self._one_writer(), self.engine.connect() as connection:
            connection.execution_options(**{_BEGIN: "IMMEDIATE", _FOREIGN_KEYS: foreign_keys})
            with connection.begin():
                yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Transaction]:
        """A transaction that reads one state of the database, whatever is written meanwhile. Writing raises."""
        with translated(self.place), self.engine.connect() as connection:
            if not self.is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    def dispose(self) -> None:
        """Close all idle connections."""
        self.engine.dispose()

    @contextmanager
    def _one_writer(self) -> Iterator[None]:
        """Let the threads of this process write in turn: SQLite's own waiting is not fair."""
        if not self.is_sqlite:
            yield
            return
        if self._writer == threading.get_ident():
            raise RuntimeError("a write transaction inside another one of the same thread can never begin")
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise StorageError(f"the database {self.place} is busy writing", help="try again")
        self._writer = threading.get_ident()
        try:
            yield
        finally:
            self._writer = None
            self._turn.release()


def masked(url: str) -> str:
    """A database URL that may be shown: the password is hidden."""
    return _parse(url).render_as_string(hide_password=True)


def _parse(url: str) -> URL:
    try:
        target = make_url(url)
    except ArgumentError as error:
        raise UsageError("this is not a database URL", help=_URL_HELP) from error
    if target.drivername in {"sqlite", "sqlite+pysqlite"}:
        if not target.database or target.database.startswith((":", "file:")):
            raise UsageError("the SQLite URL names no file", help=_URL_HELP)
        return target.set(drivername="sqlite+pysqlite", query={})
    if target.drivername in {"postgres", "postgresql", "postgresql+psycopg"}:
        return target.set(drivername="postgresql+psycopg")
    raise UsageError(f"databases of kind {target.drivername!r} are not supported", help=_URL_HELP)


def _sqlite(url: URL) -> Engine:
    path = Path(url.database or "").expanduser().absolute()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The file holds subscription secrets. SQLite gives the -wal and -shm files the same mode.
        os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))
    except OSError as error:
        raise StorageError(
            f"the database {path} cannot be opened: {error.strerror}",
            help="check the path and that this user may write in its folder",
        ) from error
    engine = create_engine(
        url.set(database=str(path)),
        connect_args={"timeout": BUSY_SECONDS},
        pool_size=8,
        max_overflow=56,
        pool_timeout=BUSY_SECONDS,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin or commit by itself
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _use_wal(connection: Any) -> None:
    """Change the journal's mode, which SQLite does not wait for: another first user may be at it right now."""
    until = monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if monotonic() > until:
                raise
            sleep(_PAUSE_SECONDS)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    mode = options.get(_BEGIN)
    # Settings of the connection, not of the transaction: what the last one left is set right.
    wanted = (bool(options.get(_FOREIGN_KEYS, True)), not mode)
    if connection.info.get(_SETTINGS) != wanted:
        connection.info.pop(_SETTINGS, None)
        for name, value in zip(("foreign_keys", "query_only"), wanted, strict=True):
            connection.exec_driver_sql(f"PRAGMA {name} = {'ON' if value else 'OFF'}")
        connection.info[_SETTINGS] = wanted
    connection.exec_driver_sql(f"BEGIN {mode or 'DEFERRED'}")


def _postgres(url: URL) -> Engine:
    defaults = {"connect_timeout": "10", "application_name": "hubwatch", "client_encoding": "utf8"}
    try:
        return create_engine(
            url,
            connect_args={key: value for key, value in defaults.items() if key not in url.query},
            pool_size=8,
            max_overflow=24,
            pool_timeout=BUSY_SECONDS,
            pool_pre_ping=True,
        )
    except (ImportError, NoSuchModuleError) as error:
        raise StorageError("the PostgreSQL driver is not installed", help="install hubwatch[postgres]") from error
