"""Snapshots of revisions: read from the upstream once, or built again from what storage holds.

Every blob is asked for at most once, ever: what was fetched is kept by its content key before the revision
that needed it is judged, so that a crash in between costs nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from storage import blobs, history
from storage.database import Database, Transaction
from storage.errors import NotFound
from storage.model import Document, FileEntry, Gap, Manifest, RepoRef, Revision, Snapshot
from tracker.hub.errors import Corrupt, FileGone, TooLarge
from tracker.hub.interface import Upstream
from tracker.snapshot.build import Parser, Unread, Wanted, carry, header_key, parts_key, parts_of, wanted
from tracker.snapshot.kinds import header_limit

Fetch = Callable[[RepoRef, str, FileEntry], bytes]

_NOWHERE = Revision(sha="0" * 40, committed_at=datetime.fromtimestamp(0, UTC), author="", title="")


@dataclass(slots=True)
class Loader:
    """Makes snapshots. Shared by threads; the parser's cache is the only state."""

    upstream: Upstream
    database: Database
    parser: Parser

    def fetch(self, source: RepoRef, revision: Revision, previous: Snapshot | None) -> Snapshot:
        """Read a revision from the upstream, only what is not held yet.

        Raises HubError for what may be better later; a file that is gone, lies about its length or does
        not match its hash becomes a gap.
        """
        manifest = self.upstream.manifest(source, revision.sha)
        want = wanted(manifest)
        failed = self._fetch_missing(source, revision, want)
        return self._build(revision, manifest, previous, failed)

    def some(self, source: RepoRef, revision: Revision, manifest: Manifest, paths: Iterable[str]) -> Snapshot:
        """Read only these paths of a tree, and only what is not held yet. Raises as `fetch`."""
        files = {path: manifest.files[path] for path in paths if path in manifest.files}
        part = Manifest(files=files)
        failed = self._fetch_missing(source, revision, wanted(part))
        return self._build(revision, part, None, failed)

    def stored(self, repo: RepoRef, sha: str) -> Snapshot:
        """Build the snapshot of a landed revision again, gaps and stand-ins included."""
        with self.database.snapshot() as tx:
            revision = history.get(tx, repo, sha).revision
            manifest = history.manifest(tx, repo, sha)
            gaps = history.gaps(tx, repo, sha)
            stand_ins = self._stand_ins(tx, repo, gaps)
        failed = {gap.path: Unread(gap.reason, gap.detail) for gap in gaps}
        previous = None
        if stand_ins:
            older = Manifest(files=stand_ins)
            previous = self._build(revision, older, None, {})
        return self._build(revision, manifest, previous, failed)

    def document(self, entry: FileEntry) -> Document | None:
        """One file as a document, from storage; None when it is not held or cannot be parsed."""
        with self.database.snapshot() as tx:
            if blobs.missing(tx, [entry.content_key]):
                return None
        alone = Manifest(files={entry.path: entry})
        return self.parser.build(_NOWHERE, alone, load=self._load).documents.get(entry.path)

    def _stand_ins(self, tx: Transaction, repo: RepoRef, gaps: Iterable[Gap]) -> dict[str, FileEntry]:
        """The entries of the last readable versions that gaps point at."""
        found: dict[str, FileEntry] = {}
        for gap in gaps:
            if gap.last_readable is None:
                continue
            for _, entry in history.file_versions(tx, repo, gap.path):
                if entry is not None and entry.content_key == gap.last_readable:
                    found[gap.path] = entry
                    break
        return found

    def _fetch_missing(self, source: RepoRef, revision: Revision, want: Wanted) -> dict[str, Unread]:
        failed: dict[str, Unread] = {}
        plan: dict[str, tuple[FileEntry, Fetch]] = {
            **{entry.content_key: (entry, self._content) for entry in want.contents},
            **{header_key(entry): (entry, self._header) for entry in want.headers},
            **{parts_key(entry): (entry, self._parts) for entry in want.pickles},
        }
        with self.database.snapshot() as tx:
            missing = blobs.missing(tx, list(plan))
        for key, (entry, fetch) in plan.items():
            if key not in missing:
                continue
            try:
                data = fetch(source, revision.sha, entry)
            except (FileGone, TooLarge, Corrupt) as error:
                failed[entry.path] = Unread(error.code, error.message)
                continue
            with self.database.transaction() as tx:
                blobs.put(tx, key, data)
        return failed

    def _content(self, source: RepoRef, sha: str, entry: FileEntry) -> bytes:
        return self.upstream.content(source, sha, entry)

    def _header(self, source: RepoRef, sha: str, entry: FileEntry) -> bytes:
        return self.upstream.header(source, sha, entry, limit=header_limit(entry.path) or 0)

    def _parts(self, source: RepoRef, sha: str, entry: FileEntry) -> bytes:
        def read(start: int, stop: int) -> bytes:
            return self.upstream.part(source, sha, entry, start=start, stop=stop)

        return parts_of(entry, read)

    def _build(
        self, revision: Revision, manifest: Manifest, previous: Snapshot | None, failed: dict[str, Unread]
    ) -> Snapshot:
        snapshot = self.parser.build(revision, manifest, load=self._load, parts=self._kept, failed=failed)
        return carry(previous, snapshot)

    def _kept(self, key: str) -> bytes | None:
        with self.database.snapshot() as tx:
            return blobs.get(tx, key)

    def _load(self, key: str) -> bytes:
        with self.database.snapshot() as tx:
            data = blobs.get(tx, key)
        if data is None:
            raise NotFound(f"blob {key} is not in the database", help="run hubwatch doctor")
        return data
