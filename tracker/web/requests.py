"""Every request has an id, a line in the log and a place in the counters."""

from __future__ import annotations

import re
import time
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracker import metrics

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9._-]{8,64}")
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds: told at debug only."""

log = structlog.get_logger("hubwatch.web")


class Requests:
    """Names, logs and counts requests. Takes over a sane ``X-Request-ID``, so that a proxy's log and ours meet."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. The query is never logged: it may hold what a person searched for."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        name = given if _SANE.fullmatch(given) else uuid4().hex[:16]
        # Stays bound: a server runs each request in a task of its own, and a defect is logged further out.
        structlog.contextvars.bind_contextvars(request=name)
        answer = _Answer()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[HEADER] = name
                answer.status = message["status"]
                answer.streamed = headers.get("content-type", "").startswith("text/event-stream")
            await send(message)

        began = time.monotonic()
        try:
            await self._app(scope, receive, sending)
        finally:
            seconds = time.monotonic() - began
            metrics.served(scope, answer.status, None if answer.streamed else seconds)
            if structlog.is_configured():
                _tell(scope, answer.status, seconds)


def _tell(scope: Scope, status: int, seconds: float) -> None:
    tell = log.debug if scope["path"] in _QUIET else log.info
    client = scope.get("client")
    tell(
        "request",
        method=scope["method"],
        path=scope["path"],
        status=status,
        ms=round(seconds * 1000),
        client=client[0] if client else None,
    )


class _Answer:
    """What is known of an answer; one that never began is a defect of ours."""

    status = 500
    streamed = False
