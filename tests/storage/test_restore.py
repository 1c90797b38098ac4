"""Backups made into databases again: whole, never over anything, and only what can be trusted."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage import history, schema
from storage.database import Database
from storage.errors import SchemaError, StorageError, UsageError
from storage.restore import Restored, restore
from tests.storage.support import REPO, landing


@pytest.fixture
def programs(request: pytest.FixtureRequest, empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore on the path, where they are needed."""
    if empty_url.startswith("postgres"):
        folder = request.getfixturevalue("postgres_programs")
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def filled(request: pytest.FixtureRequest, empty_url: str) -> Database:
    """A database of the kind of ``empty_url`` with some revisions."""
    kind = "postgres" if empty_url.startswith("postgres") else "sqlite"
    database: Database = request.getfixturevalue(f"{kind}_database")
    with database.transaction() as tx:
        for label in "abc":
            history.land(tx, landing(label))
    return database


def _open(url: str) -> Database:
    return Database.open(url)


@pytest.mark.usefixtures("programs")
def test_a_backup_comes_back_whole_and_only_into_nothing(filled: Database, empty_url: str, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    schema.backup(filled, file)
    target = _open(empty_url)
    assert restore(target, file) == Restored(schema=schema.newest(), repos=1, revisions=3)
    schema.require_current(target)
    with filled.snapshot() as old, target.snapshot() as new:
        assert history.revisions(new, REPO) == history.revisions(old, REPO)
    with target.transaction() as tx:
        history.land(tx, landing("d"))
    with pytest.raises(UsageError, match="holds something already"):
        restore(target, file)
    with target.snapshot() as tx:
        assert history.count(tx, REPO) == 4
    target.dispose()


@pytest.mark.usefixtures("programs")
def test_a_backup_taken_while_somebody_writes_is_a_beginning_of_the_history(
    filled: Database, empty_url: str, tmp_path: Path
) -> None:
    under_way, stop = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set() and number < 5_000:
            with filled.transaction() as tx:
                history.land(tx, landing(f"more {number}", {f"{n}.json": f"{n} {number}" for n in range(5)}))
            number += 1
            if number == 5:
                under_way.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert under_way.wait(60)
        schema.backup(filled, tmp_path / "backup")
    finally:
        stop.set()
        writer.join()
    target = _open(empty_url)
    restored = restore(target, tmp_path / "backup")
    with filled.snapshot() as old, target.snapshot() as new:
        whole = history.revisions(old, REPO, newest_first=False)
        part = history.revisions(new, REPO, newest_first=False)
        assert 8 <= len(part) == restored.revisions <= len(whole)
        assert part == whole[: len(part)]
        head = part[-1].revision.sha
        assert history.manifest(new, REPO, head) == history.manifest(old, REPO, head)
        assert history.manifest(new, REPO, head).digest == part[-1].manifest_digest
        if target.is_sqlite:
            assert new.exec_driver_sql("PRAGMA foreign_key_check").all() == []
            assert new.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
    target.dispose()


@pytest.mark.usefixtures("programs")
def test_a_newer_backup_is_refused_and_leaves_nothing(filled: Database, empty_url: str, tmp_path: Path) -> None:
    with filled.transaction() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    schema.backup(filled, tmp_path / "backup")
    target = _open(empty_url)
    with pytest.raises(SchemaError, match="install a newer hubwatch"):
        restore(target, tmp_path / "backup")
    assert schema.current(target) is None
    schema.require_current(target)
    target.dispose()


@pytest.mark.usefixtures("programs")
def test_a_damaged_backup_is_refused_and_leaves_nothing(filled: Database, empty_url: str, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    schema.backup(filled, file)
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4096 * 3] = b"\xff" * (4096 * 3)
    file.write_bytes(data[: -len(data) // 4])
    target = _open(empty_url)
    with pytest.raises(StorageError, match=r"is damaged|pg_restore failed"):
        restore(target, file)
    assert schema.current(target) is None
    target.dispose()


def test_other_files_are_refused(empty_url: str, tmp_path: Path) -> None:
    target = _open(empty_url)
    (tmp_path / "text").write_text("not a backup")
    with pytest.raises(UsageError, match="no backup of hubwatch"):
        restore(target, tmp_path / "text")
    with pytest.raises(UsageError, match="cannot be read"):
        restore(target, tmp_path / "absent")
    (tmp_path / "other").write_bytes(b"PGDMP" if target.is_sqlite else b"SQLite format 3\0")
    with pytest.raises(UsageError, match="database of the same kind"):
        restore(target, tmp_path / "other")
    assert schema.current(target) is None
    target.dispose()


def test_a_file_in_use_and_a_foreign_one_are_refused(tmp_path: Path, sqlite_database: Database) -> None:
    target = _open(f"sqlite:///{tmp_path}/new.db")
    with sqlite_database.transaction() as tx:
        history.land(tx, landing("a"))
    with pytest.raises(UsageError, match="in use"):
        restore(target, Path(sqlite_database.place))
    with sqlite3.connect(tmp_path / "invoices.db") as other:
        other.execute("CREATE TABLE invoices (id INTEGER)")
    other.close()
    with pytest.raises(UsageError, match="no backup of hubwatch"):
        restore(target, tmp_path / "invoices.db")
    target.dispose()


def test_rows_that_point_nowhere_are_found(sqlite_database: Database, tmp_path: Path) -> None:
    with sqlite_database.transaction() as tx:
        history.land(tx, landing("a"))
    schema.backup(sqlite_database, tmp_path / "backup")
    with sqlite3.connect(tmp_path / "backup") as broken:
        broken.execute("DELETE FROM repos")
    broken.close()
    target = _open(f"sqlite:///{tmp_path}/new.db")
    with pytest.raises(StorageError, match="point nowhere"):
        restore(target, tmp_path / "backup")
    target.dispose()


@pytest.mark.postgres
def test_without_pg_restore(empty_postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dump").write_bytes(b"PGDMP")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("pg_restore") is None
    target = _open(empty_postgres_url)
    with pytest.raises(UsageError, match="pg_restore is not installed"):
        restore(target, tmp_path / "dump")
    target.dispose()
