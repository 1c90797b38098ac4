"""Making the pages once before anybody asks: templates are compiled, statements built, a connection opened."""

from __future__ import annotations

import asyncio
import contextlib

from fastapi import FastAPI
from starlette.types import Message

from storage import catalog
from storage.errors import HubwatchError
from tracker.web.access import Viewer
from tracker.web.context import Web
from tracker.web.pages import changes, estimators, home, model, watches
from tracker.web.pages.render import TEMPLATES

_NOBODY = Viewer(token=None, client="")
_LOOKED_AT = 20


def warm(app: FastAPI) -> None:
    """Do what the first visitor would wait for; a database that is no good is left for them to meet.

    Called where no event loop runs.
    """
    web: Web = app.state.web
    asyncio.run(_ask(app, "/healthz"))  # routes and layers are made when first asked
    for name in TEMPLATES.list_templates():
        TEMPLATES.get_template(name)
    with contextlib.suppress(HubwatchError):
        estimators.estimators(_NOBODY)
        home.home(web, _NOBODY)
        watches.show(web, _NOBODY)
        with web.database.snapshot() as tx:
            known = catalog.repos_page(tx, public_only=True, limit=_LOOKED_AT)
        item = next((item for item in known if item.head is not None), None)
        if item is not None:
            model.model(item.repo.owner, item.repo.name, web, _NOBODY)
            changes.timeline(item.repo.owner, item.repo.name, changes.Asked(), web, _NOBODY)


async def _ask(app: FastAPI, path: str) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: Message) -> None:
        pass

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
