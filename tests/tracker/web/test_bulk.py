"""The served bulk files while they are made: who waits, who is told to come again, who gets older ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracker.web.bulk as module
from advisories.export import ExportReport, export
from advisories.export_apart import export_apart
from storage.database import Database
from storage.errors import StorageError, UsageError
from storage.tables import repos
from tests.advisories.landing import Kept
from tracker.settings import Settings, WebSettings
from tracker.web.bulk import MOST_WAITING, Bulk, NotYet


@pytest.fixture
def kept(sqlite_database: Database) -> Kept:
    return Kept(sqlite_database).rope("A", "B")


def bulk(kept: Kept, folder: Path, *, patience: float = 30.0, apart: int = 5000) -> Bulk:
    settings = Settings(database_url="sqlite:///unused.db", web=WebSettings(cache=folder / "cache"))
    return Bulk(settings, kept.database, patience=patience, apart=apart)


class Gate:
    """An export that waits until it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.runs = 0

    def __call__(self, *arguments: object, **options: object) -> ExportReport:
        self.runs += 1
        assert self.open.wait(30)
        return export(*arguments, **options)  # type: ignore[arg-type]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(module, "export", gate)
    yield gate
    gate.open.set()


def test_files_are_as_the_database_is(kept: Kept, tmp_path: Path) -> None:
    served = bulk(kept, tmp_path)
    first = served.file("all.zip", public_only=True)
    assert first.checksum
    kept.rope("C")
    second = served.file("all.zip", public_only=True)
    assert second.checksum != first.checksum
    assert (second.modified or "") > (first.modified or "")


def test_many_are_made_in_another_process_and_are_the_same(kept: Kept, tmp_path: Path) -> None:
    here = bulk(kept, tmp_path / "here").file("all.zip", public_only=True)
    there = bulk(kept, tmp_path / "there", apart=1).file("all.zip", public_only=True)
    assert there.path.read_bytes() == here.path.read_bytes()
    assert there.checksum == here.checksum


def test_a_failure_in_the_other_process_is_told(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        export_apart(kept.database, tmp_path / "file" / "below")


def test_who_waited_long_enough_is_told_to_come_again(kept: Kept, tmp_path: Path, gate: Gate) -> None:
    served = bulk(kept, tmp_path, patience=0.05)
    for _ in range(3):
        with pytest.raises(NotYet) as refused:
            served.file("all.zip", public_only=True)
        assert int(refused.value.headers["Retry-After"]) > 0
    assert gate.runs == 1
    gate.open.set()
    assert bulk(kept, tmp_path).file("all.zip", public_only=True).path.exists()


def test_older_files_are_served_meanwhile(kept: Kept, tmp_path: Path, gate: Gate) -> None:
    gate.open.set()
    served = bulk(kept, tmp_path, patience=0.05)
    while True:
        try:
            first = served.file("all.zip", public_only=True)
            break
        except NotYet:
            continue
    gate.open.clear()
    kept.rope("C")
    assert served.file("all.zip", public_only=True) == first


def test_what_is_hidden_since_is_not_served_meanwhile(kept: Kept, tmp_path: Path, gate: Gate) -> None:
    gate.open.set()
    bulk(kept, tmp_path).file("modified_id.csv", public_only=True)
    served = bulk(kept, tmp_path, patience=0.05)
    gate.open.clear()
    with kept.database.transaction() as tx:
        tx.execute(repos.update().values(restricted=True))
    with pytest.raises(NotYet):
        served.file("modified_id.csv", public_only=True)
    gate.open.set()
    assert bulk(kept, tmp_path).file("modified_id.csv", public_only=True).path.read_text() == ""


def test_few_requests_wait(kept: Kept, tmp_path: Path, gate: Gate) -> None:
    served = bulk(kept, tmp_path)
    waiting = [
        threading.Thread(target=served.file, args=("all.zip",), kwargs={"public_only": True})
        for _ in range(MOST_WAITING)
    ]
    for thread in waiting:
        thread.start()
    while served._waiting._value:
        pass
    with pytest.raises(NotYet):  # at once: nobody else's thread is held
        served.file("all.zip", public_only=True)
    gate.open.set()
    for thread in waiting:
        thread.join(30)
    assert served.file("all.zip", public_only=True).checksum


def test_a_folder_that_cannot_be_made(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(UsageError, match="cannot write"):
        bulk(kept, tmp_path).file("all.zip", public_only=True)
