"""Server-sent events: what happens to advisories, as it happens, from any point on.

An idle listener costs no thread: all of them share one look at the database a second, and wait for it in the
event loop. Event ids are numbers that only grow; after a break a reader sends the last one it got.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event
from starlette.types import Receive, Scope, Send

from advisories.osv import summary, timestamp
from advisories.rules.registry import rule_of
from advisories.view import plain
from storage import advisories
from storage.database import Database
from storage.errors import UsageError
from storage.model import RepoRef, Severity, canonical_json
from tracker.settings import Settings
from tracker.web.access import Reader
from tracker.web.problems import OPENAPI_PROBLEMS, Refused

MOST_STREAMS = 100
"""Listeners at once, for one process; more are told to come back."""
LOOK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
LONGEST_SECONDS = 3600.0
"""A stream ends after this long; readers connect again by themselves and go on where they were."""
GRACE = timedelta(seconds=30)
"""How long a number may be missing before it is taken for one that never comes (see `Tail`)."""
_PAGE = 100
_SCAN = 1000
_RETRY_MS = 3000


class TooManyStreams(Refused):
    """Every place for a listener is taken."""

    code = "too_many_streams"
    status = 503
    retryable = True


@dataclass(slots=True)
class Tail:
    """Up to which event number everything is there to be read.

    On PostgreSQL a transaction that took a lower number may commit after one with a higher. So a number counts
    only when all before it are there, or when it is old enough that those missing were given up.
    """

    database: Database
    _safe: int | None = None
    _looked_at: float = field(default=float("-inf"))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def newest(self) -> int:
        """The number, at most about a second old."""
        if self._safe is None or time.monotonic() - self._looked_at >= LOOK_SECONDS:
            return await asyncio.to_thread(self._look)
        return self._safe

    def _look(self) -> int:
        with self._lock:
            if self._safe is None or time.monotonic() - self._looked_at >= LOOK_SECONDS:
                self._safe = self._advance(self._safe)
                self._looked_at = time.monotonic()
            return self._safe

    def _advance(self, safe: int | None) -> int:
        old = datetime.now(UTC) - GRACE
        with self.database.snapshot() as tx:
            if safe is None:
                found = advisories.recent_events(tx, limit=_SCAN)[::-1]
                safe = found[0].number - 1 if found else 0
            else:
                found = advisories.recent_events(tx, after=safe, limit=_SCAN, oldest_first=True)
        for event in found:
            if event.number != safe + 1 and event.at > old and not self.database.is_sqlite:
                break
            safe = event.number
        return safe


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a listener wants to hear of; ``public_only``: only of what is for everybody."""

    repo: RepoRef | None
    owner: str | None
    min_severity: Severity | None
    cls: str | None
    public_only: bool


def router(settings: Settings, database: Database, closing: threading.Event | None = None) -> APIRouter:
    """The routes, over one database. Streams end once ``closing`` is set."""
    made = APIRouter(prefix="/api/v1", tags=["events"])
    tail, places = Tail(database), _Places()

    @made.get(
        "/events",
        summary="What happens to advisories, as it happens",
        response_class=StreamingResponse,
        responses=OPENAPI_PROBLEMS
        | {
            200: {
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
                "description": "Events named by what happened (advisory.opened, advisory.fixed, ...), data JSON.",
            }
        },
    )
    async def events(
        viewer: Reader,
        repo: Annotated[str | None, Query(description="owner/name", max_length=200)] = None,
        owner: Annotated[str | None, Query(max_length=100)] = None,
        min_severity: Annotated[str | None, Query(description="info, low, medium, high", max_length=20)] = None,
        cls: Annotated[str | None, Query(alias="class", description="a change class", max_length=100)] = None,
        since: Annotated[str | None, Query(alias="last_event_id", max_length=30)] = None,
        last_event_id: Annotated[
            str | None, Header(description="the last event that was received: go on behind it", max_length=30)
        ] = None,
    ) -> StreamingResponse:
        """Listen from now on, or from behind the event named by ``Last-Event-ID``."""
        filters = Filters(
            repo=RepoRef.parse(repo, endpoint=settings.hub.identity) if repo else None,
            owner=owner,
            min_severity=Severity.parse(min_severity) if min_severity else None,
            cls=rule_of(cls).cls if cls else None,
            public_only=viewer.public_only,
        )
        after = _number(last_event_id or since)
        newest = await tail.newest()
        places.take()
        cursor = newest if after is None else min(after, newest)
        return _Stream(places, _stream(database, tail, filters, cursor, closing or threading.Event()))

    return made


def _number(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise UsageError("Last-Event-ID is no number of an event", help="send the id of the last event, or none")
    return int(text)


async def _stream(
    database: Database, tail: Tail, filters: Filters, cursor: int, closing: threading.Event
) -> AsyncIterator[bytes]:
    yield format_sse_event(retry=_RETRY_MS, comment="hubwatch")
    ends, written = time.monotonic() + LONGEST_SECONDS, time.monotonic()
    while time.monotonic() < ends and not closing.is_set():
        newest = await tail.newest()
        if newest > cursor:
            page, cursor = await asyncio.to_thread(_read, database, filters, cursor, newest)
            for chunk in page:
                yield chunk
            written = time.monotonic() if page else written
        else:
            await asyncio.sleep(LOOK_SECONDS)
        if time.monotonic() - written >= HEARTBEAT_SECONDS:
            yield format_sse_event(comment="still here")
            written = time.monotonic()


def _read(database: Database, filters: Filters, after: int, newest: int) -> tuple[list[bytes], int]:
    """The next events up to ``newest``, ready to send, and the number up to which all were looked at."""
    with database.snapshot() as tx:
        found = advisories.recent_events(
            tx,
            repo=filters.repo,
            owner=filters.owner,
            min_severity=filters.min_severity,
            cls=filters.cls,
            public_only=filters.public_only,
            after=after,
            before=newest + 1,
            limit=_PAGE,
            oldest_first=True,
        )
        about = {item.event.advisory_id: advisories.get(tx, item.event.advisory_id) for item in found}
    page = []
    for item in found:
        advisory = about[item.event.advisory_id]
        data: dict[str, Any] = {
            "number": item.number,
            "repo": item.repo.id,
            "at": timestamp(item.at),
            "advisory": item.event.advisory_id,
            "action": item.event.action.value,
            "sha": item.event.sha,
            "class": advisory.cls if advisory else None,
            "severity": advisory.severity.label if advisory else None,
            "summary": summary(advisory) if advisory else None,
        }
        page.append(
            format_sse_event(
                event=f"advisory.{item.event.action.value}",
                id=str(item.number),
                data_str=canonical_json(plain(data)),
            )
        )
    return page, found[-1].number if len(found) == _PAGE else newest


@dataclass(slots=True)
class _Places:
    """Counts listeners. Used in the event loop only."""

    taken: int = 0

    def take(self) -> None:
        """Take a place; raises TooManyStreams when there is none."""
        if self.taken >= MOST_STREAMS:
            raise TooManyStreams("too many listeners", help="try again later", headers={"Retry-After": "60"})
        self.taken += 1


class _Stream(StreamingResponse):
    """A stream that gives its place back when it ends, however it ends."""

    def __init__(self, places: _Places, content: AsyncIterator[bytes]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.taken -= 1
