"""What each revision changed, as it was rated when it landed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select

from storage import findings
from storage.database import Transaction
from storage.lineage import row_ids
from storage.model import Finding, LandedChange, RepoRef, Severity
from storage.rows import REPO_COLUMNS, chunks, find_repo, followed_ref, repo_of
from storage.tables import changes, repos, revisions
from storage.visibility import OPEN_TO_ALL


def of(tx: Transaction, repo: RepoRef, sha: str) -> tuple[Finding, ...]:
    """The changes of one revision, in the order shown; none for an unknown one."""
    return by_revision(tx, repo, [sha])[sha]


def by_revision(tx: Transaction, repo: RepoRef, shas: Iterable[str]) -> dict[str, tuple[Finding, ...]]:
    """The changes of each of these revisions; every sha asked for is a key."""
    found: dict[str, list[Finding]] = {sha: [] for sha in shas}
    repo_id = find_repo(tx, repo)
    ids = row_ids(tx, repo_id, found) if repo_id is not None else {}
    for chunk in chunks(ids):
        query = select(changes).where(changes.c.revision_id.in_(chunk))
        for row in tx.execute(query.order_by(changes.c.revision_id, changes.c.ordinal)):
            found[ids[row.revision_id]].append(findings.from_row(row._asdict()))
    return {sha: tuple(items) for sha, items in found.items()}


def search(
    tx: Transaction,
    *,
    repo: RepoRef | None = None,
    owner: str | None = None,
    cls: str | None = None,
    min_severity: Severity | None = None,
    path: str | None = None,
    since: datetime | None = None,
    public_only: bool = False,
    before: tuple[int, int] | None = None,
    limit: int | None = None,
) -> list[LandedChange]:
    """The changes of current chains that fit all that is given, the newest revision first.

    Those of one repo's followed ref are in the order of its history, those of several in the order landed.
    ``since`` is about when a revision was observed. ``before``, the ``place`` of the last one seen, continues
    a list.
    """
    query = (
        select(
            changes,
            *REPO_COLUMNS,
            revisions.c.sha,
            revisions.c.position,
            revisions.c.committed_at,
            revisions.c.observed_at,
        )
        .join(revisions, revisions.c.id == changes.c.revision_id)
        .join(repos, repos.c.id == revisions.c.repo_id)
        .where(revisions.c.fork.is_(None), revisions.c.ref == repos.c.ref)
    )
    order = changes.c.revision_id  # the order of the index by class
    if repo is not None:
        repo_id = find_repo(tx, repo)
        if repo_id is None:
            return []
        order = revisions.c.position
        query = query.where(revisions.c.repo_id == repo_id, revisions.c.ref == followed_ref(tx, repo_id))
    if owner is not None:
        query = query.where(repos.c.owner == owner)
    if cls is not None:
        query = query.where(changes.c.cls == cls)
    if min_severity is not None:
        query = query.where(changes.c.severity >= int(min_severity))
    if path is not None:
        query = query.where(changes.c.path == path)
    if since is not None:
        query = query.where(revisions.c.observed_at >= since)
    if public_only:
        query = query.where(OPEN_TO_ALL)
    if before is not None:
        place, ordinal = before
        same = (order == place) & (changes.c.ordinal > ordinal)
        query = query.where((order < place) | same)
    rows = tx.execute(query.order_by(order.desc(), changes.c.ordinal).limit(limit))
    return [_landed(row, row.revision_id if repo is None else row.position) for row in rows]


def _landed(row: Row[Any], place: int) -> LandedChange:
    return LandedChange(
        repo=repo_of(row),
        sha=row.sha,
        committed_at=row.committed_at,
        observed_at=row.observed_at,
        finding=findings.from_row(row._asdict()),
        place=(place, row.ordinal),
    )
