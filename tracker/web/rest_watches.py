"""``/api/v1``, managing: watches, the journal of what was changed, the token in hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response

from advisories.view import plain
from storage import journal, watches
from storage.database import Transaction
from storage.errors import UsageError
from storage.model import OwnerWatch, RepoRef, Scope, Watch
from tracker import watching
from tracker.spans import parse_span
from tracker.views import iso, watch_json
from tracker.watching import Wish
from tracker.web import filters
from tracker.web import watch_schemas as schemas
from tracker.web.access import Member, Reader, Viewer, Writer, record
from tracker.web.context import Here, Web
from tracker.web.filters import OwnerName, RepoName
from tracker.web.paging import page
from tracker.web.problems import OPENAPI_PROBLEMS, OPENAPI_WRITE_PROBLEMS, Conflict
from tracker.web.rest import repo_ref

router = APIRouter(prefix="/api/v1", dependencies=[Depends(filters.once)], responses=OPENAPI_PROBLEMS)
WatchName = Annotated[str, Path(pattern=r"^(\*|[A-Za-z0-9._-]{1,96})$", examples=["tiny-llm"])]


@router.get("/watches", tags=["watches"])
def list_watches(asked: filters.Page, web: Here, viewer: Reader) -> schemas.WatchPage:
    """What is followed, by owner and name."""
    with web.database.snapshot() as tx:
        everything = watches.list_all(tx, public_only=viewer.public_only)
        owners = watches.owners(tx) if asked.cursor is None else []
    found = page(
        "watches",
        asked,
        (str, str, str),
        lambda after, limit: [item for item in everything if after is None or _key(item) > after][:limit],
        _key,
    )
    return schemas.WatchPage(
        watches=[_watch(item) for item in found.items],
        owners=[_owner(item) for item in owners],
        next_cursor=found.next_cursor,
    )


@router.post("/watches", tags=["watches"], status_code=201, responses=OPENAPI_WRITE_PROBLEMS)
def add_watch(
    wanted: schemas.NewWatch, web: Here, viewer: Writer, response: Response
) -> schemas.Watch | schemas.Owner:
    """Follow a repo, or all of an owner's models. Asks the Hub once; history is read by the next check."""
    wish = Wish(
        ref=wanted.ref,
        since=wanted.since,
        from_head=wanted.from_head,
        every=_every(wanted.every),
        public=wanted.public,
    )
    owner = wanted.repo.removesuffix("/*")
    if owner != wanted.repo:
        return _add_owner(web, viewer, owner, wish)
    repo = RepoRef.parse(wanted.repo, endpoint=web.settings.hub.identity)

    def note(tx: Transaction) -> None:
        record(tx, web, viewer, "watch.add", repo.id, {"ref": wish.ref, "public": wish.public})

    added = watching.add(web.database, web.loader.upstream, repo, wish, now=web.clock(), also=note)
    if not added.new:
        raise Conflict(f"{repo.id} is already watched", help="to change how, send PATCH")
    response.headers["Location"] = f"/api/v1/watches/{repo.id}"
    return schemas.Watch.model_validate(plain(watch_json(added.watch) | {"notes": list(added.notes)}))


def _add_owner(web: Web, viewer: Viewer, owner: str, wish: Wish) -> schemas.Owner:
    with web.database.transaction() as tx:
        added, new = watching.add_owner(tx, owner, wish, endpoint=web.settings.hub.identity, now=web.clock())
        if not new:
            raise Conflict(f"{owner}/* is already watched", help="remove it first to change how")
        record(tx, web, viewer, "watch.add", f"{owner}/*", {"public": wish.public})
    return _owner(added)


@router.get("/watches/{owner}/{name}", tags=["watches"])
def get_watch(owner: OwnerName, name: RepoName, web: Here, viewer: Reader) -> schemas.Watch:
    """How one repo is followed."""
    repo = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, repo)
        return _watch(watches.require(tx, repo))


@router.patch("/watches/{owner}/{name}", tags=["watches"], responses=OPENAPI_WRITE_PROBLEMS)
def change_watch(
    owner: OwnerName, name: WatchName, wanted: schemas.WatchChange, web: Here, viewer: Writer
) -> schemas.Watch | schemas.Owner:
    """Pause, resume, open to everybody, or change the interval of a watch; ``*`` stands for all of an owner's."""
    chosen = wanted.model_dump(exclude_unset=True)
    with web.database.transaction() as tx:
        record(tx, web, viewer, "watch.change", f"{owner}/{name}", chosen)
        if name == "*":
            if chosen.keys() != {"paused"}:
                raise UsageError(
                    "of an owner's watch only paused can be changed", help="change each repo's own watch"
                )
            endpoint = web.settings.hub.identity
            watching.pause_owner(tx, owner, paused=chosen["paused"], endpoint=endpoint, now=web.clock())
            return schemas.Owner(owner=owner, paused=chosen["paused"])
        if "every" in chosen:
            chosen["every"] = _every(chosen["every"])
        return _watch(watches.change(tx, repo_ref(web, owner, name), now=web.clock(), **chosen))


@router.delete("/watches/{owner}/{name}", tags=["watches"], status_code=204, responses=OPENAPI_WRITE_PROBLEMS)
def remove_watch(owner: OwnerName, name: WatchName, web: Here, viewer: Writer) -> None:
    """Follow a repo, or with ``*`` all of an owner's, no longer. History and advisories stay."""
    with web.database.transaction() as tx:
        if name == "*":
            watching.remove_owner(tx, owner, endpoint=web.settings.hub.identity)
        else:
            watches.remove(tx, repo_ref(web, owner, name))
        record(tx, web, viewer, "watch.remove", f"{owner}/{name}")


@router.get("/audit-log", tags=["access"])
def audit_log(asked: filters.Page, web: Here, _: Member) -> schemas.Journal:
    """Who changed what, newest first. Needs a token, wherever reading is open."""
    with web.database.snapshot() as tx:
        found = page(
            "journal",
            asked,
            (int,),
            lambda before, limit: journal.entries(tx, before=before[0] if before else None, limit=limit),
            lambda item: (item.id,),
        )
    entries: list[dict[str, Any]] = [
        {
            "id": item.id,
            "at": iso(item.at),
            "actor": item.actor,
            "client": item.client,
            "action": item.action,
            "target": item.target,
            "detail": item.detail,
        }
        for item in found.items
    ]
    return schemas.Journal.model_validate(plain({"entries": entries, "next_cursor": found.next_cursor}))


@router.get("/token", tags=["access"])
def me(viewer: Member) -> schemas.Me:
    """The token that was sent: what it is called and what it allows."""
    scopes = sorted(viewer.token.scopes) if viewer.token else []
    return schemas.Me(name=viewer.name, scopes=[Scope(item) for item in scopes])


def _watch(item: Watch) -> schemas.Watch:
    return schemas.Watch.model_validate(plain(watch_json(item)))


def _owner(item: OwnerWatch) -> schemas.Owner:
    return schemas.Owner(owner=item.owner, paused=item.paused)


def _key(item: Watch) -> tuple[str, str, str]:
    return item.repo.endpoint, item.repo.owner, item.repo.name


def _every(text: str | None) -> timedelta | None:
    if text is None:
        return None
    span = parse_span(text)
    if not span:
        raise UsageError("an interval is more than no time at all", help="write 90s, 30m, 6h or 1d")
    return span
