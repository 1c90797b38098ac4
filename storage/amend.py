"""What was landed, said anew by a later version of hubwatch: changes, gaps and estimates of a revision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select

from storage import findings as as_rows
from storage.database import Transaction
from storage.lineage import find_row, head_row
from storage.model import Finding, Gap, RepoRef
from storage.rows import followed_ref, insert_all, lock_repo, require_repo
from storage.tables import changes, gaps, repos, revisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the followed history of a repo stands. ``rewritten``: revisions fell off it at some time."""

    ref: str
    head: str | None
    rewritten: bool
    created_at: datetime | None
    canonical: str | None


def standing(tx: Transaction, repo: RepoRef, *, lock: bool = False) -> Standing:
    """How a repo's history stands; with ``lock`` nobody else writes it before this transaction ends.

    Raises NotFound for a repo that this database never heard of.
    """
    repo_id = require_repo(tx, repo)
    if lock:
        lock_repo(tx, repo_id)
    ref = followed_ref(tx, repo_id)
    head = head_row(tx, repo_id, ref)
    fallen = select(revisions.c.id).where(
        revisions.c.repo_id == repo_id, revisions.c.ref == ref, revisions.c.fork.is_not(None)
    )
    row = tx.execute(select(repos.c.created_at, repos.c.canonical).where(repos.c.id == repo_id)).one()
    return Standing(
        ref=ref,
        head=head.sha if head else None,
        rewritten=tx.scalar(fallen.limit(1)) is not None,
        created_at=row.created_at,
        canonical=row.canonical,
    )


def change(
    tx: Transaction,
    repo: RepoRef,
    ref: str,
    sha: str,
    *,
    findings: tuple[Finding, ...] | None = None,
    unread: tuple[Gap, ...] | None = None,
) -> None:
    """Put these in place of a landed revision's changes and gaps; None leaves what is there."""
    row = find_row(tx, require_repo(tx, repo), sha, ref)
    if row is None:
        return
    if findings is not None:
        tx.execute(delete(changes).where(changes.c.revision_id == row.id))
        made = [
            {"revision_id": row.id, "ordinal": number, **as_rows.to_row(item)}
            for number, item in enumerate(findings)
        ]
        insert_all(tx, changes, made)
    if unread is not None:
        tx.execute(delete(gaps).where(gaps.c.revision_id == row.id))
        kept = [
            {
                "revision_id": row.id,
                "ordinal": number,
                "path": gap.path,
                "reason": gap.reason,
                "detail": gap.detail,
                "last_readable": gap.last_readable,
            }
            for number, gap in enumerate(unread)
        ]
        insert_all(tx, gaps, kept)
