"""Files as files: disguised ones, mere layout, and all that no other differ speaks for.

Facets: ``files:disguised:<path>`` (what the first bytes say) and ``files:content:<path>`` (the content key).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from storage.model import Change, Document, DocumentKind, FileEntry, Json, Snapshot, digest
from tracker.diff.repo import changed_paths
from tracker.diff.sources import source_digest
from tracker.diff.values import examples, same, short
from tracker.snapshot.kinds import kind_of
from tracker.snapshot.tables import beside_tables

MAX_SINGLE = 200  # other files that have a change of their own; the rest share one
_REST = "files:rest"


@dataclass(frozen=True, slots=True)
class Files:
    """The differ of files as such. `rest` completes it, once the others have spoken."""

    name: str = "files"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """Files that became disguised, and files of which only the layout changed."""
        old = _disguises(before)
        for path, what in sorted(_disguises(after).items()):
            if old.get(path) != what:
                yield _disguised(path, what, old.get(path))
        for path in changed_paths(before.manifest, after.manifest):
            was, now = before.documents.get(path), after.documents.get(path)
            if was and now and _read(before, was) and _read(after, now) and _same_content(was, now):
                yield _content_change("file.formatting", path, before, after)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Every disguised file."""
        for path, what in sorted(_disguises(snapshot).items()):
            yield _disguised(path, what, None)

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of one of the facets above."""
        what, _, path = facet.removeprefix("files:").partition(":")
        if what == "disguised":
            found = _disguises(snapshot).get(path)
            return digest(found) if found else None
        if what == "content":
            return _digest(snapshot.manifest.files.get(path))
        return digest(snapshot.manifest.digest) if facet == _REST else None


def rest(before: Snapshot, after: Snapshot, spoken: Collection[str]) -> Iterator[Change]:
    """One ``file.other`` for every changed path that no change names; beyond 200, one for all the others."""
    left = [path for path in changed_paths(before.manifest, after.manifest) if path not in spoken]
    for path in left[:MAX_SINGLE]:
        yield _content_change("file.other", path, before, after)
    if left[MAX_SINGLE:]:
        yield _many(left[MAX_SINGLE:], before, after)


def paths_of(change: Change) -> set[str]:
    """The paths that a change names: its own, and those in ``facts["paths"]``."""
    named = change.facts.get("paths")
    return {change.path, *(path for path in named if isinstance(path, str))} if named else {change.path}


def _disguises(snapshot: Snapshot) -> dict[str, str]:
    return {
        gap.path: gap.detail
        for gap in snapshot.gaps
        if gap.reason == "disguised" and gap.path in snapshot.manifest.files
    }


def _disguised(path: str, what: str, known: str | None) -> Change:
    return Change(
        cls="file.disguised",
        path=path,
        summary=f"{short(path, limit=150)} is not what its name says: {short(what, limit=100)}",
        before=known,
        after=what,
        facet=f"files:disguised:{path}",
        before_digest=digest(known) if known else None,
        after_digest=digest(what),
        facts={"what": what},
    )


def _read(snapshot: Snapshot, document: Document) -> bool:
    """Whether the document is this revision's own, no stand-in."""
    entry = snapshot.manifest.files.get(document.path)
    return entry is not None and entry.content_key == document.content_key


def _same_content(was: Document, now: Document) -> bool:
    if was.kind is not now.kind or type(was.data) is not type(now.data):
        return False
    if was.kind is DocumentKind.CODE:
        return source_digest(was.data) == source_digest(now.data)
    if isinstance(was.data, str) and was.kind in (DocumentKind.LICENCE, DocumentKind.REQUIREMENTS):
        return bool(was.data.split() == now.data.split())
    # Equality is quick and settles nearly all; `same` then tells 1 from true, which tables never hold.
    return bool(was.data == now.data) and same(
        beside_tables(was.data, now.data), beside_tables(now.data, was.data)
    )


def _content_change(cls: str, path: str, before: Snapshot, after: Snapshot) -> Change:
    old, new = before.manifest.files.get(path), after.manifest.files.get(path)
    verb = "changed" if old and new else "added" if new else "removed"
    size = new.size if new else old.size if old else 0
    said = "was laid out anew, the content is the same" if cls == "file.formatting" else f"{verb} ({size} bytes)"
    kind = kind_of(path)
    return Change(
        cls=cls,
        path=path,
        summary=f"{short(path, limit=200)} {said}",
        before=_identity(old),
        after=_identity(new),
        facet=f"files:content:{path}",
        before_digest=_digest(old),
        after_digest=_digest(new),
        facts={"kind": kind.value if kind else None, "added": old is None, "removed": new is None},
    )


def _many(paths: list[str], before: Snapshot, after: Snapshot) -> Change:
    return Change(
        cls="file.other",
        path=paths[0],
        summary=f"{len(paths)} more files were added, removed or changed",
        before={"files": len(before.manifest.files)},
        after={"files": len(after.manifest.files)},
        facet=_REST,
        before_digest=digest(before.manifest.digest),
        after_digest=digest(after.manifest.digest),
        facts={"count": len(paths), "examples": examples(paths)},
    )


def _identity(entry: FileEntry | None) -> Json:
    return {"content": entry.content_key, "size": entry.size} if entry else None


def _digest(entry: FileEntry | None) -> str | None:
    return digest(entry.content_key) if entry else None


DIFFER = Files()
