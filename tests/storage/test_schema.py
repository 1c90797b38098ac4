"""The schema: migrations, versions, backups."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from storage import meta, schema, watches
from storage.database import Database
from storage.errors import SchemaError, StorageError, UsageError
from storage.model import RepoRef
from storage.tables import metadata

NOW = datetime(2026, 5, 1, tzinfo=UTC)
REPO = RepoRef(owner="acme", name="tiny")


def test_migrations_and_tables_agree(database: Database) -> None:
    with database.transaction() as tx:
        context = MigrationContext.configure(tx, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_partial_index_is_in_the_migration_too(database: Database) -> None:
    catalogue = "sqlite_master" if database.is_sqlite else "pg_indexes"
    columns = ("sql", "name") if database.is_sqlite else ("indexdef", "indexname")
    with database.snapshot() as tx:
        statement = (
            f"SELECT {columns[0]} FROM {catalogue} WHERE {columns[1]} = 'ix_revisions_repo_id_ref_position'"  # noqa: S608
        )
        definition = tx.exec_driver_sql(statement).scalar_one()
    assert "UNIQUE" in definition
    assert "fork IS NULL" in definition


def test_an_empty_database_is_set_up(empty_url: str) -> None:
    database = Database.open(empty_url)
    assert schema.current(database) is None
    schema.require_current(database)
    assert schema.current(database) == schema.newest()
    schema.require_current(database)
    assert schema.upgrade(database) == schema.newest()
    database.dispose()


def test_many_first_uses_at_once_make_one_schema(empty_url: str) -> None:
    failures: list[BaseException] = []

    def use() -> None:
        database = Database.open(empty_url)
        try:
            schema.require_current(database)
            with database.transaction() as tx:
                meta.put(tx, "used", True)
        except BaseException as error:  # noqa: BLE001 - told by the assertion
            failures.append(error)
        finally:
            database.dispose()

    threads = [threading.Thread(target=use) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def _set_version(database: Database, version: str) -> None:
    with database.transaction() as tx:
        tx.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")  # noqa: S608


def test_a_newer_database_is_refused(database: Database) -> None:
    _set_version(database, "9999")
    with pytest.raises(SchemaError, match="install a newer hubwatch"):
        schema.require_current(database)
    with pytest.raises(SchemaError, match="install a newer hubwatch"):
        schema.upgrade(database)


def test_an_older_database_is_refused_with_the_command(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "newest", lambda: "9999")
    with pytest.raises(SchemaError, match="hubwatch db upgrade") as caught:
        schema.require_current(database)
    assert not caught.value.retryable


def test_a_newer_database_is_used_as_long_as_its_makers_allow_it(database: Database) -> None:
    _set_version(database, "9999")
    with database.transaction() as tx:
        meta.put(tx, "schema", {"version": "9999", "usable_from": schema.newest()})
    schema.require_current(database)  # expanded: this version still works on it
    with database.transaction() as tx:
        meta.put(tx, "schema", {"version": "9999", "usable_from": "9998"})
    with pytest.raises(SchemaError, match="install a newer hubwatch"):
        schema.require_usable(database)  # contracted
    with pytest.raises(SchemaError, match="install a newer hubwatch"):
        schema.upgrade(database)


def test_an_upgrade_says_which_versions_may_stay(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.snapshot() as tx:
        terms = {"version": schema.newest(), "usable_from": schema.usable_from()}
        assert meta.get(tx, "schema") == terms
    monkeypatch.setattr(schema, "usable_from", lambda: "0003")
    schema.upgrade(database)
    with database.snapshot() as tx:
        assert meta.get(tx, "schema") == terms | {"usable_from": "0003"}


def test_the_strictest_migration_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = tmp_path / "versions"
    versions.mkdir()
    (tmp_path / "env.py").write_text("")
    lines = [("0001", None, None), ("0002", "0001", None), ("0003", "0002", "0001"), ("0004", "0003", "0003")]
    for revision, below, floor in lines:
        text = f"revision = {revision!r}\ndown_revision = {below!r}\n"
        text += f"usable_from = {floor!r}\n" if floor else ""
        (versions / f"{revision}.py").write_text(text)
    monkeypatch.setattr(schema, "_MIGRATIONS", tmp_path)
    assert schema.usable_from() == "0003"  # 0003 alone would allow 0001, but 0002 does not
    (versions / "0004.py").unlink()
    assert schema.usable_from() == "0002"


def test_a_check_makes_nothing(empty_url: str) -> None:
    database = Database.open(empty_url)
    with pytest.raises(SchemaError, match="hubwatch db upgrade"):
        schema.require_usable(database)
    assert schema.current(database) is None
    database.dispose()


def test_a_foreign_database_is_left_alone(empty_url: str) -> None:
    database = Database.open(empty_url)
    with database.transaction() as tx:
        tx.exec_driver_sql("CREATE TABLE invoices (id INTEGER)")
    with pytest.raises(SchemaError, match="a database of its own"):
        schema.require_current(database)
    database.dispose()


def test_missing_tables_are_named_as_a_schema_error(empty_url: str) -> None:
    database = Database.open(empty_url)
    with pytest.raises(SchemaError, match="hubwatch db upgrade"), database.snapshot() as tx:
        watches.list_all(tx)
    database.dispose()


def test_backup_of_sqlite_is_a_database(sqlite_database: Database, tmp_path: Path) -> None:
    with sqlite_database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
    target = tmp_path / "deep" / "copy.db"
    with sqlite_database.transaction() as tx:
        meta.put(tx, "unfinished", True)
        schema.backup(sqlite_database, target)  # while somebody writes
    copy = Database.open(f"sqlite:///{target}")
    schema.require_current(copy)
    with copy.snapshot() as tx:
        assert [watch.repo for watch in watches.list_all(tx)] == [REPO]
        assert meta.get(tx, "unfinished") is None
    copy.dispose()
    assert target.stat().st_mode & 0o077 == 0
    assert [path.name for path in target.parent.iterdir() if "partial" in path.name] == []


def test_backup_never_overwrites(sqlite_database: Database, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    with pytest.raises(UsageError, match="does not exist yet"):
        schema.backup(sqlite_database, target)
    assert target.read_text() == "mine"


def test_backup_into_an_impossible_place(sqlite_database: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="check the path"):
        schema.backup(sqlite_database, tmp_path / "file" / "copy.db")


@pytest.mark.postgres
def test_backup_of_postgres_restores(
    postgres_database: Database,
    empty_postgres_url: str,
    postgres_programs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with postgres_database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
    monkeypatch.setenv("PATH", f"{postgres_programs}{os.pathsep}{os.environ['PATH']}")
    target = tmp_path / "copy.dump"
    schema.backup(postgres_database, target)
    restore = shutil.which("pg_restore")
    assert restore is not None
    subprocess.run([restore, f"--dbname={empty_postgres_url}", str(target)], check=True, timeout=60)
    copy = Database.open(empty_postgres_url)
    schema.require_current(copy)
    with copy.snapshot() as tx:
        assert [watch.repo for watch in watches.list_all(tx)] == [REPO]
    copy.dispose()


@pytest.mark.postgres
def test_backup_of_postgres_without_pg_dump(
    postgres_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="pg_dump is not installed"):
        schema.backup(postgres_database, tmp_path / "copy.dump")
    assert list(tmp_path.iterdir()) == []


def test_storage_itself_loads_no_sql() -> None:
    code = "import storage.model, sys; raise SystemExit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
