"""Git objects, written and read without a git process: blobs, trees, commits, and LFS pointers.

The formats are git's own (loose objects: zlib over type, size, NUL, body), so that any git reads what
is written here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

FILE_MODE = "100644"
TREE_MODE = "40000"
SUBMODULE_MODE = "160000"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
# A pointer is small; a larger blob is never read as one.
POINTER_LIMIT = 1024

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize ([0-9]{1,20})\n?\Z"
)


@dataclass(frozen=True, slots=True)
class TreeItem:
    """One line of a tree object: a file's blob or a folder's tree."""

    name: str
    mode: str
    sha: str

    @property
    def folder(self) -> bool:
        """Whether it names a tree."""
        return self.mode == TREE_MODE

    @property
    def submodule(self) -> bool:
        """Whether it names a commit of another repository, which is not here."""
        return self.mode == SUBMODULE_MODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit object, parsed. ``date`` is the committer's, in UTC; ``body`` is all after the title's line."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: str
    date: datetime
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """What an LFS pointer says: the content's sha256 and its size in bytes."""

    sha256: str
    size: int

    def encode(self) -> bytes:
        """The pointer blob, as git-lfs writes it."""
        text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n"
        return text.encode("ascii")


def parse_pointer(data: bytes) -> Pointer | None:
    """Read an LFS pointer; None when the blob is an ordinary file."""
    found = _POINTER.match(data) if len(data) <= POINTER_LIMIT else None
    return Pointer(found[1].decode("ascii"), int(found[2])) if found else None


def object_bytes(kind: str, body: bytes) -> bytes:
    """The bytes that git hashes and compresses."""
    return b"%s %d\0%s" % (kind.encode("ascii"), len(body), body)


def object_sha(kind: str, body: bytes) -> str:
    """The object's name: the sha1 of its bytes, in hex."""
    return hashlib.sha1(object_bytes(kind, body), usedforsecurity=False).hexdigest()


def encode_tree(items: Iterable[TreeItem]) -> bytes:
    """A tree object's body, in git's order: folders sort as if their name ended in a slash."""
    lines = [(_raw(item.name), item) for item in items]
    lines.sort(key=lambda line: line[0] + b"/" if line[1].folder else line[0])
    return b"".join(
        b"%s %s\0%s" % (item.mode.encode("ascii"), name, bytes.fromhex(item.sha)) for name, item in lines
    )


def parse_tree(body: bytes) -> tuple[TreeItem, ...]:
    """Read a tree object's body."""
    items = []
    at = 0
    while at < len(body):
        space = body.index(b" ", at)
        end = body.index(b"\0", space)
        name = body[space + 1 : end].decode("utf-8", "surrogateescape")
        sha = body[end + 1 : end + 21].hex()
        items.append(TreeItem(name, body[at:space].decode("ascii").lstrip("0"), sha))
        at = end + 21
    return tuple(items)


def encode_commit(
    *, tree: str, parents: Iterable[str], author: str, email: str, date: datetime, title: str, body: str
) -> bytes:
    """A commit object's body, author and committer the same. Naive dates are refused."""
    if date.tzinfo is None:
        raise ValueError("a commit date needs a timezone")
    who = f"{_person(author)} <{_person(email)}> {int(date.timestamp())} +0000"
    lines = [f"tree {tree}", *(f"parent {sha}" for sha in parents), f"author {who}", f"committer {who}"]
    text = "\n".join(lines) + f"\n\n{title}\n" + (f"\n{body}" if body else "")
    return _raw(text)


def parse_commit(sha: str, data: bytes) -> Commit:
    """Read a commit object's body; bytes that are not UTF-8 become replacement characters."""
    head, _, message = data.partition(b"\n\n")
    fields: Mapping[str, list[str]] = {"tree": [], "parent": [], "author": [], "committer": []}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        fields.get(key.decode("latin-1"), []).append(value.decode("utf-8", "replace"))
    stamp = int(fields["committer"][0].rsplit(" ", 2)[1])
    title, _, body = message.decode("utf-8", "replace").partition("\n")
    return Commit(
        sha=sha,
        tree=fields["tree"][0],
        parents=tuple(fields["parent"]),
        author=fields["author"][0].rpartition(" <")[0],
        date=_moment(stamp),
        title=title,
        body=body,
    )


def _moment(stamp: int) -> datetime:
    """A commit's date; 1970 for one that no calendar holds."""
    try:
        return datetime.fromtimestamp(max(0, stamp), UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _raw(text: str) -> bytes:
    """UTF-8; bytes smuggled in as surrogates come out as they were, so that tests can write bad names."""
    return text.encode("utf-8", "surrogateescape")


def _person(text: str) -> str:
    # git itself drops these from names: they delimit the field
    return re.sub(r"[<>\n\0]", "", text).strip() or "unknown"
