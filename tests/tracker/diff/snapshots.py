"""Snapshots made from files at hand, with the content keys that git would give them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from storage.model import FileEntry, Json, Manifest, Revision, Snapshot
from tracker.snapshot.build import build

SHA = "0" * 40


def snapshot_of(files: Mapping[str, bytes | str | Json]) -> Snapshot:
    """A snapshot of these files by path: bytes, text, or a value to be written as JSON."""
    contents = {path: _bytes(value) for path, value in files.items()}
    entries = {
        path: FileEntry(path=path, size=len(data), blob_id=_blob_id(data)) for path, data in contents.items()
    }
    by_key = {entries[path].content_key: data for path, data in contents.items()}
    revision = Revision(sha=SHA, committed_at=datetime(2025, 1, 1, tzinfo=UTC), author="a", title="t")
    return build(revision, Manifest(files=entries), by_key, by_key)


def read_tree(folder: Path) -> Snapshot:
    """A snapshot of a folder's files, sub-folders included."""
    files = {
        item.relative_to(folder).as_posix(): item.read_bytes()
        for item in sorted(folder.rglob("*"))
        if item.is_file()
    }
    return snapshot_of(files)


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _bytes(value: bytes | str | Json) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")
