"""What a page asks once: how often a repo is downloaded, and where a key of a config last changed."""

from __future__ import annotations

from sqlalchemy import func, or_, select

from storage import findings
from storage.database import Transaction
from storage.model import LandedChange, RepoRef
from storage.rows import REPO_COLUMNS, find_repo, repo_of
from storage.tables import changes, repos, revisions
from storage.visibility import OPEN_TO_ALL

SCANNED = 200_000
"""How many of the revisions landed last a search by key looks at: no index answers the end of a pointer."""


def downloads(tx: Transaction, repo: RepoRef) -> int | None:
    """Downloads in a month, as the Hub last said; None where it never did, or the repo is not known."""
    found: int | None = tx.scalar(select(repos.c.downloads).where(repos.c.id == find_repo(tx, repo)))
    return found


def changes_of_key(tx: Transaction, key: str, *, limit: int, public_only: bool = False) -> list[LandedChange]:
    """The newest changes of a file, a JSON pointer, or the last part of one (``rope_theta``).

    Only changes of the `SCANNED` revisions landed last are looked at.
    """
    ends = changes.c.pointer.endswith(f"/{key.lstrip('/')}", autoescape=True)
    newest = tx.scalar(select(func.max(revisions.c.id))) or 0
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
        .where(changes.c.revision_id > newest - SCANNED)
        .where(revisions.c.fork.is_(None), revisions.c.ref == repos.c.ref)
        .where(or_(changes.c.path == key, ends))
    )
    if public_only:
        query = query.where(OPEN_TO_ALL)
    rows = tx.execute(query.order_by(changes.c.revision_id.desc(), changes.c.ordinal).limit(limit))
    return [
        LandedChange(
            repo=repo_of(row),
            sha=row.sha,
            committed_at=row.committed_at,
            observed_at=row.observed_at,
            finding=findings.from_row(row._asdict()),
            place=(row.revision_id, row.ordinal),
        )
        for row in rows
    ]
