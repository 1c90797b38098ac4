"""What each revision costs, by estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Row, select

from storage.database import Transaction
from storage.model import Estimate, EstimateStatus, RepoRef
from storage.rows import chunks, ensure_repo, find_repo, upsert
from storage.tables import estimates


def put(tx: Transaction, repo: RepoRef, sha: str, estimate: Estimate) -> None:
    """Keep an estimate in place of what the same estimator said of this revision before."""
    put_all(tx, repo, {sha: estimate})


def put_all(tx: Transaction, repo: RepoRef, by_sha: Mapping[str, Estimate]) -> None:
    """Keep the estimates of several revisions, see `put`."""
    if not by_sha:
        return
    repo_id = ensure_repo(tx, repo)
    upsert(
        tx,
        estimates,
        *(
            {
                "repo_id": repo_id,
                "sha": sha,
                "estimator": estimate.estimator,
                "version": estimate.version,
                "status": estimate.status.value,
                "source": estimate.source,
                "model_type": estimate.model_type,
                "architecture": estimate.architecture,
                "reason": estimate.reason,
                "body": dict(estimate.body),
            }
            for sha, estimate in by_sha.items()
        ),
    )


def of(tx: Transaction, repo: RepoRef, sha: str, estimator: str = "exact") -> Estimate | None:
    """The estimate of one revision; None when there is none."""
    return by_revision(tx, repo, [sha], estimator).get(sha)


def by_revision(
    tx: Transaction, repo: RepoRef, shas: Iterable[str], estimator: str = "exact"
) -> dict[str, Estimate]:
    """The estimates of those of these revisions that have one."""
    repo_id = find_repo(tx, repo)
    here = (estimates.c.repo_id == repo_id, estimates.c.estimator == estimator)
    return {
        row.sha: _estimate(row)
        for chunk in chunks(shas)
        for row in tx.execute(select(estimates).where(*here, estimates.c.sha.in_(chunk)))
    }


def _estimate(row: Row[Any]) -> Estimate:
    return Estimate(
        estimator=row.estimator,
        version=row.version,
        status=EstimateStatus(row.status),
        source=row.source,
        model_type=row.model_type,
        architecture=row.architecture,
        reason=row.reason,
        body=row.body,
    )
