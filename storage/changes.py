"""What each revision changed, as it was rated when it landed."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select

from storage import findings
from storage.database import Transaction
from storage.lineage import row_ids
from storage.model import Finding, RepoRef
from storage.rows import chunks, find_repo
from storage.tables import changes


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
        for row in tx.execute(query.order_by(changes.c.revision_id, changes.c.ordinal)).mappings():
            found[ids[row["revision_id"]]].append(findings.from_row(dict(row)))
    return {sha: tuple(items) for sha, items in found.items()}
