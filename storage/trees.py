"""Trees, kept as what each revision changed in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete, func, select

from storage.database import Transaction
from storage.model import FileEntry
from storage.rows import chunks, insert_all, path_key
from storage.tables import file_changes, head_files, revisions

Tree = dict[str, FileEntry]
_NOTHING = {"size": None, "blob_id": None, "lfs_sha256": None}


def file_entry(row: Row[Any]) -> FileEntry:
    """The file that a row of ``file_changes`` or ``head_files`` holds."""
    return FileEntry(path=row.path, size=row.size, blob_id=row.blob_id, lfs_sha256=row.lfs_sha256)


def tree_at(tx: Transaction, row: Row[Any]) -> Tree:
    """The tree of a revision: of every path, the newest change up to it."""
    in_reach = select(revisions.c.id, revisions.c.position.label("place"))
    if row.fork is None:
        reach = in_reach.where(
            revisions.c.repo_id == row.repo_id,
            revisions.c.ref == row.ref,
            revisions.c.fork.is_(None),
            revisions.c.position <= row.position,
        ).cte("reach")
    else:
        reach = _ancestors(row.id)
    newest = func.row_number().over(partition_by=file_changes.c.path_key, order_by=reach.c.place.desc())
    ranked = (
        select(file_changes, newest.label("rank")).join(reach, reach.c.id == file_changes.c.revision_id).subquery()
    )
    query = select(ranked).where(ranked.c.rank == 1, ranked.c.removed.is_(False))
    return {found.path: file_entry(found) for found in tx.execute(query)}


def _ancestors(row_id: int) -> Any:
    """A revision that fell off the chain and all before it, nearest with the highest ``place``."""
    start = select(revisions.c.id, revisions.c.predecessor_id, (0 * revisions.c.id).label("place"))
    reach = start.where(revisions.c.id == row_id).cte("reach", recursive=True)
    before = select(revisions.c.id, revisions.c.predecessor_id, reach.c.place - 1)
    return reach.union_all(before.join(reach, reach.c.predecessor_id == revisions.c.id))


def head_tree(tx: Transaction, repo_id: int, ref: str) -> Tree:
    """The tree at the head of the chain, without looking at history."""
    query = select(head_files).where(head_files.c.repo_id == repo_id, head_files.c.ref == ref)
    return {row.path: file_entry(row) for row in tx.execute(query)}


def record(tx: Transaction, repo_id: int, ref: str, trees: Sequence[tuple[int, Mapping[str, FileEntry]]]) -> None:
    """Write what each of these revisions, oldest first, changes in the tree before it; the last is the new head's.

    ``trees`` are the ids of the revisions with their files; the first is held against the head's tree.
    """
    old = head_tree(tx, repo_id, ref)
    rows: list[dict[str, Any]] = []
    before: Mapping[str, FileEntry] = old
    for revision_id, files in trees:
        key = {"repo_id": repo_id, "revision_id": revision_id}
        rows += [{**key, **_values(file), "removed": False} for file in _other(files, before)]
        rows += [{**key, **_values(file), "removed": True, **_NOTHING} for file in _gone(before, files)]
        before = files
    insert_all(tx, file_changes, rows)
    written = list(_other(before, old))
    _take_out(tx, repo_id, ref, [*_gone(old, before), *(old[file.path] for file in written if file.path in old)])
    _put_in(tx, repo_id, ref, written)


def _other(files: Mapping[str, FileEntry], before: Mapping[str, FileEntry]) -> Iterator[FileEntry]:
    return (file for path, file in files.items() if before.get(path) != file)


def _gone(before: Mapping[str, FileEntry], files: Mapping[str, FileEntry]) -> Iterator[FileEntry]:
    return (file for path, file in before.items() if path not in files)


def move_head(tx: Transaction, repo_id: int, ref: str, head: Row[Any] | None) -> None:
    """Make an earlier revision's tree (None: the empty one) the head's."""
    tx.execute(delete(head_files).where(head_files.c.repo_id == repo_id, head_files.c.ref == ref))
    if head is not None:
        _put_in(tx, repo_id, ref, list(tree_at(tx, head).values()))


def _values(file: FileEntry) -> dict[str, Any]:
    return {
        "path_key": path_key(file.path),
        "path": file.path,
        "size": file.size,
        "blob_id": file.blob_id,
        "lfs_sha256": file.lfs_sha256,
    }


def _put_in(tx: Transaction, repo_id: int, ref: str, files: list[FileEntry]) -> None:
    insert_all(tx, head_files, [{"repo_id": repo_id, "ref": ref, **_values(file)} for file in files])


def _take_out(tx: Transaction, repo_id: int, ref: str, files: list[FileEntry]) -> None:
    here = (head_files.c.repo_id == repo_id, head_files.c.ref == ref)
    for chunk in chunks(path_key(file.path) for file in files):
        tx.execute(delete(head_files).where(*here, head_files.c.path_key.in_(chunk)))
