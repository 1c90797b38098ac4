"""The revisions of a repo, as landed: what was read, in which order, and every tree of it.

``ref`` is the followed ref wherever it is not given. A repo whose history was rewritten keeps what fell off:
it is found by sha and left out of every list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from storage.database import Transaction
from storage.errors import NotFound
from storage.landing import land, land_all, rewind
from storage.lineage import current, find_row, head_row, preferred, recorded
from storage.model import FileEntry, Gap, Manifest, RecordedRevision, RepoRef, Severity
from storage.rows import REPO_COLUMNS, find_repo, followed_ref, path_key, repo_of, require_repo
from storage.tables import changes, file_changes, repos
from storage.tables import gaps as gap_rows
from storage.tables import revisions as rows
from storage.trees import file_entry, tree_at

__all__ = [
    "Chain",
    "chain",
    "count",
    "file_versions",
    "gaps",
    "get",
    "head",
    "known_repos",
    "land",
    "land_all",
    "manifest",
    "require_repo",
    "resolve",
    "revisions",
    "rewind",
]

MIN_PREFIX = 4
"""Fewest hex characters that may stand for a sha."""


def head(tx: Transaction, repo: RepoRef, ref: str | None = None) -> RecordedRevision | None:
    """The newest revision landed; None when none was, or history begins anew."""
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        return None
    row = head_row(tx, repo_id, ref or followed_ref(tx, repo_id))
    return recorded(row) if row else None


def get(tx: Transaction, repo: RepoRef, sha: str) -> RecordedRevision:
    """A revision by its full sha, also one that fell off a rewritten history. Raises NotFound."""
    return recorded(_row(tx, repo, sha))


def revisions(
    tx: Transaction,
    repo: RepoRef,
    *,
    ref: str | None = None,
    newest_first: bool = True,
    limit: int | None = None,
    before_position: int | None = None,
    since: datetime | None = None,
    cls: str | None = None,
    min_severity: Severity | None = None,
    path: str | None = None,
) -> list[RecordedRevision]:
    """The current chain. ``before_position`` continues a list: only revisions below it.

    ``since`` is about when they were observed; ``path`` leaves those that changed this file, ``cls`` and
    ``min_severity`` those with one such change.

    Raises NotFound for a repo that this database never heard of.
    """
    repo_id = require_repo(tx, repo)
    query = current(repo_id, ref or followed_ref(tx, repo_id))
    if before_position is not None:
        query = query.where(rows.c.position < before_position)
    if since is not None:
        query = query.where(rows.c.observed_at >= since)
    if path is not None:
        touched = select(file_changes.c.revision_id).where(
            file_changes.c.repo_id == repo_id, file_changes.c.path_key == path_key(path)
        )
        query = query.where(rows.c.id.in_(touched))
    if cls is not None or min_severity is not None:
        fitting = select(changes.c.revision_id).where(changes.c.revision_id == rows.c.id)
        fitting = fitting if cls is None else fitting.where(changes.c.cls == cls)
        fitting = fitting if min_severity is None else fitting.where(changes.c.severity >= int(min_severity))
        query = query.where(fitting.exists())
    order = rows.c.position.desc() if newest_first else rows.c.position
    return [recorded(row) for row in tx.execute(query.order_by(order).limit(limit))]


def count(tx: Transaction, repo: RepoRef, ref: str | None = None) -> int:
    """How many revisions the current chain has."""
    newest = head(tx, repo, ref)
    return newest.position + 1 if newest else 0


def resolve(tx: Transaction, repo: RepoRef, rev: str) -> RecordedRevision:
    """The revision that a person means: a ref, a sha, or at least four characters of one.

    Raises NotFound, with help that tells an unknown revision from an ambiguous prefix.
    """
    repo_id = require_repo(tx, repo)
    tip = head_row(tx, repo_id, rev)
    if tip is not None:
        return recorded(tip)
    shown = rev[:64]
    prefix = rev.lower()
    found: list[Row[Any]] = []
    if len(prefix) >= MIN_PREFIX and set(prefix) <= set("0123456789abcdef"):
        query = select(rows).where(rows.c.repo_id == repo_id, rows.c.sha.startswith(prefix))
        found = list(tx.execute(query.order_by(*preferred(tx, repo_id)).limit(100)))
    shas = sorted({row.sha for row in found})
    if len(shas) > 1 and prefix not in shas:
        raise NotFound(
            f"{shown} stands for several revisions of {repo.id}", help=f"write more of it: {', '.join(shas[:4])}"
        )
    if not found:
        raise NotFound(f"{repo.id} has no revision {shown} here", help=f"see: hubwatch history {repo.id}")
    return recorded(next(row for row in found if row.sha == (prefix if prefix in shas else shas[0])))


def known_repos(tx: Transaction) -> list[RepoRef]:
    """Every repo with a revision, watched or not, by name."""
    with_history = select(rows.c.repo_id).distinct()
    return sorted(repo_of(row) for row in tx.execute(select(*REPO_COLUMNS).where(repos.c.id.in_(with_history))))


# --- trees ---------------------------------------------------------------------------------------


def manifest(tx: Transaction, repo: RepoRef, sha: str) -> Manifest:
    """The tree of a revision, with one query whatever its age. Raises NotFound."""
    return Manifest(files=tree_at(tx, _row(tx, repo, sha)))


def gaps(tx: Transaction, repo: RepoRef, sha: str) -> tuple[Gap, ...]:
    """What could not be read of a revision, in the order found. Raises NotFound."""
    query = select(gap_rows).where(gap_rows.c.revision_id == _row(tx, repo, sha).id).order_by(gap_rows.c.ordinal)
    return tuple(
        Gap(path=row.path, reason=row.reason, detail=row.detail, last_readable=row.last_readable)
        for row in tx.execute(query)
    )


def file_versions(
    tx: Transaction, repo: RepoRef, path: str, *, ref: str | None = None
) -> list[tuple[RecordedRevision, FileEntry | None]]:
    """Each revision of the chain that changed a path, newest first; None where it removed it."""
    repo_id = require_repo(tx, repo)
    query = (
        current(repo_id, ref or followed_ref(tx, repo_id))
        .add_columns(*(file_changes.c[name] for name in ("path", "removed", "size", "blob_id", "lfs_sha256")))
        .join(file_changes, file_changes.c.revision_id == rows.c.id)
        .where(file_changes.c.repo_id == repo_id, file_changes.c.path_key == path_key(path))
        .order_by(rows.c.position.desc())
    )
    return [(recorded(row), None if row.removed else file_entry(row)) for row in tx.execute(query)]


# --- what a reader of new revisions goes by ------------------------------------------------------


@dataclass(slots=True)
class Chain:
    """The current chain of a ref, told by shas, authors and trees; it can grow with what lands."""

    shas: dict[str, int] = field(default_factory=dict)
    """With the place of each, from 1."""
    authors: set[str] = field(default_factory=set)
    trees: dict[str, str] = field(default_factory=dict)
    """By the digest of a manifest, the newest revision that has this very tree."""
    tip: str | None = None

    @property
    def length(self) -> int:
        """How many revisions it has; the position of the next one."""
        return len(self.shas)

    def add(self, sha: str, author: str, manifest_digest: str) -> None:
        """Put a revision on top."""
        self.shas[sha] = len(self.shas) + 1
        self.authors.add(author)
        self.trees[manifest_digest] = sha
        self.tip = sha


def chain(tx: Transaction, repo: RepoRef, ref: str | None = None) -> Chain:
    """The current chain; empty for a repo that is not known."""
    known = Chain()
    repo_id = find_repo(tx, repo)
    if repo_id is not None:
        query = current(repo_id, ref or followed_ref(tx, repo_id)).order_by(rows.c.position)
        for row in tx.execute(query.with_only_columns(rows.c.sha, rows.c.author, rows.c.manifest_digest)):
            known.add(*row)
    return known


def _row(tx: Transaction, repo: RepoRef, sha: str) -> Row[Any]:
    row = find_row(tx, require_repo(tx, repo), sha)
    if row is None:
        raise NotFound(f"{repo.id} has no revision {sha[:64]} here", help=f"see: hubwatch history {repo.id}")
    return row
