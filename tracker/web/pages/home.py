"""``/``: what changed today, what is watched and how that stands, and search."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import RedirectResponse

from advisories.osv import status, summary
from advisories.rules.registry import by_class
from storage import advisories, catalog, changes, glance, history, watches
from storage.database import Transaction
from storage.model import Advisory, KnownRepo, RepoRef, Severity
from tracker.web.access import Member, Reader, Viewer
from tracker.web.context import Here
from tracker.web.pages.render import PageRoute, html
from tracker.web.pages.returned import Landed, marked

_TODAY = timedelta(hours=24)
_CHANGES = 40
_ADVISORIES = 20
_WATCHED = 100
_HITS = 20

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """What a search found."""

    repos: list[KnownRepo]
    commits: list[tuple[RepoRef, str]]
    advisories: list[tuple[Advisory, str]]
    changes: list[Landed]
    classes: list[str]

    @property
    def nothing(self) -> bool:
        """Whether it found nothing at all."""
        return not (self.repos or self.commits or self.advisories or self.changes or self.classes)


@router.get("/")
def home(web: Here, viewer: Reader, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The home page; with ``q`` what that finds."""
    q = q.strip()
    hidden = viewer.public_only
    now = web.clock()
    with web.database.snapshot() as tx:
        if q:
            return html("search.html", q=q, hits=_search(tx, q, viewer))
        watched = watches.list_all(tx, public_only=hidden)
        newest = advisories.search(tx, min_severity=Severity.LOW, public_only=hidden, limit=_ADVISORIES)
        today = marked(
            tx,
            changes.search(tx, since=now - _TODAY, min_severity=Severity.LOW, public_only=hidden, limit=_CHANGES),
        )
        counts = {
            item.repo: item.open_advisories for item in catalog.repos_page(tx, watched=True, public_only=hidden)
        }
    return html(
        "home.html",
        now=now,
        watched=watched[:_WATCHED],
        watched_total=len(watched),
        failing=[watch for watch in watched if watch.last_error and watch.errors],
        open=counts,
        newest=[(item, status(item), summary(item)) for item in newest],
        today=today,
    )


@router.get("/sign-in")
def sign_in(_: Member) -> Response:
    """Let a browser ask for a token, which it then sends along; back to the beginning."""
    return RedirectResponse("/", status_code=303)


def _search(tx: Transaction, q: str, viewer: Viewer) -> Hits:
    """Repos by name, revisions by sha, advisories by id, changes by class, by file or by the key of a config."""
    hidden, limit = viewer.public_only, _HITS
    plain = q.isprintable()
    sha = q.lower() if len(q) >= history.MIN_PREFIX else ""
    found = advisories.search(tx, id_prefix=q, public_only=hidden, limit=limit) if plain else []
    found = found or (advisories.search(tx, cls=q, public_only=hidden, limit=limit) if plain else [])
    return Hits(
        repos=catalog.repos_page(tx, text=q, public_only=hidden, limit=limit),
        commits=catalog.find_commits(tx, sha, public_only=hidden, limit=limit),
        advisories=[(item, summary(item)) for item in found],
        changes=marked(tx, glance.changes_of_key(tx, q, public_only=hidden, limit=limit)),
        classes=[cls for cls in by_class() if q.lower() in cls][:limit],
    )
