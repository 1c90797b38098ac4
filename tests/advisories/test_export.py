from __future__ import annotations

import csv
import hashlib
import json
import os
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from advisories.export import export
from advisories.osv_model import OsvDocument
from storage import watches
from storage.database import Database
from storage.errors import UsageError
from storage.model import Severity
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, START, finding


@pytest.fixture
def kept(sqlite_database: Database) -> Kept:
    return Kept(sqlite_database)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out"


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_layout(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B", "C")
    report = export(kept.database, folder)
    old, new = kept.story.of("B").id, kept.story.of("C").id
    assert (report.total, report.written, report.removed) == (2, 7, 0)
    assert set(contents(folder)) == {
        "all.zip",
        "ecosystems.txt",
        "modified_id.csv",
        "GIT/all.zip",
        "GIT/modified_id.csv",
        f"GIT/{old}.json",
        f"GIT/{new}.json",
    }
    assert (folder / "ecosystems.txt").read_text() == "GIT\n"
    with zipfile.ZipFile(folder / "all.zip") as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted([f"{old}.json", f"{new}.json"])
        for name in archive.namelist():
            assert archive.read(name) == (folder / "GIT" / name).read_bytes()
            OsvDocument.model_validate_json(archive.read(name))


def test_the_index_names_each_document_newest_first(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B", "C", "D")
    export(kept.database, folder)
    root = list(csv.reader((folder / "modified_id.csv").open()))
    inner = list(csv.reader((folder / "GIT" / "modified_id.csv").open()))
    assert [[when, name.removeprefix("GIT/")] for when, name in root] == inner
    times = [datetime.fromisoformat(when) for when, _ in inner]
    assert times == sorted(times, reverse=True)
    for when, name in inner:
        assert json.loads((folder / "GIT" / f"{name}.json").read_text())["modified"] == when


def test_info_and_closed_documents_are_in_it(kept: Kept, folder: Path) -> None:
    kept.land({"card:text": "a"})
    kept.land(
        {"card:text": "b"}, findings=[finding("card:text", "a", "b", cls="card.only", severity=Severity.INFO)]
    )
    kept.land({"card:text": "a"})
    assert export(kept.database, folder).total == 1


def test_a_second_export_touches_nothing(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B")
    export(kept.database, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    report = export(kept.database, folder)
    assert (report.written, report.removed) == (0, 0)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def test_only_what_changed_is_rewritten(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B", "C")
    export(kept.database, folder)
    untouched = folder / "GIT" / f"{kept.story.of('B').id}.json"
    stamp = untouched.stat().st_mtime_ns
    kept.rope("A")
    # the document of C, the two archives and the two indexes
    assert export(kept.database, folder).written == 5
    assert untouched.stat().st_mtime_ns == stamp


def test_equal_databases_give_equal_bytes(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B", "C", "B")
    export(kept.database, folder / "one")
    export(kept.database, folder / "two")
    assert contents(folder / "one") == contents(folder / "two")


def test_documents_that_are_gone_are_removed_and_other_files_left(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B")
    export(kept.database, folder)
    stale = folder / "GIT" / "x_HUBWATCH-2020-2222-2222-2222.json"
    other = folder / "GIT" / "notes.json"
    stale.write_text("{}")
    other.write_text("{}")
    assert export(kept.database, folder).removed == 1
    assert not stale.exists()
    assert other.exists()


def test_no_half_written_file_is_left(kept: Kept, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.rope("A", "B")
    export(kept.database, folder)
    before = contents(folder)
    kept.rope("C")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(UsageError, match="No space left"):
            export(kept.database, folder)
    assert contents(folder) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(kept: Kept, folder: Path) -> None:
    folder.mkdir(mode=0o500)
    with pytest.raises(UsageError, match="cannot write"):
        export(kept.database, folder / "out")


def test_a_file_in_the_way_is_refused(kept: Kept, folder: Path) -> None:
    folder.write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        export(kept.database, folder)


def test_an_empty_database(kept: Kept, folder: Path) -> None:
    assert export(kept.database, folder).total == 0
    assert (folder / "modified_id.csv").read_bytes() == b""
    with zipfile.ZipFile(folder / "all.zip") as archive:
        assert archive.namelist() == []


def test_what_is_not_for_everybody_is_left_out_where_that_is_asked(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B")
    assert export(kept.database, folder, public_only=True).total == 1
    with kept.database.transaction() as tx:
        watches.add(tx, REPO, now=START, restricted=True)
    report = export(kept.database, folder, public_only=True)
    assert (report.total, report.removed) == (0, 1)
    with zipfile.ZipFile(folder / "all.zip") as archive:
        assert archive.namelist() == []
    assert export(kept.database, folder / "whole").total == 1


def test_a_lost_file_is_written_again(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B", "C")
    export(kept.database, folder)
    before = contents(folder)
    (folder / "GIT" / f"{kept.story.of('B').id}.json").unlink()
    (folder / "all.zip").write_bytes(b"not a zip")
    export(kept.database, folder)
    assert contents(folder) == before


def test_archives_can_be_left_for_later(kept: Kept, folder: Path) -> None:
    kept.rope("A", "B")
    export(kept.database, folder, archives=False)
    assert not (folder / "all.zip").exists()
    kept.rope("C")
    export(kept.database, folder, archives=False)
    export(kept.database, folder)
    export(kept.database, folder / "whole")
    assert contents(folder / "whole") == {
        name: made for name, made in contents(folder).items() if not name.startswith("whole/")
    }


def test_what_an_increment_writes_is_what_a_fresh_export_writes(kept: Kept, folder: Path) -> None:
    for number, value in enumerate("ABACBADDB"):
        kept.rope(value)
        export(kept.database, folder / "kept")
        export(kept.database, folder / str(number))
        assert contents(folder / "kept") == contents(folder / str(number))
