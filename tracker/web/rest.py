"""``/api/v1``, reading: repos, their history, changes, files, estimates, advisories."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from advisories.view import change_json, plain
from storage import catalog, changes, estimates, history
from storage.columns import escape
from storage.database import Transaction
from storage.model import KnownRepo, LandedChange, RecordedRevision, RepoRef
from tracker import views
from tracker.views import iso
from tracker.web import filters, schemas
from tracker.web.access import Reader
from tracker.web.context import Here, Web
from tracker.web.filters import OwnerName, RepoName, Revision
from tracker.web.paging import page
from tracker.web.problems import OPENAPI_PROBLEMS

router = APIRouter(prefix="/api/v1", dependencies=[Depends(filters.once)], responses=OPENAPI_PROBLEMS)
_SEARCH = 20


def repo_ref(web: Web, owner: str, name: str) -> RepoRef:
    """A repo by its name under the configured identity. Raises UsageError."""
    return RepoRef.parse(f"{owner}/{name}", endpoint=web.settings.hub.identity)


@router.get("/repos", tags=["repos"])
def repos(asked: filters.Repos, web: Here, viewer: Reader) -> schemas.RepoPage:
    """The repos that are known here, watched or not, by owner and name."""
    with web.database.snapshot() as tx:
        found = page(
            "repos",
            asked,
            (str, str, str),
            lambda after, limit: catalog.repos_page(
                tx,
                owner=asked.owner,
                text=asked.q,
                watched=asked.watched,
                public_only=viewer.public_only,
                after=after,
                limit=limit,
            ),
            lambda item: (item.repo.owner, item.repo.name, item.repo.endpoint),
        )
    return schemas.RepoPage(repos=[repo_model(item) for item in found.items], next_cursor=found.next_cursor)


@router.get("/repos/{owner}/{name}", tags=["repos"])
def repo(owner: OwnerName, name: RepoName, web: Here, viewer: Reader) -> schemas.Repo:
    """One repo and how it stands."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
        history.require_repo(tx, wanted)
        known = catalog.repo(tx, wanted)
    assert known is not None  # noqa: S101 - required above, in the same snapshot
    return repo_model(known)


@router.get("/repos/{owner}/{name}/revisions", tags=["history"], response_model_exclude_unset=True)
def revisions(
    owner: OwnerName, name: RepoName, asked: filters.Changes, web: Here, viewer: Reader
) -> schemas.History:
    """The revisions of a repo, newest first; with filters, those that changed something that fits."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
        found = page(
            "revisions",
            asked,
            (int,),
            lambda before, limit: history.revisions(
                tx,
                wanted,
                before_position=before[0] if before else None,
                limit=limit,
                since=asked.since,
                cls=asked.cls,
                min_severity=asked.min_severity,
                path=asked.path,
            ),
            lambda item: (item.position,),
        )
        rows = views.revisions_json(tx, wanted, found.items)
    made = {"repo": wanted.id, "revisions": rows, "next_cursor": found.next_cursor}
    return schemas.History.model_validate(plain(made))


@router.get("/repos/{owner}/{name}/revisions/{rev}", tags=["history"])
def revision(owner: OwnerName, name: RepoName, rev: Revision, web: Here, viewer: Reader) -> schemas.Shown:
    """One revision whole: files, gaps, estimate, and the repo's open advisories."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
        made = views.show_json(tx, wanted, history.resolve(tx, wanted, rev))
    return schemas.Shown.model_validate(plain(made))


@router.get("/repos/{owner}/{name}/revisions/{rev}/files", tags=["history"])
def files(
    owner: OwnerName, name: RepoName, rev: Revision, asked: filters.Files, web: Here, viewer: Reader
) -> schemas.FilePage:
    """The files of a revision, by path."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
        sha = history.resolve(tx, wanted, rev).revision.sha
        tree = sorted(history.manifest(tx, wanted, sha).files.values(), key=lambda entry: escape(entry.path))
    found = page(
        "files",
        asked,
        (str,),
        lambda after, limit: [
            entry
            for entry in tree
            if (after is None or escape(entry.path) > after[0]) and entry.path.startswith(asked.prefix or "")
        ][:limit],
        lambda entry: (escape(entry.path),),
    )
    made = {
        "repo": wanted.id,
        "sha": sha,
        "files": list(map(views.file_json, found.items)),
        "next_cursor": found.next_cursor,
    }
    return schemas.FilePage.model_validate(plain(made))


@router.get("/repos/{owner}/{name}/changes", tags=["history"], response_model_exclude_unset=True)
def repo_changes(
    owner: OwnerName, name: RepoName, asked: filters.Changes, web: Here, viewer: Reader
) -> schemas.ChangePage:
    """What changed in a repo, the newest revision first."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
        history.require_repo(tx, wanted)
        return _changes(tx, asked, kind="repo-changes", repo=wanted)


@router.get("/changes", tags=["history"], response_model_exclude_unset=True)
def all_changes(asked: filters.AllChanges, web: Here, viewer: Reader) -> schemas.ChangePage:
    """What changed in any repo, what was read last first."""
    with web.database.snapshot() as tx:
        return _changes(tx, asked, kind="changes", owner=asked.owner, public_only=viewer.public_only)


def _changes(tx: Transaction, asked: filters.ChangeFilter, *, kind: str, **which: Any) -> schemas.ChangePage:
    found = page(
        kind,
        asked,
        (int, int),
        lambda before, limit: changes.search(
            tx,
            cls=asked.cls,
            min_severity=asked.min_severity,
            path=asked.path,
            since=asked.since,
            before=before,
            limit=limit,
            **which,
        ),
        lambda item: item.place,
    )
    made = {"changes": list(map(_landed_json, found.items)), "next_cursor": found.next_cursor}
    return schemas.ChangePage.model_validate(plain(made))


def _landed_json(item: LandedChange) -> dict[str, Any]:
    return change_json(item.finding) | {
        "repo": item.repo.id,
        "sha": item.sha,
        "committed_at": iso(item.committed_at),
        "observed_at": iso(item.observed_at),
    }


@router.get("/repos/{owner}/{name}/diff", tags=["history"], response_model_exclude_unset=True)
def diff(
    owner: OwnerName,
    name: RepoName,
    from_: Annotated[str, Query(alias="from", min_length=1, max_length=255, examples=["3f6c1a0"])],
    web: Here,
    viewer: Reader,
    to: Annotated[str, Query(min_length=1, max_length=255)] = "main",
) -> schemas.Diff:
    """Any two revisions, compared as if one followed the other."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
    return schemas.Diff.model_validate(plain(web.comparer.diff(wanted, from_, to)))


@router.get("/repos/{owner}/{name}/blame", tags=["history"])
def blame(
    owner: OwnerName,
    name: RepoName,
    path: Annotated[filters.FilePath, Query()],
    web: Here,
    viewer: Reader,
    pointer: Annotated[
        str | None, Query(max_length=4096, description="JSON pointer (RFC 6901)", examples=["/rope_theta"])
    ] = None,
) -> schemas.Blame:
    """Which revisions set a file, or the value at a pointer in it."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
    return schemas.Blame.model_validate(plain(views.blame_json(web.database, web.loader, wanted, path, pointer)))


@router.get("/repos/{owner}/{name}/estimates", tags=["history"])
def estimates_over_time(
    owner: OwnerName, name: RepoName, asked: filters.FromWhen, web: Here, viewer: Reader
) -> schemas.EstimatePage:
    """What each revision costs in parameters and memory, newest first."""
    wanted = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, wanted)
        found = page(
            "estimates",
            asked,
            (int,),
            lambda before, limit: history.revisions(
                tx, wanted, before_position=before[0] if before else None, since=asked.since, limit=limit
            ),
            lambda item: (item.position,),
        )
        costs = estimates.by_revision(tx, wanted, [row.revision.sha for row in found.items])
    rows = [
        _dated(row) | {"estimate": views.estimate_json(costs.get(row.revision.sha), short=True)}
        for row in found.items
    ]
    made = {"repo": wanted.id, "estimates": rows, "next_cursor": found.next_cursor}
    return schemas.EstimatePage.model_validate(plain(made))


def _dated(row: RecordedRevision) -> dict[str, Any]:
    return {
        "sha": row.revision.sha,
        "committed_at": iso(row.revision.committed_at),
        "observed_at": iso(row.observed_at),
    }


def repo_model(item: KnownRepo) -> schemas.Repo:
    """A repo as the API shows it."""
    made = {
        "repo": item.repo.id,
        "url": item.repo.url,
        "ref": item.ref,
        "state": str(item.state),
        "canonical": item.canonical,
        "gated": item.gated,
        "private": item.private,
        "public": item.public,
        "restricted": item.restricted,
        "watched": item.watched,
        "paused": item.paused,
        "checked_at": iso(item.checked_at),
        "head": item.head,
        "head_observed_at": iso(item.head_observed_at),
        "revisions": item.revisions,
        "open_advisories": item.open_advisories,
    }
    return schemas.Repo.model_validate(plain(made))
