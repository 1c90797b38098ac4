"""When repos moved: all that the choice of an interval needs, read without the revisions themselves."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from storage.database import Transaction
from storage.model import RepoRef
from storage.rows import find_repo, followed_ref
from storage.tables import revisions


def recent(tx: Transaction, repo: RepoRef, limit: int) -> list[datetime]:
    """When the newest revisions came, newest first.

    That is when we saw them; for those read as backfill, the commit date, as far as it is not in our future.
    """
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        return []
    query = (
        select(revisions.c.committed_at, revisions.c.observed_at, revisions.c.backfill)
        .where(
            revisions.c.repo_id == repo_id,
            revisions.c.ref == followed_ref(tx, repo_id),
            revisions.c.fork.is_(None),
        )
        .order_by(revisions.c.position.desc())
        .limit(limit)
    )
    return [
        min(row.committed_at, row.observed_at) if row.backfill else row.observed_at for row in tx.execute(query)
    ]
