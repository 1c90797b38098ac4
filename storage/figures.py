"""What pages show beside the lists: how figures moved over a history, and models of the same architecture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import or_, select

from storage.database import Transaction
from storage.lineage import current
from storage.model import RepoRef
from storage.rows import REPO_COLUMNS, chunks, find_repo, followed_ref, repo_of
from storage.tables import changes, estimates, file_changes, repos, revisions, watches
from storage.visibility import OPEN_TO_ALL

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".ckpt")
_MOVING = ("config.json", "model.safetensors.index.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """A revision after which figures may be others: ``weight_bytes`` are those of all weight files in its tree."""

    sha: str
    position: int
    weight_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """Another watched repo whose newest revision has a certain architecture."""

    repo: RepoRef
    sha: str


def milestones(tx: Transaction, repo: RepoRef) -> list[Milestone]:
    """The revisions of the current chain that touched the config or weight files, oldest first."""
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        return []
    chain = current(repo_id, followed_ref(tx, repo_id)).with_only_columns(
        revisions.c.sha,
        revisions.c.position,
        file_changes.c.path,
        file_changes.c.removed,
        file_changes.c.size,
    )
    touched = or_(
        file_changes.c.path.in_(_MOVING),
        *(file_changes.c.path.endswith(suffix) for suffix in _WEIGHTS),
    )
    query = chain.join(file_changes, file_changes.c.revision_id == revisions.c.id).where(touched)
    sizes: dict[str, int] = {}
    total = 0
    found: list[Milestone] = []
    for row in tx.execute(query.order_by(revisions.c.position)):
        if row.path not in _MOVING:
            size = 0 if row.removed else row.size or 0
            total += size - sizes.get(row.path, 0)
            sizes[row.path] = size
        made = Milestone(sha=row.sha, position=row.position, weight_bytes=total)
        if found and found[-1].position == row.position:
            found[-1] = made
        else:
            found.append(made)
    return found


def shas_at(tx: Transaction, repo: RepoRef, positions: Iterable[int]) -> dict[int, str]:
    """The shas at these places of the current chain; places that are not there are left out."""
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        return {}
    chain = current(repo_id, followed_ref(tx, repo_id)).with_only_columns(revisions.c.position, revisions.c.sha)
    return {
        row.position: row.sha
        for chunk in chunks(positions)
        for row in tx.execute(chain.where(revisions.c.position.in_(chunk)))
    }


def classes(tx: Transaction, repo: RepoRef) -> list[str]:
    """The change classes that a repo's current chain has, by name."""
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        return []
    chain = current(repo_id, followed_ref(tx, repo_id)).with_only_columns(revisions.c.id).scalar_subquery()
    return sorted(tx.scalars(select(changes.c.cls).where(changes.c.revision_id.in_(chain)).distinct()))


def siblings(
    tx: Transaction, repo: RepoRef, architecture: str, *, limit: int, public_only: bool = False
) -> list[Sibling]:
    """Other watched repos whose head is of this architecture, by owner and name."""
    query = (
        select(*REPO_COLUMNS, watches.c.head)
        .select_from(watches)
        .join(repos, repos.c.id == watches.c.repo_id)
        .join(estimates, (estimates.c.repo_id == repos.c.id) & (estimates.c.sha == watches.c.head))
        .where(estimates.c.architecture == architecture, estimates.c.estimator == "exact")
        .where(repos.c.id != (find_repo(tx, repo) or 0))
    )
    if public_only:
        query = query.where(OPEN_TO_ALL)
    rows = tx.execute(query.order_by(repos.c.owner, repos.c.name).limit(limit))
    return [Sibling(repo=repo_of(row), sha=row.head) for row in rows]
