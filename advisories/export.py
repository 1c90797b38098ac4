"""The OSV bulk layout as a folder of files, brought up to date in place.

    all.zip  modified_id.csv  ecosystems.txt  GIT/{all.zip, modified_id.csv, <id>.json}

Every file appears at once or not at all (written beside its place, then moved there), and a file whose
content is unchanged is not touched, so that a mirror copies only what is new. Equal databases give equal bytes.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from advisories.osv import ECOSYSTEM
from advisories.publish import documents_of, to_json
from storage import advisories
from storage.database import Database, Transaction
from storage.errors import UsageError

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date a zip can hold: archives must not depend on the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export did: advisories in the folder, files written, files removed."""

    total: int
    written: int
    removed: int


class Archive:
    """``all.zip`` while it grows: each document as ``<id>.json``, the same bytes for the same documents.

    The file is whole once the ``with`` block is left.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6)

    def add(self, advisory_id: str, text: bytes) -> None:
        """Put one document in."""
        entry = zipfile.ZipInfo(f"{advisory_id}.json", date_time=_ZIP_EPOCH)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        entry.create_system = 3  # the same bytes whatever system writes them
        self._zip.writestr(entry, text)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()


def index(modified: Mapping[str, str], prefix: str = "") -> bytes:
    """``modified_id.csv`` from ``modified`` by id: a row a document, the newest first."""
    rows = sorted(sorted(modified), key=lambda name: datetime.fromisoformat(modified[name]), reverse=True)
    return "".join(f"{modified[name]},{prefix}{name}\n" for name in rows).encode("ascii")


def published(tx: Transaction) -> Iterator[tuple[str, str, bytes]]:
    """Every document of the database, `info` and withdrawn ones too: id, modified, and the text as served."""
    for made in documents_of(tx, advisories.modified_since(tx, None)):
        yield made["id"], made["modified"], to_json(made).encode("utf-8")


def export(database: Database, folder: Path) -> ExportReport:
    """Bring ``folder`` up to date; files that are not ours are left alone.

    Raises UsageError when the folder cannot be written.
    """
    try:
        return _export(database, folder)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}", help="name a folder that this user may write in"
        ) from error


def _export(database: Database, folder: Path) -> ExportReport:
    inner = folder / ECOSYSTEM
    inner.mkdir(parents=True, exist_ok=True)
    modified: dict[str, str] = {}
    written = 0
    with tempfile.TemporaryFile() as file:
        with Archive(file) as archive, database.snapshot() as tx:
            for advisory_id, when, text in published(tx):
                modified[advisory_id] = when
                written += _put(inner / f"{advisory_id}.json", text)
                archive.add(advisory_id, text)
        file.seek(0)
        packed = file.read()
    written += _put(inner / "all.zip", packed) + _put(folder / "all.zip", packed)
    # the indexes come last: what they name is there
    written += _put(inner / "modified_id.csv", index(modified))
    written += _put(folder / "modified_id.csv", index(modified, f"{ECOSYSTEM}/"))
    written += _put(folder / "ecosystems.txt", f"{ECOSYSTEM}\n".encode("ascii"))
    return ExportReport(total=len(modified), written=written, removed=_prune(inner, modified))


def _put(path: Path, content: bytes) -> bool:
    """Write a file at once; False when it holds that already."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size == len(content) and path.read_bytes() == content:
            return False
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".hubwatch-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return True


def _prune(folder: Path, kept: Mapping[str, str]) -> int:
    """Remove documents of ours that the database no longer holds."""
    stale = [path for path in folder.glob("x_HUBWATCH-*.json") if path.stem not in kept]
    for path in stale:
        path.unlink()
    return len(stale)
