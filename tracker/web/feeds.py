"""Atom and JSON feeds: of everything, of an owner's repos, of one repo."""

from __future__ import annotations

from email.utils import format_datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from advisories.feeds import atom, jsonfeed
from advisories.feeds.entries import Links, Scope, page_of
from storage import catalog, history
from storage.database import Transaction
from storage.errors import NotFound
from storage.model import RepoRef
from tracker.web import cursors
from tracker.web.access import Reader, Viewer
from tracker.web.context import Here, Web
from tracker.web.filters import ClassName, OwnerName, RepoName, SeverityWord, once, refuse
from tracker.web.problems import OPENAPI_PROBLEMS

PAGE = 50
_CURSOR = "feed"
_PARAMETERS = frozenset({"class", "min_severity", "cursor"})
Format = Literal["atom", "json"]


def known(request: Request) -> None:
    """Refuse unknown parameters: a filter with a slip must not say "all"."""
    refuse(sorted(request.query_params.keys() - _PARAMETERS), "is no parameter of a feed")


router = APIRouter(
    tags=["feeds"],
    dependencies=[Depends(known), Depends(once)],
    responses={
        200: {
            "description": "the feed; `next` links lead to older entries (RFC 5005)",
            "content": {atom.MEDIA_TYPE: {}, jsonfeed.MEDIA_TYPE: {}},
        },
        **OPENAPI_PROBLEMS,
    },
)
Class = Annotated[ClassName | None, Query(alias="class", description="one change class")]
Least = Annotated[SeverityWord | None, Query(description="this severity and above")]
Cursor = Annotated[str | None, Query(max_length=cursors.LONGEST, description="from the `next` link of a page")]


@router.get("/feeds/all.{kind}", response_class=Response)
def all_feed(
    kind: Format,
    request: Request,
    web: Here,
    viewer: Reader,
    cls: Class = None,
    min_severity: Least = None,
    cursor: Cursor = None,
) -> Response:
    """What happened to the advisories of every watched repo, the latest first."""
    return _Feed(request, web, viewer, kind, cls, min_severity, cursor).answer(None)


@router.get("/feeds/{owner}.{kind}", response_class=Response)
def owner_feed(
    owner: OwnerName,
    kind: Format,
    request: Request,
    web: Here,
    viewer: Reader,
    cls: Class = None,
    min_severity: Least = None,
    cursor: Cursor = None,
) -> Response:
    """The same for the repos of one owner."""
    return _Feed(request, web, viewer, kind, cls, min_severity, cursor).answer(owner)


@router.get("/feeds/{owner}/{name}.{kind}", response_class=Response)
def repo_feed(
    owner: OwnerName,
    name: RepoName,
    kind: Format,
    request: Request,
    web: Here,
    viewer: Reader,
    cls: Class = None,
    min_severity: Least = None,
    cursor: Cursor = None,
) -> Response:
    """The same for one repo."""
    repo = RepoRef.parse(f"{owner}/{name}", endpoint=web.settings.hub.identity)
    return _Feed(request, web, viewer, kind, cls, min_severity, cursor).answer(repo)


class _Feed:
    """One request for a feed."""

    def __init__(
        self,
        request: Request,
        web: Web,
        viewer: Viewer,
        kind: Format,
        cls: str | None,
        min_severity: Any,
        cursor: str | None,
    ) -> None:
        self._web, self._viewer, self._kind = web, viewer, kind
        self._before = cursors.decode(_CURSOR, cursor, int)
        self._cursor = cursor
        self._filters = {"cls": cls, "min_severity": min_severity}
        # made anew from what was understood: nothing else of a request comes back in a feed
        self._url = str(request.url.replace(query="", fragment=""))
        self._shown = {
            "class": cls,
            "min_severity": None if min_severity is None else min_severity.label,
        }

    def answer(self, scope: Scope) -> Response:
        """The feed about a repo, an owner or everything. Raises NotFound where nothing is known of it."""
        with self._web.database.snapshot() as tx:
            self._require(tx, scope)
            page = page_of(
                tx,
                scope if isinstance(scope, RepoRef) else None,
                owner=scope if isinstance(scope, str) else None,
                public_only=self._viewer.public_only,
                before=self._before[0] if self._before else None,
                limit=PAGE,
                policy=self._web.settings.house_policy,
                **self._filters,
            )
        links = Links(
            self_url=self._address(self._cursor),
            first_url=self._address(None),
            next_url=None if page.older is None else self._address(cursors.encode(_CURSOR, page.older)),
        )
        format_ = atom if self._kind == "atom" else jsonfeed
        make = atom.atom if self._kind == "atom" else jsonfeed.jsonfeed
        body, updated = make(scope, page.entries, links)
        headers = {"Last-Modified": format_datetime(updated, usegmt=True)} if updated else {}
        return Response(body, media_type=format_.MEDIA_TYPE, headers=headers)

    def _require(self, tx: Transaction, scope: Scope) -> None:
        if isinstance(scope, RepoRef):
            self._viewer.require(tx, scope)
            history.require_repo(tx, scope)
        elif scope is not None and not catalog.repos_page(
            tx, owner=scope, public_only=self._viewer.public_only, limit=1
        ):
            raise NotFound(f"no repo of {scope} is known here", help=f"run: hubwatch watch add '{scope}/*'")

    def _address(self, cursor: str | None) -> str:
        chosen = {key: value for key, value in {**self._shown, "cursor": cursor}.items() if value is not None}
        return f"{self._url}?{urlencode(chosen)}" if chosen else self._url
