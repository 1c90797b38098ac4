"""The objects of one bare repository: written as git writes them, read from disk once and kept parsed."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path

from tracker.demo.catfile import CatFile
from tracker.demo.files import LargeFile
from tracker.demo.objects import (
    EMPTY_TREE,
    Commit,
    Pointer,
    TreeItem,
    object_bytes,
    object_sha,
    parse_commit,
    parse_pointer,
    parse_tree,
)


class ObjectStore:
    """Blobs, trees, commits, and the first bytes of LFS files, which lie under ``lfs/`` in the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._kinds: dict[str, tuple[str, int]] = {}  # sha -> type, size
        self._trees: dict[str, tuple[TreeItem, ...]] = {EMPTY_TREE: ()}
        self._commits: dict[str, Commit] = {}
        self._pointers: dict[str, Pointer | None] = {}
        self._packed = CatFile(path)

    def add(self, content: bytes | str | LargeFile) -> str:
        """Keep a file's content (an LFS file as its pointer) and return the blob's sha."""
        if isinstance(content, LargeFile):
            head = self._lfs(content.sha256)
            if not head.is_file():
                head.parent.mkdir(parents=True, exist_ok=True)
                head.write_bytes(content.header)
            return self.write("blob", content.pointer.encode())
        return self.write("blob", content.encode("utf-8") if isinstance(content, str) else content)

    def write(self, kind: str, body: bytes) -> str:
        """Keep an object and return its sha."""
        sha = object_sha(kind, body)
        with self._lock:
            if self.info(sha) is None:
                target = self._loose(sha)
                target.parent.mkdir(exist_ok=True)
                fresh = target.with_suffix(".new")
                fresh.write_bytes(zlib.compress(object_bytes(kind, body), 1))
                fresh.replace(target)
                self._kinds[sha] = (kind, len(body))
        return sha

    def commit_info(self, sha: str) -> Commit:
        """A commit, parsed. KeyError when there is no such commit."""
        if sha not in self._commits:
            self._commits[sha] = parse_commit(sha, self._read(sha, "commit"))
        return self._commits[sha]

    def tree(self, sha: str) -> tuple[TreeItem, ...]:
        """The items of a tree object."""
        if sha not in self._trees:
            self._trees[sha] = parse_tree(self._read(sha, "tree"))
        return self._trees[sha]

    def blob(self, sha: str) -> bytes:
        """A blob's bytes; KeyError when there is none."""
        return self._read(sha, "blob")

    def info(self, sha: str) -> tuple[str, int] | None:
        """An object's type and size, None when it is not here."""
        if sha not in self._kinds:
            try:
                self._read(sha, None)
            except KeyError:
                return None
        return self._kinds[sha]

    def peeled(self, sha: str) -> str:
        """What an annotated tag names in the end; the sha itself for anything else."""
        found = self.info(sha)
        while found and found[0] == "tag":
            sha = self._read(sha, "tag").split(b"\n")[0].removeprefix(b"object ").decode("ascii")
            found = self.info(sha)
        return sha

    def pointer(self, sha: str) -> Pointer | None:
        """What a blob says as an LFS pointer; None for an ordinary file."""
        if sha not in self._pointers:
            found = self.info(sha)
            small = found is not None and found[0] == "blob" and found[1] <= 200
            self._pointers[sha] = parse_pointer(self.blob(sha)) if small else None
        return self._pointers[sha]

    def head_bytes(self, sha256: str) -> bytes:
        """The stored first bytes of an LFS file (the rest is zeros); KeyError when it was never added."""
        try:
            return self._lfs(sha256).read_bytes()
        except FileNotFoundError:
            raise KeyError(sha256) from None

    def forget(self) -> None:
        """Drop what was cached, after objects were pruned or packed by git."""
        with self._lock:
            for cache in (self._kinds, self._commits, self._pointers):
                cache.clear()
            self._trees = {EMPTY_TREE: ()}
            self._packed.close()

    def close(self) -> None:
        """End the reader of packed objects, if one was needed."""
        self._packed.close()

    def _read(self, sha: str, kind: str | None) -> bytes:
        try:
            raw = zlib.decompress(self._loose(sha).read_bytes())
        except FileNotFoundError:
            found, body = self._packed.read(sha)
        else:
            head, _, body = raw.partition(b"\0")
            found = head.split(b" ")[0].decode("ascii")
        self._kinds[sha] = (found, len(body))
        if kind not in {None, found}:
            raise KeyError(sha)
        return body

    def _loose(self, sha: str) -> Path:
        return self.path / "objects" / sha[:2] / sha[2:]

    def _lfs(self, sha256: str) -> Path:
        return self.path / "lfs" / sha256[:2] / sha256
