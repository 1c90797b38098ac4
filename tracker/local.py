"""A folder of model files as a snapshot: what `hubwatch estimate PATH` looks at. The one reader of local files."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from storage.errors import UsageError
from storage.model import FileEntry, Manifest, Revision, Snapshot
from tracker.snapshot.build import Parser, Unread
from tracker.snapshot.kinds import SAFETENSORS_HEADER_LIMIT, cap_of, kind_of

MOST_FILES = 5000


def _stand_in(name: str) -> str:
    """Something in place of a blob id: one for each name, for these files are read where they lie."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def read_folder(path: Path) -> Snapshot:
    """Parse the model files in a folder (not below it), or one config file under any name.

    Weight files are read by their headers alone. Raises UsageError when the path cannot be read.
    """
    try:
        if path.is_dir():
            files = {item.name: item for item in sorted(path.iterdir())[:MOST_FILES] if item.is_file()}
        else:
            files = {"config.json": path}
        sizes = {name: item.stat().st_size for name, item in files.items()}
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", help="name a folder with a config.json"
        ) from None
    entries = {name: FileEntry(path=name, size=size, blob_id=_stand_in(name)) for name, size in sizes.items()}
    by_key = {entry.content_key: files[name] for name, entry in entries.items()}

    def load(key: str) -> bytes | Unread:
        header = key.startswith("header:")
        item = by_key[key.removeprefix("header:")]
        kind = kind_of("config.json" if not path.is_dir() else item.name)
        limit = SAFETENSORS_HEADER_LIMIT + 8 if header or kind is None else cap_of(kind)
        try:
            with item.open("rb") as stream:
                if not header:
                    return stream.read(limit)
                start = stream.read(8)
                length = int.from_bytes(start, "little") if item.suffix == ".safetensors" else limit
                return start + stream.read(min(length, limit))
        except OSError as error:
            return Unread("fetch", str(error.strerror))

    nowhere = Revision(sha="0" * 40, committed_at=datetime.fromtimestamp(0, UTC), author="", title="local files")
    return Parser().build(nowhere, Manifest(files=entries), load=load)
