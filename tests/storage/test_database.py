"""Transactions, and what a driver's error becomes."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy.exc

from storage import database as database_module
from storage import meta, schema
from storage.database import Database, Transaction
from storage.errors import StorageError, UsageError

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    with database.transaction() as tx:
        meta.put(tx, "kept", 1)
    with pytest.raises(ValueError, match="no"), database.transaction() as tx:  # noqa: PT012
        meta.put(tx, "lost", 1)
        raise ValueError("no")
    with database.snapshot() as tx:
        assert (meta.get(tx, "kept"), meta.get(tx, "lost")) == (1, None)


def test_a_snapshot_sees_one_state(database: Database) -> None:
    with database.snapshot() as tx:
        assert meta.get(tx, "key") is None
        with database.transaction() as writer:
            meta.put(writer, "key", "new")
        assert meta.get(tx, "key") is None
    with database.snapshot() as tx:
        assert meta.get(tx, "key") == "new"


def test_a_snapshot_cannot_write_and_leaves_nothing_behind(database: Database) -> None:
    with pytest.raises(StorageError, match="write access"), database.snapshot() as tx:
        meta.put(tx, "key", 1)
    for _ in range(3):  # the same pooled connection
        with database.transaction() as tx:
            meta.put(tx, "key", 2)


def test_a_write_inside_a_write_of_the_same_thread_is_told_at_once(sqlite_database: Database) -> None:
    with sqlite_database.transaction():  # noqa: SIM117 - the inner one is what raises
        with pytest.raises(RuntimeError, match="never begin"), sqlite_database.transaction():
            pass


def test_folders_and_file_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "watch.db"
    database = Database.open(f"sqlite:///{path}")
    schema.require_current(database)
    with database.transaction() as tx:
        meta.put(tx, "key", 1)
        modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    database.dispose()


def test_sqlite_settings(sqlite_database: Database) -> None:
    with sqlite_database.transaction() as tx:
        wanted = {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30000, "synchronous": 1}
        assert {name: tx.exec_driver_sql(f"PRAGMA {name}").scalar() for name in wanted} == wanted


WRITER = """
import sys
from storage import meta
from storage.database import Database
database = Database.open(sys.argv[1])
for _ in range(25):
    with database.transaction() as tx:
        meta.put(tx, "count", meta.get(tx, "count") + 1)
"""


def _count_up(tx: Transaction) -> None:
    count: int = meta.get(tx, "count")
    meta.put(tx, "count", count + 1)


def test_processes_take_turns(sqlite_url: str) -> None:
    database = Database.open(sqlite_url)
    with database.transaction() as tx:
        meta.put(tx, "count", 0)
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, sqlite_url]) for _ in range(3)]
    for _ in range(25):
        with database.transaction() as tx:
            _count_up(tx)
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    with database.snapshot() as tx:
        assert meta.get(tx, "count") == 100
    database.dispose()


def test_threads_take_turns(sqlite_database: Database) -> None:
    with sqlite_database.transaction() as tx:
        meta.put(tx, "count", 0)

    def write() -> None:
        for _ in range(15):
            with sqlite_database.transaction() as tx:
                _count_up(tx)

    threads = [threading.Thread(target=write) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with sqlite_database.snapshot() as tx:
        assert meta.get(tx, "count") == 180


KILLED = """
import os, signal, sys
from storage import meta
from storage.database import Database
with Database.open(sys.argv[1]).transaction() as tx:
    meta.put(tx, "half", True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_no_half_and_no_lock(database_url: str) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, database_url], check=False, timeout=60).returncode == -9
    database = Database.open(database_url)
    with database.transaction() as tx:
        assert meta.get(tx, "half") is None
    database.dispose()


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://host/name", "sqlite://", "sqlite:///:memory:", "sqlite:///file:x?uri=true"]
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="sqlite:///path"):
        Database.open(url)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="check the path"):
        Database.open(f"sqlite:///{tmp_path}/file/watch.db")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 100)
    database = Database.open(f"sqlite:///{path}")
    with pytest.raises(StorageError, match="not an SQLite database") as caught:
        schema.require_current(database)
    assert not caught.value.retryable
    assert path.read_text().startswith("Dear reader")


def test_a_full_disk(sqlite_database: Database) -> None:
    with pytest.raises(StorageError, match="free some disk space") as caught, sqlite_database.transaction() as tx:  # noqa: PT012
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar_one()
        tx.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        meta.put(tx, "big", "x" * 200_000)
    assert caught.value.retryable


def test_a_locked_database(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0)
    database = Database.open(sqlite_url)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="locked by another process") as caught, database.transaction():
        pass
    assert caught.value.retryable
    other.execute("ROLLBACK")
    other.close()
    with database.transaction() as tx:
        meta.put(tx, "key", 1)
    database.dispose()


def test_a_damaged_database(sqlite_url: str) -> None:
    database = Database.open(sqlite_url)
    with database.transaction() as tx:
        meta.put(tx, "big", "x" * 200_000)
    with database.transaction() as tx:
        tx.exec_driver_sql("PRAGMA user_version = 1")
    database.dispose()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StorageError, match="restore a backup"), database.snapshot() as tx:
        meta.get(tx, "big")
    database.dispose()


def test_a_broken_rule_of_the_tables_is_a_storage_error(database: Database) -> None:
    with pytest.raises(StorageError, match="failed") as caught, database.transaction() as tx:
        tx.exec_driver_sql("INSERT INTO pauses (scope) VALUES ('x')")
    assert isinstance(caught.value.__cause__, sqlalchemy.exc.IntegrityError)


def test_nobody_answers() -> None:
    database = Database.open("postgresql://user:secret@127.0.0.1:9/name")
    with pytest.raises(StorageError, match="does not answer") as caught, database.snapshot():
        pass
    assert caught.value.retryable
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_no_such_database(postgres_url: str) -> None:
    database = Database.open(postgres_url.replace("/hubwatch_", "/nowhere_"))
    with pytest.raises(StorageError, match="createdb"), database.snapshot():
        pass


@pytest.mark.postgres
def test_no_such_user(postgres_url: str) -> None:
    database = Database.open(postgres_url.replace("//postgres:", "//stranger:"))
    with pytest.raises(StorageError, match="check user, password"), database.snapshot():
        pass


NO_DRIVER = """
import sys
sys.modules["psycopg"] = None
from storage.database import Database
from storage.errors import StorageError
try:
    Database.open("postgresql://host/name")
except StorageError as error:
    print(error)
"""


def test_postgres_without_its_driver() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_DRIVER], capture_output=True, text=True, check=False, timeout=60
    )
    assert "install hubwatch[postgres]" in done.stdout, done.stderr
