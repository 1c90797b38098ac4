"""What the tracker asks of an upstream: one interface, spoken by the API reader and the git reader.

All methods do network I/O under an overall deadline, never sleep on the Hub's behalf, and raise only
`tracker.hub.errors.HubError` and its children.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from storage.model import FileEntry, Head, Manifest, RepoRef, Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The new revisions of a ref, oldest first, and where the walk met what was known.

    ``met`` is the first already known sha reached going back from the head: the predecessor of
    ``revisions[0]``. None when the walk came to the root, or to the horizon set by ``since``.
    ``horizon`` says that older commits exist which were not read.
    """

    revisions: tuple[Revision, ...]
    met: str | None
    horizon: bool = False


class Files(Protocol):
    """What tells a revision's files: an `Upstream`, or one history that is being read. See there."""

    def manifest(self, repo: RepoRef, revision: str) -> Manifest:
        """See `Upstream.manifest`."""
        ...

    def content(self, repo: RepoRef, revision: str, entry: FileEntry) -> bytes:
        """See `Upstream.content`."""
        ...

    def header(self, repo: RepoRef, revision: str, entry: FileEntry, *, limit: int) -> bytes:
        """See `Upstream.header`."""
        ...

    def part(self, repo: RepoRef, revision: str, entry: FileEntry, *, start: int, stop: int) -> bytes:
        """See `Upstream.part`."""
        ...


class Upstream(Protocol):
    """A source of repos."""

    def head(self, repo: RepoRef, *, ref: str = "main", paths: bool = False) -> Head:
        """Answer the cheap question in one request (two when the repo moved to another name).

        ``paths`` wishes for the names of the files, too, where they are few.

        Every state a repo can be in is an answer, not an error; RateLimited, Unreachable and
        UpstreamFault are errors.
        """
        ...

    def peek(self, repo: RepoRef, *, ref: str = "main") -> str | None:
        """Where a ref stands, asked in one request that draws on another quota than `head`.

        None whenever the answer is anything but a plain commit: then only `head` says what there is to know.
        """
        ...

    def walk(
        self,
        repo: RepoRef,
        *,
        head: str,
        known: Callable[[str], bool],
        since: datetime | None = None,
        only_head: bool = False,
    ) -> Walk:
        """List commits from ``head`` back to the first known one.

        With ``since``, back to the newest commit made before it (which is included, as the horizon);
        with ``only_head``, the head alone.
        """
        ...

    def manifest(self, repo: RepoRef, revision: str) -> Manifest:
        """Every file of a revision, all pages."""
        ...

    def content(self, repo: RepoRef, revision: str, entry: FileEntry) -> bytes:
        """The whole content of a small file, verified against its blob id or sha256.

        The caller has checked ``entry.size``; more bytes than that raise Corrupt.
        """
        ...

    def header(self, repo: RepoRef, revision: str, entry: FileEntry, *, limit: int) -> bytes:
        """The header of a safetensors or GGUF file by range, never the tensors.

        For safetensors: the 8 length bytes and exactly the header they announce (TooLarge above
        ``limit``, Corrupt when the length exceeds the file). For any other file: the first
        ``min(limit, size)`` bytes.
        """
        ...

    def part(self, repo: RepoRef, revision: str, entry: FileEntry, *, start: int, stop: int) -> bytes:
        """The bytes of a file from ``start`` up to, without, ``stop``, by one range: exactly so many.

        The caller keeps both within ``entry.size``; other bytes raise Corrupt.
        """
        ...

    def refs(self, repo: RepoRef) -> dict[str, str]:
        """Branches, tags and pull-request refs by full name (``refs/heads/main``), with the shas they name."""
        ...

    def token_is_good(self) -> bool | None:
        """Whether our token is accepted (whoami); None when we have none."""
        ...


class Listing(Protocol):
    """What answers for many repos at once."""

    def listing(self, owner: str, *, max_pages: int | None = None) -> list[Head]:
        """The models of an owner, those changed last first, at most so many pages (default: all).

        What is missing from it proves nothing.
        """
        ...
