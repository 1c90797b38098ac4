"""A small server of ``/metrics``, ``/healthz`` and ``/readyz``, for processes without pages and for scrapers.

It knows no tokens and tells numbers only. It binds to loopback unless told otherwise; on another address it
belongs behind a network that only the scraper can reach.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server

import structlog

from storage.errors import UsageError
from tracker.exposition import exposition, registry_of
from tracker.settings import MetricsSettings
from tracker.vitals import Vitals

SILENCE_S = 10.0
"""A connection that says nothing for this long is closed."""
MAX_CONNECTIONS = 32

log = structlog.get_logger("hubwatch.metrics")
_Start = Callable[[str, list[tuple[str, str]]], object]


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        """One thread for each connection, up to a number; more are hung up on."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that hangs up is no news."""
        log.debug("a connection broke", client=str(client_address[0]))


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S  # of the socket, see socketserver.StreamRequestHandler
    server_version = "hubwatch"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Requests for figures are not worth a line."""


ServerHandler.server_software = "hubwatch"


@contextmanager
def serving_metrics(settings: MetricsSettings, vitals: Vitals) -> Iterator[str]:
    """Serve for as long as the block runs; gives the address, "" where no port is set. Raises UsageError."""
    if settings.port is None:
        yield ""
        return
    kind = _Server6 if ":" in settings.host else _Server
    try:
        server = make_server(settings.host, settings.port, _application(vitals), kind, _Handler)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            help="set metrics.port to a free port, or leave it out",
        ) from None
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
    thread.start()
    try:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        yield f"http://{host}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def _application(vitals: Vitals) -> Callable[[dict[str, Any], _Start], Iterable[bytes]]:
    registry = registry_of(vitals)

    def answer(environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        status, kind, body = "200 OK", "text/plain; charset=utf-8", b"ok\n"
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
            status, body = "405 Method Not Allowed", b"only GET\n"
        elif path == "/metrics":
            body, kind = exposition(registry, environ.get("HTTP_ACCEPT", ""))
        elif path == "/readyz":
            troubles = vitals.troubles()
            if troubles:
                status, body = "503 Service Unavailable", "".join(f"{item}\n" for item in troubles).encode()
        elif path != "/healthz":
            status, body = "404 Not Found", b"there is nothing here\n"
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    return answer
