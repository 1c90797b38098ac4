"""Parts of files by range, and pickles looked into through them: few bytes, once, whatever the size."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.database import Database
from storage.model import FileEntry, RepoRef, Revision
from storage.schema import upgrade
from tests.support.models import llama
from tracker.demo.faults import matching, server_error
from tracker.demo.files import LargeFile, LfsFile
from tracker.demo.hub import LoopbackHub
from tracker.hub.client import HubClient
from tracker.hub.errors import Corrupt, UpstreamFault
from tracker.loader import Loader
from tracker.snapshot.build import Parser

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")
EVIL = b"\x80\x02cos\nsystem\nX\x01\x00\x00\x00x\x85R."


def checkpoint(data: bytes, filler: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr(zipfile.ZipInfo("archive/data/0"), bytes(filler))
    return out.getvalue()


def published(hub: LoopbackHub, **files: bytes | LargeFile) -> tuple[Revision, dict[str, FileEntry]]:
    repo = hub.create("acme/tiny")
    sha = repo.commit({"config.json": llama(), **{name.replace("__", "."): data for name, data in files.items()}})
    client = HubClient(hub.url)
    revision = client.walk(REPO, head=sha, known=lambda _: False).revisions[-1]
    entries = dict(client.manifest(REPO, sha).files)
    hub.clear()
    return revision, entries


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database.open(f"sqlite:///{tmp_path}/parts.db")
    upgrade(made)
    return made


def test_a_part_is_exactly_what_was_asked_for(hub: LoopbackHub, connect: Connect) -> None:
    data = bytes(range(256)) * 100
    revision, entries = published(hub, a__bin=LfsFile(data), b__npy=data)
    for name in ("a.bin", "b.npy"):
        assert connect(hub).part(REPO, revision.sha, entries[name], start=300, stop=700) == data[300:700]
        assert connect(hub).part(REPO, revision.sha, entries[name], start=5, stop=5) == b""
        with pytest.raises(Corrupt):
            connect(hub).part(REPO, revision.sha, entries[name], start=0, stop=len(data) + 1)


def test_a_storage_that_fails_is_a_fault(hub: LoopbackHub, connect: Connect) -> None:
    revision, entries = published(hub, a__bin=LfsFile(b"x" * 1000))
    hub.faults.add(server_error(503), when=matching(kind="storage"))
    with pytest.raises(UpstreamFault):
        connect(hub).part(REPO, revision.sha, entries["a.bin"], start=0, stop=10)


def test_a_checkpoint_is_looked_into_by_two_ranges_and_never_again(
    hub: LoopbackHub, connect: Connect, database: Database
) -> None:
    revision, _ = published(hub, pytorch_model__bin=LfsFile(checkpoint(EVIL, 3_000_000)))
    loader = Loader(connect(hub), database, Parser())
    snapshot = loader.fetch(REPO, revision, None)
    assert snapshot.pickles["pytorch_model.bin"].dangerous == ("os.system",)
    stored = hub.asked("storage")
    assert len(stored) == 2
    assert all(record.range for record in stored)
    assert sum(record.bytes_sent or 0 for record in stored) < 200_000
    hub.clear()
    again = Loader(connect(hub), database, Parser()).fetch(REPO, revision, None)
    assert again.pickles == snapshot.pickles
    assert hub.asked("storage") == []


def test_a_file_that_is_broken_is_dangerous_and_one_that_cannot_be_fetched_is_a_gap(
    hub: LoopbackHub, connect: Connect, database: Database
) -> None:
    broken = LargeFile(b"PK\x03\x04", 5_000_000)
    revision, _ = published(hub, a__bin=LfsFile(checkpoint(EVIL, 0)), b__bin=broken, c__bin=LfsFile(b"x"))
    hub.faults.add(server_error(404), when=matching(path="*/c.bin"))
    snapshot = Loader(connect(hub), database, Parser()).fetch(REPO, revision, None)
    assert [(gap.path, gap.reason) for gap in snapshot.gaps] == [("c.bin", "file_gone")]
    assert list(snapshot.pickles) == ["a.bin", "b.bin"]
    assert "zip" in snapshot.pickles["b.bin"].dangerous[0]


def test_refs_are_one_request(hub: LoopbackHub, connect: Connect) -> None:
    published(hub)
    hub.repo("acme/tiny").tag("v1")
    hub.repo("acme/tiny").pull_request(4)
    assert set(connect(hub).refs(REPO)) == {"refs/heads/main", "refs/tags/v1", "refs/pr/4"}
    assert len(hub.requests) == 1
