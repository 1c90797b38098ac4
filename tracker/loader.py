"""Snapshots of revisions: read from the upstream once, or built again from what storage holds.

Every blob is asked for at most once, ever: what was fetched is kept by its content key before the revision
that needed it is judged, so that a crash in between costs nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from storage import blobs, history
from storage.database import Database, Transaction
from storage.errors import NotFound
from storage.model import (
    Document,
    FileEntry,
    Gap,
    Manifest,
    PickleFile,
    RepoRef,
    Revision,
    Snapshot,
    TensorFile,
)
from tracker.hub.errors import Corrupt, FileGone, TooLarge
from tracker.hub.interface import Files, Upstream
from tracker.snapshot.build import Parser, Unread, Wanted, carry, header_key, parts_key, parts_of, wanted
from tracker.snapshot.kinds import header_limit

Fetch = Callable[[RepoRef, str, FileEntry], bytes]

NOT_KEPT = "not_kept"
"""The reason of a gap whose content was read once and is not kept any more."""

_BATCH_BYTES = 4 << 20
_BATCH_FILES = 200
_WAITING_BYTES = 1 << 20
"""What was fetched and is not written yet takes at most so much, or is one file."""
_NOWHERE = Revision(sha="0" * 40, committed_at=datetime.fromtimestamp(0, UTC), author="", title="")


class NotKept(NotFound):
    """Contents of a revision were read once and are not kept any more."""

    code = NOT_KEPT

    def __init__(self, repo: RepoRef, sha: str, paths: Sequence[str]) -> None:
        named = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        super().__init__(
            f"contents of {repo.id} at {sha[:10]} are not kept any more ({named})",
            help=f"what changed there is told by: hubwatch history {repo.id}",
        )
        self.paths = tuple(paths)


@dataclass(slots=True)
class Loader:
    """Makes snapshots. Shared by threads; the parser's cache is the only state."""

    upstream: Upstream
    database: Database
    parser: Parser

    def fetch(
        self,
        source: RepoRef,
        revision: Revision,
        previous: Snapshot | None,
        files: Files | None = None,
        *,
        patient: bool = False,
    ) -> Snapshot:
        """Read a revision from the upstream, or from ``files``, only what is not held yet.

        Raises HubError for what may be better later; a file that is gone, lies about its length or does
        not match its hash becomes a gap. One that may be good at the next try raises, too, where the caller is
        ``patient``, unless it was a gap of the revision before already.
        """
        files = files or self.upstream
        manifest = files.manifest(source, revision.sha)
        given_up = None if not patient else _gaps_of(previous)
        fresh = _Fresh()
        failed = self._fetch_missing(
            files, source, revision, _unlike(wanted(manifest), previous), given_up, fresh=fresh
        )
        return self._build(revision, manifest, previous, failed, fresh)

    def some(self, source: RepoRef, revision: Revision, manifest: Manifest, paths: Iterable[str]) -> Snapshot:
        """Read only these paths of a tree, and only what is not held yet. Raises as `fetch`."""
        part = Manifest(files={path: manifest.files[path] for path in paths if path in manifest.files})
        failed = self._fetch_missing(self.upstream, source, revision, wanted(part))
        return self._build(revision, part, None, failed)

    def stored(self, repo: RepoRef, sha: str, *, source: RepoRef | None = None, partial: bool = False) -> Snapshot:
        """Build the snapshot of a landed revision again, gaps and stand-ins included.

        Contents of old revisions may not be kept any more (`storage.retention`). With ``source``, the name to
        ask the upstream by, they are read again, which raises as `fetch`; with ``partial`` they are gaps of
        reason ``not_kept``. Else NotFound names them.
        """
        with self.database.snapshot() as tx:
            revision = history.get(tx, repo, sha).revision
            manifest = history.manifest(tx, repo, sha)
            gaps = history.gaps(tx, repo, sha)
            stand_ins = self._stand_ins(tx, repo, gaps)
        failed = {gap.path: Unread(gap.reason, gap.detail) for gap in gaps}
        failed |= self._complete(repo, revision, manifest, failed, source=source, partial=partial)
        previous = None
        if stand_ins:
            older = Manifest(files={path: entry for path, (_, entry) in stand_ins.items()})
            lost: dict[str, Unread] = {}
            for path, (at, entry) in stand_ins.items():
                alone = Manifest(files={path: entry})
                lost |= self._complete(repo, at, alone, {}, source=source, partial=partial)
            previous = self._build(revision, older, None, lost)
        return self._build(revision, manifest, previous, failed)

    def replayed(
        self, repo: RepoRef, sha: str, previous: Snapshot | None, *, source: RepoRef | None = None
    ) -> Snapshot:
        """A landed revision as `fetch` would read it today, after ``previous``.

        What could not be fetched at its time is a gap as it was; what could not be parsed is tried again. As
        for `stored`, ``source`` says where contents are read that are not kept; else NotFound names them.
        """
        with self.database.snapshot() as tx:
            revision = history.get(tx, repo, sha).revision
            manifest = history.manifest(tx, repo, sha)
            gaps = history.gaps(tx, repo, sha)
            absent = _absent(tx, wanted(manifest))
        failed = {gap.path: Unread(gap.reason, gap.detail) for gap in gaps if gap.path in absent}
        failed |= self._complete(repo, revision, manifest, failed, source=source, partial=False)
        return self._build(revision, manifest, previous, failed)

    def _complete(
        self,
        repo: RepoRef,
        revision: Revision,
        manifest: Manifest,
        failed: Mapping[str, Unread],
        *,
        source: RepoRef | None,
        partial: bool,
    ) -> dict[str, Unread]:
        """See to the contents that are not here, but for those of ``failed``; by path, what stays unread."""
        want = wanted(manifest)
        with self.database.snapshot() as tx:
            absent = _absent(tx, want) - set(failed)
        if not absent:
            return {}
        if source is not None:
            return self._fetch_missing(self.upstream, source, revision, _only(want, absent))
        # parts that are not here may never have been: a file that nobody looked into is no gap
        lost = sorted(absent - {entry.path for entry in want.pickles})
        if lost and not partial:
            raise NotKept(repo, revision.sha, lost)
        return {path: Unread(NOT_KEPT, "its content is not kept any more") for path in lost}

    def document(self, entry: FileEntry) -> Document | None:
        """One file as a document, from storage; None when it is not held or cannot be parsed."""
        return next(self.documents([entry]))

    def documents(self, entries: Iterable[FileEntry]) -> Iterator[Document | None]:
        """Files as documents, in their order, read from storage a few megabytes at a time; see `document`."""
        for batch in _batches(entries):
            with self.database.snapshot() as tx:
                held = blobs.get_all(tx, {entry.content_key for entry in batch})
            for entry in batch:
                alone = Manifest(files={entry.path: entry})
                built = self.parser.build(_NOWHERE, alone, load=partial(_from, held))
                yield built.documents.get(entry.path)

    def absent(self, manifest: Manifest) -> Wanted:
        """What `fetch` will read of a tree because it is not held."""
        want = wanted(manifest)
        with self.database.snapshot() as tx:
            return _only(want, _absent(tx, want))

    def keep(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Keep contents by their keys."""
        for key, data in contents:
            with self.database.transaction() as tx:
                blobs.put(tx, key, data)

    def keeps(self, entry: FileEntry) -> bool:
        """Whether all is here that would be read of a file; True for one that is not read at all."""
        with self.database.snapshot() as tx:
            return not _absent(tx, wanted(Manifest(files={entry.path: entry})))

    def _stand_ins(
        self, tx: Transaction, repo: RepoRef, gaps: Iterable[Gap]
    ) -> dict[str, tuple[Revision, FileEntry]]:
        """The last readable versions that gaps point at: by path, the revision that brought it and the entry."""
        found: dict[str, tuple[Revision, FileEntry]] = {}
        for gap in gaps:
            if gap.last_readable is None:
                continue
            for row, entry in history.file_versions(tx, repo, gap.path):
                if entry is not None and entry.content_key == gap.last_readable:
                    found[gap.path] = (row.revision, entry)
                    break
        return found

    def _fetch_missing(
        self,
        files: Files,
        source: RepoRef,
        revision: Revision,
        want: Wanted,
        given_up: Collection[FileEntry] | None = None,
        *,
        fresh: _Fresh | None = None,
    ) -> dict[str, Unread]:
        """Read and keep what is not here; by path, what could not be read.

        With ``given_up``, whatever else fails and may be good at the next try raises. ``fresh`` learns what was
        read.
        """
        failed: dict[str, Unread] = {}

        def header(repo: RepoRef, sha: str, entry: FileEntry) -> bytes:
            return files.header(repo, sha, entry, limit=header_limit(entry.path) or 0)

        def parts(repo: RepoRef, sha: str, entry: FileEntry) -> bytes:
            return parts_of(entry, lambda start, stop: files.part(repo, sha, entry, start=start, stop=stop))

        plan: dict[str, tuple[FileEntry, Fetch]] = {
            **{entry.content_key: (entry, files.content) for entry in want.contents},
            **{header_key(entry): (entry, header) for entry in want.headers},
            **{parts_key(entry): (entry, parts) for entry in want.pickles},
        }
        if not plan:
            return failed
        with self.database.snapshot() as tx:
            missing = blobs.missing(tx, list(plan))
        with self._keeping() as keep:
            for key, (entry, fetch) in plan.items():
                if key not in missing:
                    continue
                try:
                    data = fetch(source, revision.sha, entry)
                except (FileGone, TooLarge, Corrupt) as error:
                    if error.retryable and given_up is not None and entry not in given_up:
                        raise
                    failed[entry.path] = Unread(error.code, error.message)
                    continue
                keep(key, data)
                if fresh is not None:
                    fresh.put(key, data)
        return failed

    @contextmanager
    def _keeping(self) -> Iterator[Callable[[str, bytes], None]]:
        """Gives what keeps a content, soon: small ones together, all of them at the end, also of a failure."""
        waiting: dict[str, bytes] = {}

        def write() -> None:
            if waiting:
                with self.database.transaction() as tx:
                    blobs.put_all(tx, waiting)
                waiting.clear()

        def keep(key: str, data: bytes) -> None:
            waiting[key] = data
            if sum(map(len, waiting.values())) > _WAITING_BYTES:
                write()

        try:
            yield keep
        finally:
            write()

    def _build(
        self,
        revision: Revision,
        manifest: Manifest,
        previous: Snapshot | None,
        failed: dict[str, Unread],
        fresh: _Fresh | None = None,
    ) -> Snapshot:
        def load(key: str) -> bytes:
            data = fresh.take(key) if fresh is not None else None
            return self._load(key) if data is None else data

        snapshot = self.parser.build(
            revision, manifest, load=load, parts=self._kept, failed=failed, previous=previous
        )
        return carry(previous, snapshot)

    def _kept(self, key: str) -> bytes | None:
        with self.database.snapshot() as tx:
            return blobs.get(tx, key)

    def _load(self, key: str) -> bytes:
        with self.database.snapshot() as tx:
            data = blobs.get(tx, key)
        if data is None:
            raise NotFound(f"content {key} is not kept here", help="run: hubwatch doctor")
        return data


@dataclass(slots=True)
class _Fresh:
    """Contents that were just read, as long as they are few: what was read last is parsed next."""

    _contents: dict[str, bytes] = field(default_factory=dict)
    _room: int = _BATCH_BYTES

    def put(self, key: str, data: bytes) -> None:
        if len(data) <= self._room:
            self._contents[key] = data
            self._room -= len(data)

    def take(self, key: str) -> bytes | None:
        return self._contents.pop(key, None)


def _unlike(want: Wanted, previous: Snapshot | None) -> Wanted:
    """What is wanted, without what was read of the revision before and is the same."""
    if previous is None:
        return want
    gaps = {gap.path for gap in previous.gaps}

    def unlike(
        entries: Iterable[FileEntry], read: Mapping[str, Document | TensorFile | PickleFile]
    ) -> tuple[FileEntry, ...]:
        return tuple(
            entry
            for entry in entries
            if entry.path in gaps or entry.path not in read or read[entry.path].content_key != entry.content_key
        )

    return Wanted(
        contents=unlike(want.contents, previous.documents),
        headers=unlike(want.headers, previous.tensor_files),
        pickles=unlike(want.pickles, previous.pickles),
    )


def _gaps_of(snapshot: Snapshot | None) -> list[FileEntry]:
    """The files of a revision that are gaps."""
    if snapshot is None:
        return []
    paths = {gap.path for gap in snapshot.gaps}
    return [entry for path, entry in snapshot.manifest.files.items() if path in paths]


def _from(held: Mapping[str, bytes], key: str) -> bytes | Unread:
    return held.get(key) or Unread("fetch", "the file is not held")


def _batches(entries: Iterable[FileEntry]) -> Iterator[list[FileEntry]]:
    """Entries in lists that are small to hold; each has at least one."""
    batch: list[FileEntry] = []
    room = _BATCH_BYTES
    for entry in entries:
        if batch and (entry.size > room or len(batch) == _BATCH_FILES):
            yield batch
            batch, room = [], _BATCH_BYTES
        batch.append(entry)
        room -= entry.size
    if batch:
        yield batch


def wanted_keys(manifest: Manifest) -> dict[str, str]:
    """The keys under which what is read of a tree is kept, with a path each.

    Parts of pickles are left out: a file that nobody looked into has none.
    """
    want = wanted(manifest)
    return {
        **{entry.content_key: entry.path for entry in want.contents},
        **{header_key(entry): entry.path for entry in want.headers},
    }


def _absent(tx: Transaction, want: Wanted) -> set[str]:
    """The paths of wanted files of which nothing is kept."""
    keyed = [
        *((entry.content_key, entry.path) for entry in want.contents),
        *((header_key(entry), entry.path) for entry in want.headers),
        *((parts_key(entry), entry.path) for entry in want.pickles),
    ]
    missing = blobs.missing(tx, (key for key, _ in keyed))
    return {path for key, path in keyed if key in missing}


def _only(want: Wanted, paths: Collection[str]) -> Wanted:
    def among(entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
        return tuple(entry for entry in entries if entry.path in paths)

    return Wanted(contents=among(want.contents), headers=among(want.headers), pickles=among(want.pickles))
