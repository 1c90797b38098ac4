"""Objects of a repository, read through `git cat-file` and parsed here: commits, trees, LFS pointers.

What git's own commands print depends on encodings, dates and names that anybody may have written; the objects'
bytes do not. Parsed leniently where a value is its author's claim (names, dates), strictly where it is structure.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from tracker.descriptors import readable
from tracker.hub import fields
from tracker.hub.errors import GitUnavailable, TooLarge
from tracker.hub.git import HELP, Git

COMMIT_LIMIT = 4 * 1024 * 1024
"""Bytes of one commit object: a message of millions of characters is read by nobody."""
TREE_LIMIT = 64 * 1024 * 1024
POINTER_LIMIT = 1_024
"""Bytes of an LFS pointer (git-lfs specification: less than 1,024)."""
MAX_VISITED = 400_000
"""Names looked at for one revision, folders included: trees that hold each other many times have no end."""
KEPT_NAMES = 500_000
"""Names of trees that are kept parsed."""
_LINE = 65_536
_PIPE = 65_536
"""Bytes read at a time: a pipe holds no more, and making room for many takes longer than reading few."""

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize ([0-9]{1,20})\n?"
)
_POINTER_START = b"version https://git-lfs.github.com/spec/"
_STAMP = re.compile(rb">\s*(\d{1,20})(?:\s|$)")
_HEADER = re.compile(rb"([0-9a-f]{40}) (blob|tree|commit|tag) (\d{1,19})\n")
_OID = re.compile(rb"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit. ``identity`` is its author line without the date: for comparing within one reading, never kept."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    identity: bytes
    author: str
    title: str
    committed_at: datetime


class TreeItem(NamedTuple):
    """One name of a tree: a folder, a submodule (a commit elsewhere), or a file, symbolic links included."""

    name: bytes
    folder: bool
    submodule: bool
    oid: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """What stands in git for a file that is kept in LFS."""

    sha256: str
    size: int


def parse_commit(sha: str, data: bytes) -> Commit:
    """Read a commit object. Raises GitUnavailable when it names no tree.

    The date is the committer's, as everywhere where history is listed; one out of range stands as 1970. The title
    is the first line of the message; texts are read as UTF-8.
    """
    head, _, message = data.partition(b"\n\n")
    values: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        values.setdefault(key, []).append(value)
    trees, parents = values.get(b"tree", []), values.get(b"parent", [])
    if len(trees) != 1 or not all(_OID.fullmatch(oid) for oid in (*trees, *parents)):
        raise GitUnavailable(f"{sha[:12]} is not a commit", reason="corrupt", help=HELP)
    identity, angle, _ = values.get(b"author", [b""])[0].rpartition(b">")
    name = identity.rpartition(b" <")[0]
    stamp = _STAMP.search(values.get(b"committer", [b""])[0])
    title = message[: 8 * fields.TITLE_LIMIT].partition(b"\n")[0]
    return Commit(
        sha=sha,
        tree=trees[0].decode("ascii"),
        parents=tuple(oid.decode("ascii") for oid in parents),
        identity=identity + angle,
        author=fields.authors([{"user": name.decode("utf-8", "replace")}]),
        title=fields.text(title.decode("utf-8", "replace"), fields.TITLE_LIMIT),
        committed_at=_moment(int(stamp[1])) if stamp else fields.EPOCH,
    )


def _moment(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return fields.EPOCH


def parse_tree(data: bytes) -> tuple[TreeItem, ...]:
    """Read a tree object. Raises GitUnavailable when it is none."""
    items: list[TreeItem] = []
    at = 0
    while at < len(data):
        space, end = data.find(b" ", at), data.find(b"\0", at)
        mode, name, oid = data[at:space], data[space + 1 : end], data[end + 1 : end + 21]
        if not at < space < end or len(oid) != 20 or not name or not re.fullmatch(rb"[0-7]{5,7}", mode):
            raise GitUnavailable("a tree makes no sense", reason="corrupt", help=HELP)
        kind = int(mode, 8) & 0o170000
        items.append(TreeItem(name, kind == 0o040000, kind == 0o160000, oid.hex()))
        at = end + 21
    return tuple(items)


def parse_pointer(data: bytes) -> Pointer | None:
    """Read an LFS pointer; None for a file of any other kind.

    Raises:
        GitUnavailable: It says that it is a pointer, in a form which the Hub may or may not take for one.

    """
    if len(data) > POINTER_LIMIT or not data.startswith(_POINTER_START):
        return None
    found = _POINTER.fullmatch(data)
    size = int(found[2]) if found else 0
    if found is None or size > fields.MAX_SIZE:
        raise GitUnavailable("an LFS pointer of another form", reason="not_served", help=HELP)
    return Pointer(found[1].decode("ascii"), size)


@dataclass(slots=True)
class Objects:
    """The objects that are in a repository. One question at a time: a reading belongs to one thread."""

    git: Git
    _process: subprocess.Popen[bytes] | None = None
    _rest: bytearray = field(default_factory=bytearray)
    _trees: OrderedDict[str, tuple[TreeItem, ...]] = field(default_factory=OrderedDict)
    _names: int = 0

    def sizes(self, oids: Iterable[str]) -> Mapping[str, int]:
        """The sizes in bytes of those of these blobs that are here."""
        asked = "".join(f"{oid}\n" for oid in oids).encode("ascii")
        said = self.git.local("cat-file", "--batch-check", stdin=asked) if asked else b""
        found = (_HEADER.fullmatch(line) for line in said.splitlines(keepends=True))
        return {item[1].decode("ascii"): int(item[3]) for item in found if item and item[2] == b"blob"}

    def read(self, oid: str, kind: str, limit: int) -> bytes:
        """The bytes of an object. Raises GitUnavailable when it is not here, is another kind, or is larger."""
        process = self._process = self._process or self.git.start("cat-file", "--batch")
        try:
            return self._answer(process, oid, kind, limit)
        except OSError:
            self.close()
            raise GitUnavailable("git ended in the middle", reason="failed", help=HELP) from None
        except GitUnavailable:
            self.close()
            raise

    def _answer(self, process: subprocess.Popen[bytes], oid: str, kind: str, limit: int) -> bytes:
        until = time.monotonic() + self.git.limits.object_s
        if process.stdin is None:
            raise GitUnavailable("git reads nothing", reason="failed", help=HELP)
        process.stdin.write(oid.encode("ascii") + b"\n")
        process.stdin.flush()
        found = _HEADER.fullmatch(self._line(process, until))
        if found is None or (found[1].decode("ascii"), found[2].decode("ascii")) != (oid, kind):
            raise GitUnavailable(f"{kind} {oid[:12]} is not there", reason="corrupt", help=HELP)
        size = int(found[3])
        if size > limit:
            raise GitUnavailable(f"{kind} {oid[:12]} has {size} bytes", reason="too_large", help=HELP)
        return self._take(process, size + 1, until)[:size]

    def commit(self, sha: str) -> Commit:
        """A commit."""
        return parse_commit(sha, self.read(sha, "commit", COMMIT_LIMIT))

    def tree(self, oid: str) -> tuple[TreeItem, ...]:
        """The names of one tree; the ones used last are kept."""
        if (kept := self._trees.get(oid)) is not None:
            self._trees.move_to_end(oid)
            return kept
        items = self._trees[oid] = parse_tree(self.read(oid, "tree", TREE_LIMIT))
        self._names += len(items)
        while self._names > KEPT_NAMES and len(self._trees) > 1:
            self._names -= len(self._trees.popitem(last=False)[1])
        return items

    def files(self, tree: str, *, most: int, seen: set[str] | None = None) -> Iterator[tuple[bytes, str]]:
        """Paths and blob ids below a tree; folders and submodules are no files.

        Args:
            tree: The tree's id.
            most: Files after which there is an end.
            seen: Trees that are passed over; those that are looked at are added.

        Raises:
            TooLarge: There are more than ``most`` files.
            GitUnavailable: There are too many folders, or an object is bad.

        """
        waiting = [(b"", tree)]
        visited = count = 0
        while waiting:
            prefix, oid = waiting.pop()
            if seen is not None:
                if oid in seen:
                    continue
                seen.add(oid)
            for item in self.tree(oid):
                visited += 1
                if item.folder:
                    waiting.append((prefix + item.name + b"/", item.oid))
                elif not item.submodule:
                    count += 1
                    yield prefix + item.name, item.oid
            if count > most:
                raise TooLarge(f"more than {most} files", help="repos of this size are not read; remove the watch")
            if visited > MAX_VISITED or len(prefix) > _LINE:
                raise GitUnavailable("folders without end", reason="too_large", help=HELP)

    def close(self) -> None:
        """End the process behind this."""
        process, self._process = self._process, None
        self._rest.clear()
        if process is not None:
            self.git.end(process)

    def _line(self, process: subprocess.Popen[bytes], until: float) -> bytes:
        while (end := self._rest.find(b"\n")) < 0:
            if len(self._rest) > _LINE:
                raise GitUnavailable("git says what it should not", reason="failed", help=HELP)
            self._more(process, until)
        line = bytes(self._rest[: end + 1])
        del self._rest[: end + 1]
        return line

    def _take(self, process: subprocess.Popen[bytes], size: int, until: float) -> bytes:
        while len(self._rest) < size:
            self._more(process, until)
        data = bytes(self._rest[:size])
        del self._rest[:size]
        return data

    def _more(self, process: subprocess.Popen[bytes], until: float) -> None:
        if process.stdout is None:
            raise GitUnavailable("git says nothing", reason="failed", help=HELP)
        descriptor = process.stdout.fileno()
        if not readable(descriptor, until - time.monotonic()):
            raise GitUnavailable("git took too long to read an object", reason="timed_out", help=HELP)
        piece = os.read(descriptor, _PIPE)
        if not piece:
            raise GitUnavailable("git ended in the middle", reason="corrupt", help=HELP)
        self._rest += piece
