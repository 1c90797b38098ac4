"""The web application: health, feeds, and a first page that says what is watched."""

from __future__ import annotations

from email.utils import format_datetime
from pathlib import Path

from advisories.feeds.atom import atom
from advisories.feeds.entries import entries_of
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from jinja2 import Environment, PackageLoader, select_autoescape

from advisories import publish
from storage import history, schema, watches
from storage.database import Database
from storage.errors import HubwatchError, NotFound, UsageError
from storage.model import RepoRef
from tracker.settings import Settings

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STATIC = Path(__file__).parent / "static"


def create_app(settings: Settings, database: Database) -> FastAPI:
    """Make the application over one database. It only reads."""
    app = FastAPI(title="hubwatch", docs_url=None, redoc_url=None)
    pages = Environment(loader=PackageLoader("tracker.web"), autoescape=select_autoescape(default=True))

    @app.middleware("http")
    async def guard(request: Request, call_next):  # type: ignore[no-untyped-def]
        if not _known_host(request, settings):
            return PlainTextResponse("unknown host: use the address hubwatch was started with", status_code=421)
        response = await call_next(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(HubwatchError)
    async def refused(_: Request, error: HubwatchError) -> Response:
        status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 503
        return PlainTextResponse(str(error), status_code=status)

    @app.get("/healthz", response_class=PlainTextResponse)
    def healthz() -> str:
        """Alive: the process answers."""
        return "ok\n"

    @app.get("/readyz", response_class=PlainTextResponse)
    def readyz() -> str:
        """Ready: the database answers and has our schema."""
        schema.require_current(database)
        return "ok\n"

    @app.get("/feeds/{owner}/{name}.atom")
    def repo_feed(owner: str, name: str, request: Request) -> Response:
        """The advisories of one repo, newest first."""
        repo = RepoRef.parse(f"{owner}/{name}", endpoint=settings.hub.identity)
        with database.snapshot() as tx:
            history.require_repo(tx, repo)
            entries = entries_of(tx, repo, limit=50)
        body, updated = atom(repo, entries, self_url=str(request.url))
        return Response(
            body,
            media_type="application/atom+xml",
            headers={"Last-Modified": format_datetime(updated, usegmt=True)} if updated else {},
        )

    @app.get("/advisories/{advisory_id}")
    def advisory(advisory_id: str) -> Response:
        """One advisory's OSV document."""
        with database.snapshot() as tx:
            document = publish.document_of(tx, advisory_id)
        if document is None:
            raise HTTPException(404, "no such advisory")
        return Response(publish.to_json(document), media_type="application/json")

    @app.get("/style.css")
    def style() -> Response:
        """The one stylesheet."""
        return Response((_STATIC / "style.css").read_bytes(), media_type="text/css")

    @app.get("/", response_class=HTMLResponse)
    def home() -> str:
        """What is watched, and the newest advisories above `info`."""
        with database.snapshot() as tx:
            watched = watches.list_all(tx)
            newest = publish.newest(tx, limit=30)
        return pages.get_template("home.html").render(watched=watched, newest=newest)

    return app


def _known_host(request: Request, settings: Settings) -> bool:
    """Refuse names that were rebound to a loopback address (DNS rebinding)."""
    host = request.headers.get("host", "").rsplit(":", 1)[0].strip("[]").lower()
    return host in {"localhost", "127.0.0.1", "::1", "testserver", settings.host.lower(), *settings.allowed_hosts}
