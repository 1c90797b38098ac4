"""Landing revisions: everything that they write, in the caller's one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from storage import advisories, estimates, findings, outbox, trees
from storage.database import Transaction
from storage.errors import NotFound
from storage.lineage import NONE_SHARED, find_row, head_row, recorded, settle
from storage.model import Gap, Landing, RecordedRevision, RepoRef
from storage.rows import chunks, ensure_repo, find_repo, followed_ref, insert_all, lock_repo
from storage.tables import changes, file_changes, gaps, revisions

_INSERT = insert(revisions).returning(revisions.c.id)


def land(tx: Transaction, landing: Landing) -> RecordedRevision:
    """Put a revision on top of its ref's chain with all that belongs to it; returns it as kept. See `land_all`."""
    (kept,) = land_all(tx, [landing])
    return kept


def land_all(tx: Transaction, landings: Sequence[Landing]) -> list[RecordedRevision]:
    """Put revisions of one ref, oldest first, on top of its chain with all that belongs to them, as kept.

    A revision that is on the chain already is returned as it is, and nothing at all is written of it. One that
    fell off when history was rewritten comes back with its first ``observed_at`` and ``backfill``, and with
    what this landing says of it. An advisory that several of them alter is kept as the last one leaves it.
    """
    repo, ref = landings[0].repo, landings[0].ref
    repo_id = ensure_repo(tx, repo, ref)
    lock_repo(tx, repo_id)
    known = _known(tx, repo_id, ref, [landing.revision.sha for landing in landings])
    fresh = [item for item in landings if not _is_there(known.get(item.revision.sha))]
    written = {
        item.revision.sha: row for item, row in zip(fresh, _write(tx, repo_id, ref, fresh, known), strict=True)
    }
    return [written.get(item.revision.sha) or recorded(known[item.revision.sha]) for item in landings]


def _known(tx: Transaction, repo_id: int, ref: str, shas: Sequence[str]) -> dict[str, Row[Any]]:
    """The rows of those of these revisions that this ref has or had, by sha."""
    here = select(revisions).where(revisions.c.repo_id == repo_id, revisions.c.ref == ref)
    return {row.sha: row for chunk in chunks(shas) for row in tx.execute(here.where(revisions.c.sha.in_(chunk)))}


def _is_there(known: Row[Any] | None) -> bool:
    return known is not None and known.fork is None


def _write(
    tx: Transaction, repo_id: int, ref: str, landings: Sequence[Landing], known: Mapping[str, Row[Any]]
) -> list[RecordedRevision]:
    """Write all of revisions that are not on the chain: one statement a table, whatever their number."""
    if not landings:
        return []
    head = head_row(tx, repo_id, ref)
    first, predecessor = (head.position + 1, head.id) if head else (0, None)
    kept: list[RecordedRevision] = []
    ids: list[int] = []
    for position, landing in enumerate(landings, start=first):
        back = known.get(landing.revision.sha)
        predecessor = _write_revision(tx, repo_id, landing, position, predecessor, back)
        ids.append(predecessor)
        kept.append(
            RecordedRevision(
                revision=landing.revision,
                position=position,
                observed_at=back.observed_at if back else landing.observed_at,
                backfill=back.backfill if back else landing.backfill,
                manifest_digest=landing.manifest.digest,
            )
        )
    numbered = list(zip(ids, landings, strict=True))
    trees.record(tx, repo_id, ref, [(row_id, landing.manifest.files) for row_id, landing in numbered])
    insert_all(tx, gaps, [row for row_id, landing in numbered for row in _gap_rows(row_id, landing.gaps)])
    insert_all(
        tx,
        changes,
        [
            {"revision_id": row_id, "ordinal": ordinal, **findings.to_row(finding)}
            for row_id, landing in numbered
            for ordinal, finding in enumerate(landing.findings)
        ],
    )
    repo = landings[0].repo
    estimates.put_all(
        tx, repo, {item.revision.sha: item.estimate for item in landings if item.estimate is not None}
    )
    if known:
        settle(tx, repo_id, ref)
    altered = {advisory.id: advisory for landing in landings for advisory in landing.advisories}
    advisories.save(tx, *altered.values())
    advisories.record_all(tx, repo, ((event, item.observed_at) for item in landings for event in item.events))
    outbox.append(tx, [told for landing in landings for told in landing.outbox])
    return kept


def _gap_rows(revision_id: int, unread: Sequence[Gap]) -> Iterator[dict[str, Any]]:
    for ordinal, gap in enumerate(unread):
        yield {
            "revision_id": revision_id,
            "ordinal": ordinal,
            "path": gap.path,
            "reason": gap.reason,
            "detail": gap.detail,
            "last_readable": gap.last_readable,
        }


def _write_revision(
    tx: Transaction,
    repo_id: int,
    landing: Landing,
    position: int,
    predecessor: int | None,
    known: Row[Any] | None,
) -> int:
    """Write the revision's own row; returns its id. What an earlier landing said of it is dropped."""
    told = {
        "position": position,
        "fork": None,
        "predecessor_id": predecessor,
        "manifest_digest": landing.manifest.digest,
        "parents": list(landing.revision.parents),
        "parents_unknown": landing.revision.parents_unknown,
    }
    if known is not None:
        for table in (file_changes, gaps, changes):
            tx.execute(delete(table).where(table.c.revision_id == known.id))
        tx.execute(update(revisions).where(revisions.c.id == known.id).values(**told))
        return int(known.id)
    values = {
        **told,
        "repo_id": repo_id,
        "ref": landing.ref,
        "sha": landing.revision.sha,
        "committed_at": landing.revision.committed_at,
        "author": landing.revision.author,
        "title": landing.revision.title,
        "observed_at": landing.observed_at,
        "backfill": landing.backfill,
    }
    return int(tx.execute(_INSERT, values).scalar_one())


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
