"""Files that are there, files that are not, and files that could not be read: the three must never be mixed up."""

from __future__ import annotations

from storage.model import DocumentKind, Snapshot


def unread(snapshot: Snapshot, path: str) -> bool:
    """Whether a file is in the tree but none of its versions could be read, so that nothing is known of it."""
    return path not in snapshot.documents and any(gap.path == path for gap in snapshot.gaps)


def paths_of(before: Snapshot, after: Snapshot, *kinds: DocumentKind) -> list[str]:
    """Paths of these kinds in either snapshot that can be compared, sorted; unread files are left out."""
    found = {doc.path for snapshot in (before, after) for doc in snapshot.by_kind(*kinds)}
    return sorted(path for path in found if not unread(before, path) and not unread(after, path))
