"""What is read beside a repo's head, at a slower pace: its refs, and other repos that it names.

Each subject (``refs``, ``related``) has a time at which it is due; what was seen last is kept, so that the
next reading can tell what moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select

from storage.database import Transaction
from storage.model import RepoRef
from storage.rows import find_repo, insert_all, require_repo, upsert
from storage.tables import related_repos, repo_refs, slow_reads


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRead:
    """When a subject is due again, at which head of the repo it was last read, and how often it failed since."""

    due_at: datetime
    head: str | None = None
    errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedRepo:
    """Another repo as last seen: its identity on the Hub and the head of its main; None where not to be seen."""

    hub_id: str | None
    head: str | None


def schedule(tx: Transaction, repo: RepoRef, subject: str) -> SlowRead | None:
    """When a subject is due; None when it was never read."""
    row = tx.execute(
        select(slow_reads).where(slow_reads.c.repo_id == find_repo(tx, repo), slow_reads.c.subject == subject)
    ).one_or_none()
    return SlowRead(due_at=row.due_at, head=row.head, errors=row.errors) if row else None


def reschedule(tx: Transaction, repo: RepoRef, subject: str, read: SlowRead) -> None:
    """Keep when a subject is due. Raises NotFound for a repo that this database never heard of."""
    key = {"repo_id": require_repo(tx, repo), "subject": subject}
    upsert(tx, slow_reads, {**key, "due_at": read.due_at, "head": read.head, "errors": read.errors})


def known(tx: Transaction, repo: RepoRef) -> dict[str, str]:
    """The refs as last read, full name to sha."""
    rows = tx.execute(select(repo_refs.c.name, repo_refs.c.sha).where(repo_refs.c.repo_id == find_repo(tx, repo)))
    return {row.name: row.sha for row in rows}


def keep(tx: Transaction, repo: RepoRef, refs: Mapping[str, str]) -> None:
    """Replace the refs of a repo. Raises NotFound for a repo that this database never heard of."""
    repo_id = require_repo(tx, repo)
    tx.execute(delete(repo_refs).where(repo_refs.c.repo_id == repo_id))
    insert_all(
        tx, repo_refs, [{"repo_id": repo_id, "name": name, "sha": sha} for name, sha in sorted(refs.items())]
    )


def related(tx: Transaction, repo: RepoRef, kind: str) -> dict[str, RelatedRepo]:
    """The repos that a repo names, by name, as last seen. ``kind`` is ``code`` or ``base``."""
    rows = tx.execute(
        select(related_repos).where(related_repos.c.repo_id == find_repo(tx, repo), related_repos.c.kind == kind)
    )
    return {row.target: RelatedRepo(hub_id=row.hub_id, head=row.head) for row in rows}


def keep_related(tx: Transaction, repo: RepoRef, kind: str, seen: Mapping[str, RelatedRepo]) -> None:
    """Replace the repos of one kind. Raises NotFound for a repo that this database never heard of."""
    repo_id = require_repo(tx, repo)
    tx.execute(delete(related_repos).where(related_repos.c.repo_id == repo_id, related_repos.c.kind == kind))
    insert_all(
        tx,
        related_repos,
        [
            {"repo_id": repo_id, "kind": kind, "target": target, "hub_id": item.hub_id, "head": item.head}
            for target, item in sorted(seen.items())
        ],
    )


def forget(tx: Transaction, repo: RepoRef) -> None:
    """Drop all of it: the name belongs to another repo now, which is read afresh."""
    repo_id = find_repo(tx, repo)
    for table in (repo_refs, related_repos, slow_reads):
        tx.execute(delete(table).where(table.c.repo_id == repo_id))
