"""The outermost layers of the application, as plain ASGI: who is spoken to, how much is taken, what is new.

`Guard` checks the Host header (DNS rebinding), bounds bodies, and sets the headers that every answer has.
`Conditional` answers 304 where nothing changed, and HEAD like GET without its body.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracker.web.headers import HEADERS
from tracker.web.problems import Refused, problem_response

MOST_BODY = 4 << 20  # bytes of a request: a thousand queries fit
_TOO_LARGE = f"a body has at most {MOST_BODY} bytes"
MOST_HELD = 32 << 20  # bytes of an answer that are held back to name it by its content
_STREAMED = "text/event-stream"
# Its endpoints answer HEAD themselves, without reading what is asked for.
_OWN_HEAD = "/osv/"
_STREAM = "/api/v1/events"


class Guard:
    """Refuses unknown hosts and long bodies; sets headers that are not set yet."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.add_vary_header("Authorization")
                if "authorization" in asked:
                    headers["Cache-Control"] = "private, no-cache"
            await send(message)

        asked = Headers(scope=scope)
        refusal = None
        if _host(asked) not in self._hosts:
            told = "unknown host: use the address hubwatch was started with"
            refusal = problem_response(scope["path"], 421, told, "host", "or name it in allowed_hosts")
        elif _length(asked) > MOST_BODY:
            refusal = problem_response(scope["path"], 413, _TOO_LARGE, TooLarge.code)
        if refusal is not None:
            await refusal(scope, receive, sending)
            return
        await self._app(scope, _Bounded(receive), sending)


class TooLarge(Refused):
    """A body beyond what is taken."""

    code = "too_large"
    status = 413


class _Bounded:
    """Receives a body that says nothing of its length, up to the limit; raises TooLarge beyond it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._taken = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._taken += len(message.get("body", b""))
            if self._taken > MOST_BODY:
                raise TooLarge(_TOO_LARGE)
        return message


class Conditional:
    """Names answers by their content (ETag) and leaves out the body of what the asker has already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; hold a short answer back until it has a name."""
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"
        if scope["path"] == _STREAM:
            await self._app(scope, receive, send)  # never ends: there is nothing to name, and no HEAD of it
            return
        if head and not scope["path"].startswith(_OWN_HEAD):
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, _Held(Headers(scope=scope), send, head=head))


class _Held:
    """One answer on its way out."""

    def __init__(self, asked: Headers, send: Send, *, head: bool) -> None:
        self._asked, self._send, self._head = asked, send, head
        self._start: Message | None = None
        self._body: list[bytes] = []
        self._drop = False  # the body is not to be sent
        self._through = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._through:
            await self._pass_on(message)
        else:
            await self._hold(message)

    async def _begin(self, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        self._start = message
        named = "etag" in headers
        plain = message["status"] != 200 or headers.get("content-type", "").startswith(_STREAMED)
        if plain or named or _length(headers) > MOST_HELD:
            if named and not plain and _fresh(self._asked, headers):
                self._not_modified()
            await self._release()

    async def _hold(self, message: Message) -> None:
        self._body.append(message.get("body", b""))
        if message.get("more_body"):
            if sum(map(len, self._body)) > MOST_HELD:
                await self._release()
            return
        assert self._start is not None  # noqa: S101 - ASGI sends the start first
        headers = MutableHeaders(scope=self._start)
        body = b"".join(self._body)
        # weak: the same content may be sent compressed or not
        headers["ETag"] = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
        if _fresh(self._asked, headers):
            self._not_modified()
        self._body = []
        await self._release()
        await self._pass_on({"type": "http.response.body", "body": body})

    async def _release(self) -> None:
        assert self._start is not None  # noqa: S101 - ASGI sends the start first
        self._through = True
        await self._send(self._start)
        for block in self._body:
            await self._pass_on({"type": "http.response.body", "body": block, "more_body": True})

    async def _pass_on(self, message: Message) -> None:
        if not (self._drop or self._head):
            await self._send(message)
        elif not message.get("more_body"):
            await self._send({"type": "http.response.body", "body": b""})

    def _not_modified(self) -> None:
        assert self._start is not None  # noqa: S101 - ASGI sends the start first
        self._start["status"] = 304
        headers = MutableHeaders(scope=self._start)
        for name in ("content-length", "content-type"):
            if name in headers:
                del headers[name]
        self._drop = True


def _fresh(asked: Headers, answer: Headers) -> bool:
    """Whether the asker has this already (RFC 9110, section 13): by name, or else by time."""
    names = asked.get("if-none-match")
    if names is not None:
        tag = answer["etag"].removeprefix("W/")
        return names.strip() == "*" or tag in {name.strip().removeprefix("W/") for name in names.split(",")}
    since, modified = _time(asked.get("if-modified-since")), _time(answer.get("last-modified"))
    return since is not None and modified is not None and modified <= since


def _time(text: str | None) -> datetime | None:
    try:
        when = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError):
        return None
    return when.replace(tzinfo=UTC) if when is not None and when.tzinfo is None else when


def _host(headers: Headers) -> str:
    """The host that is spoken to, without its port."""
    host = headers.get("host", "").strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _length(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 19 else 0
