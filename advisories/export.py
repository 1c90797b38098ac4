"""The OSV bulk layout as a folder of files, brought up to date in place.

    all.zip  modified_id.csv  ecosystems.txt  GIT/{all.zip, modified_id.csv, <id>.json}

Every file appears at once or not at all (written beside its place, then moved there), and a file whose
content is unchanged is not touched, so that a mirror copies only what is new. Equal databases give equal bytes.

Only documents that may have changed since the newest one in the folder are made anew. The comment of
``all.zip`` says which hubwatch made it and from which index: after an upgrade everything is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from advisories.osv import ECOSYSTEM, SCHEMA_VERSION, timestamp
from advisories.publish import documents_of, to_json
from storage import advisories
from storage.database import Database, Transaction
from storage.errors import UsageError

ARCHIVE = "all.zip"
INDEX = "modified_id.csv"
ECOSYSTEMS = "ecosystems.txt"
MAKER = f"hubwatch {importlib.metadata.version('hubwatch')} OSV {SCHEMA_VERSION}"
_BLOCK = 1 << 20
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date a zip can hold: archives must not depend on the clock
# Several writers' clocks differ, and what one wrote first can become visible last.
_OVERLAP = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export did: advisories in the folder, files written, files removed."""

    total: int
    written: int
    removed: int


def index(modified: Mapping[str, str]) -> bytes:
    """``modified_id.csv`` from ``modified`` by id: a row a document, the newest first."""
    rows = [f"{when},{name}\n" for name, when in modified.items()]
    # without the Z, the order of such texts is the order of time, whether they have fractions or not
    fractions = any("." in when for when in modified.values())
    rows.sort(key=(lambda row: row.replace("Z", "", 1)) if fractions else None, reverse=True)
    return "".join(rows).encode("ascii")


def read_index(folder: Path) -> dict[str, str]:
    """``modified`` by id, newest first, as the folder's own index has it; empty where there is none."""
    try:
        text = (folder / ECOSYSTEM / INDEX).read_text(encoding="ascii")
        fields = text.replace("\n", ",").split(",")
        found = dict(zip(fields[1::2], fields[:-1:2], strict=True))
        datetime.fromisoformat(next(iter(found.values()), "2000-01-01"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return found


def export(database: Database, folder: Path, *, public_only: bool = False, archives: bool = True) -> ExportReport:
    """Bring ``folder`` up to date; files that are not ours are left alone.

    ``public_only`` leaves out what is not for everybody. Without ``archives`` the two zips stay as they are
    until they are asked for. Raises UsageError when the folder cannot be written.
    """
    try:
        return _export(database, folder, public_only, archives)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}", help="name a folder that this user may write in"
        ) from error


def _export(database: Database, folder: Path, public_only: bool, archives: bool) -> ExportReport:
    inner = folder / ECOSYSTEM
    inner.mkdir(parents=True, exist_ok=True)
    known = {} if archives and not _comment(folder / ARCHIVE).startswith(MAKER) else read_index(folder)
    held = {name.removesuffix(".json") for name in os.listdir(inner) if name.endswith(".json")}  # noqa: PTH208 - many
    written = 0
    with database.snapshot() as tx:
        wanted = advisories.ids(tx, public_only=public_only)
        stale = wanted - known.keys() | wanted - held
        if known:
            newest = datetime.fromisoformat(next(iter(known.values())))
            stale |= _changed(tx, newest, known) & wanted
        modified = {**known}  # in order: soon sorted
        for name in known.keys() - wanted | stale & known.keys():
            del modified[name]
        for made in documents_of(tx, advisories.by_ids(tx, advisories.by_repo(tx, stale))):
            name = made["id"]
            modified[name] = made["modified"]
            written += _put(inner / f"{name}.json", to_json(made).encode("utf-8"), new=name not in held)
    listed = index(modified)
    if archives:
        written += _archive(folder, sorted(modified), listed, changed=written > 0)
    # the indexes come last: what they name is there
    written += _put(inner / INDEX, listed)
    written += _put(folder / INDEX, listed.replace(b",", f",{ECOSYSTEM}/".encode("ascii")))
    written += _put(folder / ECOSYSTEMS, f"{ECOSYSTEM}\n".encode("ascii"))
    return ExportReport(total=len(modified), written=written, removed=_prune(inner, held - modified.keys()))


def _changed(tx: Transaction, newest: datetime, known: Mapping[str, str]) -> set[str]:
    """What is not any more as an index has it, whose newest document was modified then."""
    stamps = advisories.stamps(tx, sorted(advisories.modified_since(tx, newest - _OVERLAP)))
    moved = {name for name, modified in stamps.items() if timestamp(modified) != known.get(name)}
    return moved | advisories.rewritten(tx)


def _archive(folder: Path, names: Iterable[str], listed: bytes, *, changed: bool) -> int:
    """Bring both ``all.zip`` up to date: each document as ``<id>.json``, equal bytes for equal documents."""
    inner = folder / ECOSYSTEM
    comment = f"{MAKER} {hashlib.sha256(listed).hexdigest()[:32]}"
    outer, copy = folder / ARCHIVE, inner / ARCHIVE
    written = 0
    if changed or _comment(outer) != comment:
        with (
            _replacing(outer) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive,
        ):
            archive.comment = comment.encode("ascii")
            for name in names:
                entry = zipfile.ZipInfo(f"{name}.json", date_time=_ZIP_EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                entry.create_system = 3  # the same bytes whatever system writes them
                archive.writestr(entry, (inner / f"{name}.json").read_bytes())
        written += 1
    if written or _comment(copy) != comment:
        with _replacing(copy) as file, outer.open("rb") as made:
            shutil.copyfileobj(made, file, _BLOCK)
        written += 1
    return written


def _comment(archive: Path) -> str:
    """What an archive says of itself; empty where there is none that can be read."""
    try:
        with zipfile.ZipFile(archive) as opened:
            return opened.comment.decode("ascii", "replace")
    except (OSError, zipfile.BadZipFile):
        return ""


def _put(path: Path, content: bytes, *, new: bool = False) -> bool:
    """Write a file at once; False when it holds that already. A ``new`` one is not looked for first."""
    if not new:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size == len(content) and path.read_bytes() == content:
                return False
    with _replacing(path) as file:
        file.write(content)
    return True


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to be written that takes the place of ``path`` at the end of the block, unless that raises."""
    place = os.fspath(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".hubwatch-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            os.fchmod(file.fileno(), 0o644)
        os.replace(temporary, place)  # noqa: PTH105 - done hundreds of thousands of times: a Path takes as long
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def _prune(folder: Path, gone: Iterable[str]) -> int:
    """Remove documents of ours that the database no longer holds."""
    ours = [folder / f"{name}.json" for name in gone if name.startswith("x_HUBWATCH-")]
    for path in ours:
        path.unlink(missing_ok=True)  # another process may tidy up the same folder
    return len(ours)
