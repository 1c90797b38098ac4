"""The doctor: what is well is said to be; what is not is found and named, with what to do about it."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage import blobs, pauses, watches
from storage.database import Database
from storage.model import RepoRef
from storage.tables import blobs as blob_rows
from storage.tables import watches as watch_rows
from tests.support.models import llama, weights
from tests.support.site import START, Site, site
from tracker.demo.hub import LoopbackHub
from tracker.doctor import configuration, data, examine, machine, upstream
from tracker.doctor.model import Check, Level
from tracker.settings import Settings

REPO = RepoRef.parse("acme/tiny")
SECRET = "hf_secretsecretsecret"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("HUBWATCH_", "HF_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub(tmp_path / "hub") as running:
        yield running
    assert not running.crashes


@pytest.fixture
def at(hub: LoopbackHub, database: Database) -> Iterator[Site]:
    hub.create(REPO.id).commit({"config.json": llama(), "model.safetensors": weights(), "README.md": "# A\n"})
    with site(hub, database) as made:
        made.watch(REPO.id)
        made.poll(REPO)
        yield made


def bad(checks: Iterator[Check] | list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks if check.level in {Level.WARN, Level.FAIL}}


def test_a_sound_database_has_nothing_to_tell(at: Site) -> None:
    assert bad(data.whole(at.database, every=True)) == {}
    assert bad(data.at_work(at.database, Settings(), at.now())) == {}
    usable, checks = data.reachable(at.database.engine.url.render_as_string(hide_password=False))
    assert usable
    assert bad(checks) == {}


def test_contents_that_are_missing_or_wrong(at: Site) -> None:
    with at.database.transaction() as tx:
        keys = {key.partition(":")[0]: key for key in tx.scalars(sa.select(blob_rows.c.key))}
        tx.execute(sa.delete(blob_rows).where(blob_rows.c.key == keys["header"]))
        blobs.put(tx, "git:" + "0" * 40, b"not what it is named")
    found = bad(data.whole(at.database, every=True))
    assert set(found) == {"contents", "hashes"}
    assert "acme/tiny: model.safetensors" in found["contents"].message
    assert "git:0000" in found["hashes"].message
    with at.database.transaction() as tx:
        tx.execute(sa.update(blob_rows).values(data=b"rubbish"))
    assert "hashes" in bad(data.whole(at.database, every=False))


def test_what_keeps_checks_and_messages_from_being_made(at: Site) -> None:
    late = at.time + timedelta(days=9)
    with at.database.transaction() as tx:
        tx.execute(sa.update(watch_rows).values(errors=7, last_error="the Hub failed"))
        pauses.put(tx, "hub", late + timedelta(minutes=1), reason="429")
        watch = watches.require(tx, REPO)
        dead = f"{_machine()}|4194304|1|x"  # beyond any process id
        assert watches.claim(tx, watch.id, dead, late, late + timedelta(seconds=90))
    found = bad(data.at_work(at.database, Settings(), late))
    assert set(found) == {"leases", "watches", "schedule", "pauses"}
    assert "failed 7 times in a row: the Hub failed" in found["watches"].message
    assert "overdue by more than 25h" in found["schedule"].message
    assert all(check.level is Level.WARN for check in found.values())


def _machine() -> str:
    from tracker.leases import new_holder

    return new_holder().partition("|")[0]


def test_a_database_of_another_schema_is_a_finding(at: Site) -> None:
    with at.database.transaction() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    url = at.database.engine.url.render_as_string(hide_password=False)
    usable, checks = data.reachable(url)
    assert not usable
    assert bad(checks)["schema"].help == "install a newer hubwatch"


def _all(url: str | None) -> list[Check]:
    return list(examine(url, offline=True, every=False, clock=lambda: START))


def test_broken_databases_and_settings_are_findings_and_everything_else_is_still_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.db").write_text("not a database " * 100)
    for url in (f"sqlite:///{tmp_path}/text.db", "postgresql://nobody@127.0.0.1:1/none", "mysql://x/y"):
        checks = _all(url)
        assert bad(checks)["database"].level is Level.FAIL
        assert {"git", "template probe", "tokenizer probe", "port"} <= {check.name for check in checks}
    monkeypatch.setenv("HUBWATCH_POLL_FLOR", "5m")
    checks = _all(None)
    assert "poll.flor" in bad(checks)["settings"].message
    assert "template probe" in {check.name for check in checks}


def test_a_damaged_file_is_found(sqlite_database: Database, tmp_path: Path) -> None:
    sqlite_database.dispose()
    with sqlite3.connect(sqlite_database.place) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'ix_watches_next_check_at'")
    raw.close()
    found = bad(_all(f"sqlite:///{sqlite_database.place}"))
    assert found["integrity"].level is Level.FAIL
    assert "hubwatch db restore" in found["integrity"].help


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    checks = _all(f"sqlite:///{tmp_path}/deep/none.db")
    assert not (tmp_path / "deep").exists()
    assert any("not there yet" in check.message for check in checks)


def test_variables_and_keys_that_mean_nothing(tmp_path: Path) -> None:
    checks = list(configuration.unknown_variables({"HUBWATCH_POLL_FLOR": "", "HUBWATCH_PORT": "1", "HOME": "/"}))
    assert [check.help for check in checks] == ["did you mean HUBWATCH_POLL_FLOOR?"]
    file = tmp_path / "hubwatch.toml"
    file.write_text(f'databse_url = "x"\n[hub]\ntoken = "{SECRET}"\n')
    file.chmod(0o644)
    found = list(configuration.settings_file())
    assert [check.level for check in found] == [Level.WARN, Level.WARN]
    assert found[0].help == "did you mean database_url?"
    assert "chmod 600" in found[1].help
    assert SECRET not in repr(found)
    file.write_text("[broken")
    assert [check.level for check in configuration.settings_file()] == [Level.FAIL]


def test_whom_the_pages_are_open_to() -> None:
    def levels(**given: object) -> list[Level]:
        return [check.level for check in configuration.exposure(Settings(**given))]  # type: ignore[arg-type]

    assert levels() == levels(host="::1") == levels(host="localhost") == [Level.OK]
    assert levels(host="192.0.2.1") == [Level.FAIL, Level.WARN]
    assert levels(host="10.0.0.1", allowed_hosts=("x.example",)) == [Level.WARN]
    assert levels(host="10.0.0.1", allowed_hosts=("x.example",), web={"read": "token"}) == [Level.OK]


def test_a_port_that_somebody_else_has() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        check = machine.port("127.0.0.1", taken.getsockname()[1])
    assert check.level is Level.FAIL
    assert machine.port("127.0.0.1", 0).level is Level.OK


def test_git_may_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git().level is Level.WARN


def _hub(endpoint: str, token: str | None, now: datetime) -> list[Check]:
    settings = Settings(hub={"endpoint": endpoint, "token": token})
    return list(upstream.hub(settings, lambda: now))


def test_the_hub_is_asked_once_and_says_what_time_it_is(hub: LoopbackHub) -> None:
    now = datetime.now(START.tzinfo)
    hub.tokens = {SECRET: set()}
    asked = len(hub.requests)
    assert bad(_hub(hub.url, SECRET, now)) == {}
    assert len(hub.requests) == asked + 1
    assert bad(_hub(hub.url, None, now)) == {}
    refused = bad(_hub(hub.url, "hf_bad", now))
    assert refused["token"].level is Level.FAIL
    behind = bad(_hub(hub.url, None, now - timedelta(hours=2)))
    assert "behind the Hub" in behind["clock"].message
    assert behind["clock"].level is Level.WARN


def test_a_hub_that_does_not_answer() -> None:
    found = bad(_hub("http://127.0.0.1:9", None, START))
    assert found["hub"].level is Level.FAIL
