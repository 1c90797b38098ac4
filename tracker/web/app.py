"""The web application: the REST API, the OSV API and bulk files, feeds, health, and the pages."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.gzip import GZipMiddleware

from advisories.query import Source, StoredSource
from storage.database import Database, Transaction
from tracker.estimating import exact_estimator
from tracker.examine import Examiner
from tracker.hub.client import HubClient
from tracker.loader import Loader
from tracker.probe.meta import MetaCounter
from tracker.probe.render import Prober
from tracker.settings import Settings
from tracker.snapshot.build import Parser
from tracker.vitals import Vitals
from tracker.web import (
    events,
    feeds,
    hooks,
    osv_api,
    pages,
    probes,
    problems,
    rest,
    rest_advisories,
    rest_subscriptions,
    rest_watches,
)
from tracker.web.access import BEARER
from tracker.web.bulk import Bulk
from tracker.web.compare import Comparer
from tracker.web.context import SourceOf, Web
from tracker.web.edge import Conditional, Guard
from tracker.web.limits import Limiter
from tracker.web.pages.render import refused
from tracker.web.requests import Requests

ROUTERS = (
    rest.router,
    rest_advisories.router,
    rest_watches.router,
    rest_subscriptions.router,
    osv_api.router,
    feeds.router,
    hooks.router,
    pages.router,
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "testserver")
_ABOUT = (
    "What changed in the model repos that are followed here, and the advisories about it. Reading is open or "
    "needs a token, writing one of scope `write` (`hubwatch token create`). Lists are paged by `cursor`; every "
    "refusal is a problem (RFC 9457). `/v1` and `/osv` speak as OSV clients expect."
)


def create_app(
    settings: Settings,
    database: Database,
    *,
    loader: Loader | None = None,
    examiner: Examiner | None = None,
    source: SourceOf | None = None,
    vitals: Vitals | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> FastAPI:
    """Make the application over one database.

    ``loader``, ``examiner`` and ``vitals`` are the daemon's, else its own; ``source`` is where OSV queries are
    answered from, the database unless given.
    """
    loader = loader or Loader(_upstream(settings), database, Parser())
    app = FastAPI(
        title="hubwatch",
        version=importlib.metadata.version("hubwatch"),
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.web = Web(
        settings=settings,
        database=database,
        loader=loader,
        comparer=Comparer(database, loader, examiner or _examiner(settings)),
        bulk=Bulk(settings, database),
        source=source or _stored,
        limiter=Limiter(settings.web.writes_per_minute),
        clock=clock,
    )
    app.state.closing = threading.Event()  # set when the server stops: open streams end by themselves
    problems.install(app, refused)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(events.router(settings, database, app.state.closing))
    app.include_router(probes.router(settings, vitals or Vitals(database, clock, ("web",))))
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    # the last one added sees a request first
    app.add_middleware(Conditional)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=5)
    app.add_middleware(Guard, hosts={*_LOOPBACK, settings.host.lower(), *map(str.lower, settings.allowed_hosts)})
    app.add_middleware(Requests)
    return app


def _stored(tx: Transaction, public_only: bool) -> Source:
    return StoredSource(tx, public_only=public_only)


def _upstream(settings: Settings) -> HubClient:
    token = settings.hub.token.get_secret_value() if settings.hub.token else None
    return HubClient(settings.hub.endpoint, token, deadline_s=settings.hub.deadline_seconds)


def _examiner(settings: Settings) -> Examiner:
    return Examiner(Prober(), exact_estimator(settings.estimate.transformers, MetaCounter()))


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The description, with the shape of problems, and with the token where it is of use but not required."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = made.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = problems.Problem.model_json_schema()
        components.setdefault("securitySchemes", {})[BEARER.scheme_name] = BEARER.model.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        for operations in made["paths"].values():
            for about in operations.values():
                about.setdefault("security", [{}, {BEARER.scheme_name: []}])
        app.openapi_schema = made
    return app.openapi_schema
