"""What a driver's error means, as a StorageError that says what to do about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from storage.errors import SchemaError, StorageError

_LOCKED = ("is locked by another process", "wait for it to finish, or stop it, then try again")
_FULL = ("has no room left: the disk is full", "free some disk space, then try again")
_READ_ONLY = ("cannot be written", "give this user write access to the database and to its folder")
_CANNOT_OPEN = ("cannot be opened", "check the path and that this user may write in its folder")
_NOT_A_DATABASE = ("is not an SQLite database", "check the database URL: nothing in that file was touched")
_CORRUPT = ("is damaged", "restore a backup (hubwatch db backup makes them)")
_NO_ANSWER = ("does not answer", "check that the server runs and that the database URL is right")
_REFUSED = ("refuses the login", "check user, password and rights in the database URL")
_ABSENT = ("does not exist", "create it on the server (createdb), or correct the database URL")
_CONFLICT = ("had a conflict with another process", "try again")
_TABLES = ("lacks tables of this version", "run: hubwatch db upgrade")

# By the beginning of SQLite's error name, most telling first.
_SQLITE = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_FULL": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_PERM": _READ_ONLY,
    "SQLITE_CANTOPEN": _CANNOT_OPEN,
    "SQLITE_NOTADB": _NOT_A_DATABASE,
    "SQLITE_CORRUPT": _CORRUPT,
    "SQLITE_IOERR": ("cannot be read or written", "check the disk, then try again"),
}

# By the beginning of the SQLSTATE (PostgreSQL manual, appendix A).
_POSTGRES = {
    "08": _NO_ANSWER,
    "25006": _READ_ONLY,
    "28": _REFUSED,
    "3D000": _ABSENT,
    "40": _CONFLICT,
    "42501": _REFUSED,
    "42P01": _TABLES,
    "42703": _TABLES,
    "53100": _FULL,
    "53": ("has no resources left", "raise the server's limits, or run fewer workers"),
    "55P03": _LOCKED,
    "57": _NO_ANSWER,
}

_LASTING = {_NOT_A_DATABASE, _CORRUPT, _REFUSED, _ABSENT, _READ_ONLY, _CANNOT_OPEN}


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise driver errors inside the block as StorageError; ``place`` names the database, without a password."""
    try:
        yield
    except exc.TimeoutError as error:
        raise StorageError(
            f"the database {place} has no free connection", help="try again, or run fewer workers"
        ) from error
    except exc.StatementError as error:
        raise explain(error, place) from error
    except sqlite3.Error as error:
        raise _known(error, place) or _unknown(error, place) from error


def explain(error: exc.StatementError, place: str) -> StorageError:
    """The StorageError for what SQLAlchemy reports of a driver."""
    cause = error.orig or error
    known = _known(cause, place)
    if known is None and isinstance(error, exc.OperationalError) and getattr(cause, "sqlstate", None) is None:
        known = _storage_error(_by_message(str(cause)), place)
    return known or _unknown(cause, place)


def _known(cause: BaseException, place: str) -> StorageError | None:
    if isinstance(cause, sqlite3.Error):
        if "no such table" in str(cause) or "no such column" in str(cause):
            return _storage_error(_TABLES, place)
        return _lookup(_SQLITE, getattr(cause, "sqlite_errorname", "") or "", place)
    return _lookup(_POSTGRES, getattr(cause, "sqlstate", "") or "", place)


def _by_message(message: str) -> tuple[str, str]:
    """While connecting, libpq reports by words only."""
    if "authentication failed" in message or "no password supplied" in message or "role " in message:
        return _REFUSED
    if "database " in message and "does not exist" in message:
        return _ABSENT
    return _NO_ANSWER


def _lookup(table: dict[str, tuple[str, str]], code: str, place: str) -> StorageError | None:
    fitting = (prefix for prefix in sorted(table, key=len, reverse=True) if code.startswith(prefix))
    prefix = next(fitting, None)
    return _storage_error(table[prefix], place) if prefix else None


def _storage_error(meaning: tuple[str, str], place: str) -> StorageError:
    what, advice = meaning
    kind = SchemaError if meaning is _TABLES else StorageError
    error = kind(f"the database {place} {what}", help=advice)
    if meaning in _LASTING:
        error.retryable = False
    return error


def _unknown(cause: BaseException, place: str) -> StorageError:
    first_line = (str(cause).splitlines() or [""])[0][:300]
    return StorageError(f"the database {place} failed: {first_line}", help="run hubwatch doctor")
