"""The end of waiting: one deadline over an operation, known to every socket it uses.

A timeout of the HTTP library bounds one silence, so that a server which trickles a header or a body can hold
a thread for hours. Here every read and write of a socket is bounded by what is left of the operation. The
operation is in a context variable: connections are kept and shared, deadlines belong to who waits.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore2
import httpx2

DEFAULT_DEADLINE_S = 120.0
DEFAULT_CONNECT_S = 10.0
DEFAULT_READ_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing asked of the Hub, in as many requests as it takes.

    ``ends`` is on the monotonic clock; ``connect_s`` and ``read_s`` bound one connect and one read.
    ``observe`` sees every response before its body is read.
    """

    ends: float
    connect_s: float = DEFAULT_CONNECT_S
    read_s: float = DEFAULT_READ_S
    observe: Callable[[httpx2.Response], None] | None = None

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.ends - time.monotonic())


_CURRENT: ContextVar[Operation | None] = ContextVar("hubwatch_operation", default=None)


def current_operation() -> Operation:
    """The operation this thread is in; a fresh one with default limits when the library is used by itself."""
    return _CURRENT.get() or Operation(ends=time.monotonic() + DEFAULT_DEADLINE_S)


def time_left() -> float | None:
    """Seconds until the operation that this thread is in has to be over; None when it is in none."""
    current = _CURRENT.get()
    return current.remaining() if current else None


@contextmanager
def operation(
    seconds: float,
    *,
    connect_s: float = DEFAULT_CONNECT_S,
    read_s: float = DEFAULT_READ_S,
    observe: Callable[[httpx2.Response], None] | None = None,
) -> Iterator[Operation]:
    """Everything sent inside has to be over within ``seconds``; an outer, earlier deadline stays in force."""
    outer = _CURRENT.get()
    ends = time.monotonic() + seconds
    inner = Operation(
        ends=min(ends, outer.ends) if outer else ends, connect_s=connect_s, read_s=read_s, observe=observe
    )
    token = _CURRENT.set(inner)
    try:
        yield inner
    finally:
        _CURRENT.reset(token)


class _DeadlineStream(httpcore2.NetworkStream):
    """A socket on which no single read or write outlasts the operation it serves."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _bounded(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _bounded(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        bounded = _bounded(timeout, httpcore2.ConnectTimeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, bounded))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class DeadlineBackend(httpcore2.SyncBackend):
    """Opens sockets that know the deadline."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect, within the operation's time."""
        bounded = _bounded(timeout, httpcore2.ConnectTimeout)
        try:
            stream = super().connect_tcp(host, port, bounded, local_address, socket_options)
        except UnicodeError:  # a name that no resolver can be asked for: a label of 64 characters
            raise httpcore2.ConnectError("not a host name") from None
        return _DeadlineStream(stream)


def _bounded(timeout: float | None, expired: type[Exception]) -> float:
    now = current_operation()
    left = now.remaining()
    if left <= 0:
        raise expired("deadline over")
    return min(left, now.read_s if timeout is None else timeout)
