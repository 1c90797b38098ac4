"""The OSV bulk files that are served: an export folder for everybody and one for those with a token.

They are brought up to date when somebody asks and something has changed since; what is asked for in between
is read from the folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
import threading
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path

import google_crc32c
import platformdirs

from advisories.export import ARCHIVE, INDEX, MAKER, export, read_index
from storage import advisories
from storage.database import Database
from tracker.settings import Settings


@dataclass(slots=True)
class _Folder:
    """One audience's files, and of which state of the database they are."""

    path: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    listed: str | None = None
    archived: str | None = None
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkFile:
    """A file to be served, and when the newest document in it was modified."""

    path: Path
    modified: str | None
    checksum: str = ""


class Bulk:
    """Keeps the folders. Shared by threads."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._database = database
        root = cache_folder(settings, database)
        self._folders = {public: _Folder(root / name) for public, name in ((True, "public"), (False, "all"))}

    def file(self, name: str, *, public_only: bool) -> BulkFile:
        """One of the files of the layout, as the database is now; archives come with their CRC-32C."""
        folder = self._folders[public_only]
        archives = name.endswith(ARCHIVE)
        with self._database.snapshot() as tx:
            wanted = advisories.fingerprint(tx)
        with folder.lock:
            if folder.listed != wanted or (archives and folder.archived != wanted):
                folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
                export(self._database, folder.path, public_only=public_only, archives=archives)
                folder.listed = wanted
                if archives:
                    folder.archived, folder.checksum = wanted, _crc32c(folder.path / ARCHIVE)
            newest = _newest(folder.path / INDEX)
            return BulkFile(path=folder.path / name, modified=newest, checksum=folder.checksum if archives else "")

    def listing(self, *, public_only: bool) -> tuple[bytes, str | None]:
        """``[{id, modified}]``, newest first, as JSON; and when the newest was modified."""
        found = self.file(INDEX, public_only=public_only)
        rows = read_index(found.path.parent)
        made = [{"id": name, "modified": modified} for name, modified in rows.items()]
        return json.dumps(made, separators=(",", ":")).encode("ascii"), found.modified


def cache_folder(settings: Settings, database: Database) -> Path:
    """Where the files are kept: as set, else beside an SQLite file, else in the user's cache folder.

    A folder belongs to one database and one version of the documents.
    """
    key = hashlib.sha256(f"{MAKER}\n{database.place}".encode()).hexdigest()[:12]
    if settings.web.cache is not None:
        return settings.web.cache / f"osv-{key}"
    if database.is_sqlite:
        beside = Path(database.place)
        return beside.with_name(f"{beside.name}.osv") / key
    root = Path(platformdirs.user_cache_dir("hubwatch", appauthor=False))
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # a container without a home: kept for as long as it runs
        root = Path(tempfile.mkdtemp(prefix="hubwatch-"))
    return root / f"osv-{key}"


def http_date(modified: str) -> str:
    """An OSV time as an HTTP date."""
    return format_datetime(datetime.fromisoformat(modified), usegmt=True)


def _newest(index: Path) -> str | None:
    with index.open("rb") as file:
        first = file.readline(200).decode("ascii")
    return first.partition(",")[0] or None


def _crc32c(path: Path) -> str:
    """CRC-32C (RFC 3720), big-endian, in base64, as object stores send it."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = google_crc32c.extend(checksum, block)
    return base64.b64encode(checksum.to_bytes(4, "big")).decode("ascii")
