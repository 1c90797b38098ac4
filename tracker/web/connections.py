"""Connections that ask for nothing, or for ever: closed, so that they cannot use up what a process may open."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S = 20.0
"""A request must be sent whole, head and body, within one to two of these; an answer may take its time."""
SPARE_FILES = 256
"""Files that connections leave to the database, the Hub and the probes."""
MOST = 2_000
"""Connections at a time, where the process may have so many files open."""


class Impatient(H11Protocol):
    """Uvicorn's protocol, with an end to waiting for a request, and to how many may wait."""

    _watch: asyncio.TimerHandle | None = None
    _seen: tuple[int, Any] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or close it at once when there are too many."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()
            return
        self._watch = self.loop.call_later(PATIENCE_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching it."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close the connection if it is still at the same unsent request as the last time."""
        state = self.conn.their_state
        now = (id(self.cycle), state)
        if state in {h11.IDLE, h11.SEND_BODY} and now == self._seen:
            self.transport.close()
            return
        self._seen = now
        self._watch = self.loop.call_later(PATIENCE_S, self._look)


def most_connections() -> int:
    """How many connections may be open at a time."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if allowed == resource.RLIM_INFINITY else max(16, min(MOST, allowed - SPARE_FILES))
