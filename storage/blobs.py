"""File contents, each kept once whatever number of repos and revisions have it, compressed.

Keys name the content (``sha256:...``, ``git:...``), so a key's content never changes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from sqlalchemy import bindparam, select

from storage.database import Transaction
from storage.errors import StorageError
from storage.rows import chunks, insert_new
from storage.tables import blobs

# Asked for at every revision: making a statement costs more than running it.
_AMONG = blobs.c.key.in_(bindparam("keys", expanding=True))
_CONTENTS = select(blobs.c.key, blobs.c.size, blobs.c.data).where(_AMONG)
_KEPT = select(blobs.c.key).where(_AMONG)


def put(tx: Transaction, key: str, data: bytes) -> None:
    """Keep a content under its key; one that is there stays."""
    put_all(tx, {key: data})


def put_all(tx: Transaction, contents: Mapping[str, bytes]) -> None:
    """Keep contents under their keys; those that are there stay."""
    rows = [{"key": key, "size": len(data), "data": zlib.compress(data, 6)} for key, data in contents.items()]
    insert_new(tx, blobs, rows)


def get(tx: Transaction, key: str) -> bytes | None:
    """The content under a key; None when it is not here. Raises StorageError when it is damaged."""
    return get_all(tx, [key]).get(key)


def get_all(tx: Transaction, keys: Iterable[str]) -> dict[str, bytes]:
    """The contents under these keys, by key, as far as they are here. Raises StorageError for a damaged one."""
    return {
        row.key: _unpacked(row.key, row.size, row.data)
        for chunk in chunks(keys)
        for row in tx.execute(_CONTENTS, {"keys": chunk})
    }


def _unpacked(key: str, size: int, packed: bytes) -> bytes:
    try:
        # ``size`` bounds what is unpacked, so that a damaged row cannot fill the memory.
        data = zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error as error:
        raise _damaged(key) from error
    if len(data) != size:
        raise _damaged(key)
    return data


def missing(tx: Transaction, keys: Iterable[str]) -> set[str]:
    """Those of the keys whose content is not here."""
    wanted = set(keys)
    for chunk in chunks(sorted(wanted)):
        wanted.difference_update(tx.scalars(_KEPT, {"keys": chunk}))
    return wanted


def _damaged(key: str) -> StorageError:
    error = StorageError(
        f"the content {key} is damaged in the database", help="restore a backup, or run hubwatch doctor"
    )
    error.retryable = False
    return error
