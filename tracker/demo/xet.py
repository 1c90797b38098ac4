"""Xet hashes: a third name for an LFS file's content, which only has to differ from the other two."""

from __future__ import annotations

import hashlib


def xet_hash(sha256: str) -> str:
    """A stand-in for the Xet hash of a content; the real one needs all the bytes."""
    return hashlib.sha256(f"xet:{sha256}".encode("ascii")).hexdigest()
