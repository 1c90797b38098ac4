"""A webhook receiver on loopback: keeps what it gets and answers as told."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: str

    @property
    def id(self) -> str:
        """The message's id."""
        return self.headers["webhook-id"]

    @property
    def data(self) -> dict[str, Any]:
        """What the message says."""
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is answered: a status, headers, and a body in pieces, each after the other was written."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Callable[[], Iterator[bytes]] = lambda: iter(())
    before: Callable[[], object] = lambda: None


@dataclass(slots=True)
class Receiver:
    """The running server. ``answer`` is asked at every request."""

    url: str
    port: int
    got: list[Got] = field(default_factory=list)
    answer: Callable[[Got], Reply] = lambda _: Reply()

    @property
    def taken(self) -> list[Got]:
        """What was answered with success, once an id: what a receiver that keeps to the rules has seen."""
        return list({item.id: item for item in reversed(self._good)}.values())[::-1]

    _good: list[Got] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, got: Got) -> Reply:
        """Keep a request and say what to answer."""
        with self._lock:
            self.got.append(got)
            reply = self.answer(got)
            if 200 <= reply.status < 300:
                self._good.append(got)
        return reply


@contextmanager
def receiving(port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver for as long as the block runs, on a port of choice, with TLS if asked."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = receiver.take(Got(path=self.path, headers=headers, body=body))
            try:
                reply.before()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                for piece in reply.pieces():
                    self.wfile.write(piece)
            except OSError:
                pass  # the sender has heard enough
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            pass  # a sender that breaks off is no failure of ours

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver = Receiver(url=f"http://127.0.0.1:{server.server_port}/hook", port=server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
