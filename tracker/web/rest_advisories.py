"""``/api/v1``, reading: advisories as OSV documents, and search."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from advisories.osv import status, summary
from advisories.osv_model import OsvDocument
from advisories.publish import document_of, documents_of
from storage import advisories, catalog, history
from storage.database import Transaction
from storage.errors import NotFound
from storage.model import Advisory
from tracker.web import filters, schemas
from tracker.web.access import Reader
from tracker.web.context import Here
from tracker.web.filters import OwnerName, RepoName
from tracker.web.paging import moment, moment_key, page
from tracker.web.problems import OPENAPI_PROBLEMS
from tracker.web.rest import repo_model, repo_ref

router = APIRouter(prefix="/api/v1", dependencies=[Depends(filters.once)], responses=OPENAPI_PROBLEMS)
_SEARCH = 20


@router.get("/advisories", tags=["advisories"], response_model_exclude_unset=True)
def all_advisories(asked: filters.Advisories, web: Here, viewer: Reader) -> schemas.AdvisoryPage:
    """The advisories of every repo as OSV documents, newest first."""
    with web.database.snapshot() as tx:
        return _advisories(tx, asked, owner=asked.owner, public_only=viewer.public_only)


@router.get("/repos/{owner}/{name}/advisories", tags=["advisories"], response_model_exclude_unset=True)
def repo_advisories(
    owner: OwnerName, name: RepoName, asked: filters.Advisories, web: Here, viewer: Reader
) -> schemas.AdvisoryPage:
    """The advisories of one repo as OSV documents, newest first."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
        history.require_repo(tx, wanted)
        return _advisories(tx, asked, repo=wanted)


@router.get("/advisories/{advisory_id}", tags=["advisories"], response_model_exclude_unset=True)
def advisory(advisory_id: str, web: Here, viewer: Reader) -> OsvDocument:
    """One advisory as its OSV document."""
    with web.database.snapshot() as tx:
        found = advisories.get(tx, advisory_id) if advisory_id.isprintable() else None
        if found is not None:
            viewer.require(tx, found.repo)
        made = None if found is None else document_of(tx, found.id)
    if made is None:
        raise NotFound(f"there is no advisory {advisory_id[:100]!r} here", help="see /api/v1/advisories")
    return OsvDocument.model_validate(made)


def _advisories(tx: Transaction, asked: filters.AdvisoryFilter, **which: Any) -> schemas.AdvisoryPage:
    found = page(
        "advisories",
        asked,
        (int, str),
        lambda before, limit: advisories.search(
            tx,
            cls=asked.cls,
            min_severity=asked.min_severity,
            path=asked.path,
            since=asked.since,
            state=asked.state,
            before=None if before is None else (moment(before[0]), before[1]),
            limit=limit,
            **which,
        ),
        lambda item: (moment_key(item.published), item.id),
    )
    made = list(documents_of(tx, found.items))
    return schemas.AdvisoryPage.model_validate({"advisories": made, "next_cursor": found.next_cursor})


@router.get("/search", tags=["search"])
def search(
    q: Annotated[str, Query(min_length=2, max_length=200, examples=["tiny"])],
    web: Here,
    viewer: Reader,
    limit: Annotated[int, Query(ge=1, le=100)] = _SEARCH,
) -> schemas.Results:
    """Repos by a part of their name, revisions by the beginning of their sha, advisories by id or class."""
    hidden = viewer.public_only
    sha = q.lower() if len(q) >= history.MIN_PREFIX else ""
    with web.database.snapshot() as tx:
        hits = (
            []
            if not q.isprintable()
            else advisories.search(tx, id_prefix=q, public_only=hidden, limit=limit)
            or advisories.search(tx, cls=q, public_only=hidden, limit=limit)
        )
        return schemas.Results(
            repos=[repo_model(item) for item in catalog.repos_page(tx, text=q, public_only=hidden, limit=limit)],
            revisions=[
                schemas.Found(repo=item.id, sha=found)
                for item, found in catalog.find_commits(tx, sha, public_only=hidden, limit=limit)
            ],
            advisories=[_hit(item) for item in hits],
        )


def _hit(item: Advisory) -> schemas.Hit:
    return schemas.Hit(
        id=item.id,
        repo=item.repo.id,
        severity=item.severity.label,
        state=status(item),
        summary=summary(item),
    )
