"""What pages show beside the lists: how figures moved over a history, and models of the same architecture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import case, or_, select

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


def milestones(tx: Transaction, repo: RepoRef, most: int = 120) -> list[Milestone]:
    """The revisions of the current chain that touched the config or weight files, oldest first.

    Of more than ``most`` of them that many, evenly taken, the first and the last among them.
    """
    repo_id = find_repo(tx, repo)
    if repo_id is None:
        return []
    gone = file_changes.c.path.in_(_MOVING) | file_changes.c.removed
    query = (
        current(repo_id, followed_ref(tx, repo_id))
        .with_only_columns(
            revisions.c.position, file_changes.c.path_key, case((gone, 0), else_=file_changes.c.size)
        )
        .join(file_changes, file_changes.c.revision_id == revisions.c.id)
        .where(
            or_(
                file_changes.c.path.in_(_MOVING),
                *(file_changes.c.path.endswith(suffix) for suffix in _WEIGHTS),
            )
        )
    )
    sizes: dict[str, int] = {}
    totals: dict[int, int] = {}
    total = 0
    for position, key, size in tx.execute(query.order_by(revisions.c.position)):
        total += (size or 0) - sizes.get(key, 0)
        sizes[key] = size or 0
        totals[position] = total
    chosen = _thinned(list(totals), most)
    shas = shas_at(tx, repo, chosen)
    return [Milestone(sha=shas[place], position=place, weight_bytes=totals[place]) for place in chosen]


def _thinned(places: Sequence[int], most: int) -> list[int]:
    if len(places) <= most:
        return list(places)
    step = (len(places) - 1) / (most - 1)
    return sorted({places[round(index * step)] for index in range(most)})


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
