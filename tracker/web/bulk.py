"""The OSV bulk files that are served: an export folder for everybody and one for those with a token.

They are brought up to date when somebody asks and something has changed since; what is asked for in between
is read from the folder. Who asks waits a little. What takes longer goes on without them: they get the files as
they were, or are told to come again where there are none yet.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path

import google_crc32c
import platformdirs
import structlog

from advisories.export import ARCHIVE, INDEX, MAKER, export, read_index
from advisories.export_apart import export_apart
from storage import advisories, visibility
from storage.database import Database
from storage.errors import HubwatchError, StorageError, UsageError
from tracker.settings import Settings
from tracker.web.problems import Refused

PATIENCE = 10.0
"""Seconds that a request waits for files to be brought up to date."""
MOST_WAITING = 4
"""Requests that wait at once: each takes a thread from those that answer everybody."""
APART = 5000
"""From so many advisories on, files are made in another process: it must not slow down what is answered."""
_RETRY_SECONDS = 30

log = structlog.get_logger("hubwatch.web")


class NotYet(Refused):
    """Files that are still being made for the first time."""

    code = "not_yet"
    status = 503
    retryable = True


@dataclass(slots=True)
class _Folder:
    """One audience's files, and of which state of the database they are."""

    path: Path
    public_only: bool
    lock: threading.Lock = field(default_factory=threading.Lock)
    building: Future[None] | None = None
    listed: str | None = None
    archived: str | None = None
    hidden: str | None = None  # which repos were left out
    checked: tuple[object, str] = (None, "")  # an archive as a file, and its checksum

    def is_at(self, state: str, *, archives: bool) -> bool:
        """Whether the files are of this state of the database."""
        return self.listed == state and (not archives or self.archived == state)


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkFile:
    """A file to be served, and when the newest document in it was modified."""

    path: Path
    modified: str | None
    checksum: str = ""


class Bulk:
    """Keeps the folders. Shared by threads."""

    def __init__(
        self, settings: Settings, database: Database, *, patience: float = PATIENCE, apart: int = APART
    ) -> None:
        self._database = database
        self._patience = patience
        self._apart = apart
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)
        root = cache_folder(settings, database)
        self._folders = {
            public: _Folder(root / name, public) for public, name in ((True, "public"), (False, "all"))
        }

    def file(self, name: str, *, public_only: bool) -> BulkFile:
        """One of the files of the layout; archives come with their CRC-32C.

        It is as the database is now, or as it was a while ago when that takes long. Raises NotYet where there is
        none so far, UsageError when the folder cannot be written.
        """
        folder = self._folders[public_only]
        archives = name.endswith(ARCHIVE)
        with self._database.snapshot() as tx:
            wanted, hidden = advisories.fingerprint(tx), visibility.fingerprint(tx)
        until = time.monotonic() + self._patience
        for _ in range(2):  # what is under way may be older than this request; what begins now is not
            if folder.is_at(wanted, archives=archives) or not self._made(folder, until, archives=archives):
                break
        path = folder.path / name
        # older files are good enough, unless they tell everybody what is not for everybody any more
        if not path.exists() or (public_only and folder.hidden != hidden):
            raise NotYet(
                "these files are being made",
                help="come again; single advisories are served meanwhile: /osv/GIT/<id>.json, /v1/query",
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )
        checksum = _checksum(folder) if archives else ""
        return BulkFile(path=path, modified=_newest(folder.path / INDEX), checksum=checksum)

    def listing(self, *, public_only: bool) -> tuple[bytes, str | None]:
        """``[{id, modified}]``, newest first, as JSON; and when the newest was modified."""
        found = self.file(INDEX, public_only=public_only)
        rows = read_index(found.path.parent)
        made = [{"id": name, "modified": modified} for name, modified in rows.items()]
        return json.dumps(made, separators=(",", ":")).encode("ascii"), found.modified

    def _made(self, folder: _Folder, until: float, *, archives: bool) -> bool:
        """Bring the files up to date, or wait for that; False when it takes too long, or too many wait already."""
        with folder.lock:
            if folder.building is None or folder.building.done():
                folder.building = Future()
                # a daemon thread: whoever stops the process does not wait for an archive
                threading.Thread(
                    target=self._make, args=(folder, folder.building, archives), name="osv-bulk", daemon=True
                ).start()
            building = folder.building
        if not building.done() and self._waiting.acquire(blocking=False):
            try:
                wait([building], max(until - time.monotonic(), 0))
            finally:
                self._waiting.release()
        if not building.done():
            return False
        building.result()
        return True

    def _make(self, folder: _Folder, building: Future[None], archives: bool) -> None:
        """Bring the files up to date; whatever comes of it is the outcome of ``building``."""
        try:
            with self._database.snapshot() as tx:
                state, hidden = advisories.fingerprint(tx), visibility.fingerprint(tx)
                many = len(advisories.ids(tx)) >= self._apart
            folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            make = export_apart if many else export
            make(self._database, folder.path, public_only=folder.public_only, archives=archives)
            folder.listed, folder.hidden = state, hidden
            folder.archived = state if archives else folder.archived
            building.set_result(None)
        except HubwatchError as error:
            log.warning("bulk files not made", error=error.message)
            building.set_exception(error)
        except OSError as error:
            building.set_exception(
                UsageError(f"cannot write to {folder.path}: {error.strerror}", help="set web.cache")
            )
        finally:
            if not building.done():  # a mistake of ours, which the thread's end tells
                building.set_exception(StorageError("the bulk files could not be made", help="see the log"))


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


def _checksum(folder: _Folder) -> str:
    """The checksum of the archive that is there, worked out once for each."""
    path = folder.path / ARCHIVE
    found = path.stat()
    name = (found.st_ino, found.st_mtime_ns, found.st_size)
    with folder.lock:
        known, checksum = folder.checked
    if known != name:
        checksum = _crc32c(path)
        with folder.lock:
            folder.checked = name, checksum
    return checksum


def _crc32c(path: Path) -> str:
    """CRC-32C (RFC 3720), big-endian, in base64, as object stores send it."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = google_crc32c.extend(checksum, block)
    return base64.b64encode(checksum.to_bytes(4, "big")).decode("ascii")
