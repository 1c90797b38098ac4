"""Landing a revision: everything that it writes, in the caller's one transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from storage import advisories, estimates, findings, outbox, trees
from storage.database import Transaction
from storage.errors import NotFound
from storage.lineage import NONE_SHARED, find_row, head_row, recorded, settle
from storage.model import Landing, RecordedRevision, RepoRef
from storage.rows import ensure_repo, find_repo, followed_ref, insert_all, lock_repo
from storage.tables import changes, file_changes, gaps, revisions


def land(tx: Transaction, landing: Landing) -> RecordedRevision:
    """Put a revision on top of its ref's chain with all that belongs to it; returns it as kept.

    A revision that is on the chain already is returned as it is, and nothing at all is written. One that
    fell off when history was rewritten comes back with its first ``observed_at`` and ``backfill``, and with
    what this landing says of it.
    """
    repo_id = ensure_repo(tx, landing.repo, landing.ref)
    lock_repo(tx, repo_id)
    sha = landing.revision.sha
    known = find_row(tx, repo_id, sha, landing.ref)
    if known is not None and known.fork is None:
        return recorded(known)
    head = head_row(tx, repo_id, landing.ref)
    revision_id = _write_revision(tx, repo_id, landing, head, known)
    trees.record(tx, repo_id, landing.ref, revision_id, landing.manifest.files)
    insert_all(
        tx,
        gaps,
        [
            {
                "revision_id": revision_id,
                "ordinal": ordinal,
                "path": gap.path,
                "reason": gap.reason,
                "detail": gap.detail,
                "last_readable": gap.last_readable,
            }
            for ordinal, gap in enumerate(landing.gaps)
        ],
    )
    insert_all(
        tx,
        changes,
        [
            {"revision_id": revision_id, "ordinal": ordinal, **findings.to_row(finding)}
            for ordinal, finding in enumerate(landing.findings)
        ],
    )
    if landing.estimate is not None:
        estimates.put(tx, landing.repo, sha, landing.estimate)
    if known is not None:
        settle(tx, repo_id, landing.ref)
    advisories.save(tx, *landing.advisories)
    advisories.record_events(tx, landing.repo, landing.events, now=landing.observed_at)
    outbox.append(tx, landing.outbox)
    return recorded(tx.execute(select(revisions).where(revisions.c.id == revision_id)).one())


def _write_revision(
    tx: Transaction, repo_id: int, landing: Landing, head: Row[Any] | None, known: Row[Any] | None
) -> int:
    """Write the revision's own row; returns its id. What an earlier landing said of it is dropped."""
    place = {
        "position": head.position + 1 if head else 0,
        "fork": None,
        "predecessor_id": head.id if head else None,
        "manifest_digest": landing.manifest.digest,
        "parents": list(landing.revision.parents),
        "parents_unknown": landing.revision.parents_unknown,
    }
    if known is not None:
        for table in (file_changes, gaps, changes):
            tx.execute(delete(table).where(table.c.revision_id == known.id))
        tx.execute(update(revisions).where(revisions.c.id == known.id).values(**place))
        return int(known.id)
    values = {
        **place,
        "repo_id": repo_id,
        "ref": landing.ref,
        "sha": landing.revision.sha,
        "committed_at": landing.revision.committed_at,
        "author": landing.revision.author,
        "title": landing.revision.title,
        "observed_at": landing.observed_at,
        "backfill": landing.backfill,
    }
    return int(tx.execute(insert(revisions).values(**values).returning(revisions.c.id)).scalar_one())


def rewind(tx: Transaction, repo: RepoRef, to_sha: str | None, *, ref: str | None = None) -> int:
    """Go back to an earlier revision because history was rewritten; None: to before the first.

    What comes after it is kept, found by sha, and left out of every list; a revision that lands again comes
    back. Returns how many fell off. Raises NotFound when ``to_sha`` is not on the chain.
    """
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        return 0
    lock_repo(tx, repo_id)
    ref = ref or followed_ref(tx, repo_id)
    target = None
    if to_sha is not None:
        target = find_row(tx, repo_id, to_sha, ref)
        if target is None or target.fork is not None:
            raise NotFound(
                f"{to_sha[:12]} is not in the history of {repo.id}", help=f"see: hubwatch history {repo.id}"
            )
    position = target.position if target else NONE_SHARED
    fallen = tx.execute(
        update(revisions)
        .where(
            revisions.c.repo_id == repo_id,
            revisions.c.ref == ref,
            revisions.c.fork.is_(None),
            revisions.c.position > position,
        )
        .values(fork=position)
    ).rowcount
    if fallen:
        trees.move_head(tx, repo_id, ref, target)
        settle(tx, repo_id, ref)
    return fallen
