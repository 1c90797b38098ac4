"""HTTP on loopback: what was asked, what is answered, and a threaded server between the two.

The server knows nothing of the Hub; it hands a `Request` to a callable and sends the `Response`, and it can
misbehave on the wire when a response says so (cut the body short, declare a false length, reset).
"""

from __future__ import annotations

import contextlib
import email.utils
import gzip
import json
import logging
import re
import socket
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote

# No request of a Hub client or of git comes near this.
BODY_LIMIT = 64 << 20

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Request:
    """One request. ``raw_path`` is as sent, ``path`` unquoted; ``query`` keeps order and repeats.

    ``kind`` is api, resolve, storage, git or other; ``stopping`` is set when the server ends.
    ``pins`` lets a fault answer for another sha than the one a ref has; ``link_life`` how long, in seconds,
    signed links made for this request are good.
    """

    method: str
    raw_path: str
    raw_query: str
    headers: Mapping[str, str]
    body: bytes
    origin: str
    stopping: threading.Event
    kind: str = "other"
    pins: dict[str, str] = field(default_factory=dict)
    link_life: float = 3600.0

    @property
    def path(self) -> str:
        """The path, unquoted."""
        return unquote(self.raw_path, errors="replace")

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query's pairs in order."""
        return parse_qsl(self.raw_query, keep_blank_values=True)

    def first(self, name: str) -> str | None:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), None)

    def every(self, name: str) -> list[str]:
        """All values of a query parameter, ``name`` and ``name[]`` alike."""
        return [value for key, value in self.query if key in {name, f"{name}[]"}]

    def header(self, name: str) -> str | None:
        """A header by its name in any case."""
        return self.headers.get(name.lower())


@dataclass(slots=True, kw_only=True)
class Response:
    """One answer. A ``body`` that is not bytes is streamed: in chunks, or under the declared ``length``.

    ``cut_after`` closes the connection after so many bytes of body; ``reset`` sends a TCP reset instead of
    an answer.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Iterable[bytes] = b""
    length: int | None = None
    cut_after: int | None = None
    reset: bool = False

    def whole(self) -> bytes:
        """The body as bytes; a stream is read out, so only for answers known to be small."""
        if not isinstance(self.body, bytes):
            self.body = b"".join(self.body)
        return self.body


@dataclass(slots=True, kw_only=True)
class RequestRecord:
    """What is remembered of a request: ``kind`` is api, resolve, storage, git or other."""

    method: str
    path: str
    query: str
    kind: str
    range: str | None
    authorization: bool
    status: int = 0
    bytes_sent: int = 0


def json_response(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    fields = {"Content-Type": "application/json; charset=utf-8", "ETag": weak_etag(body)}
    return Response(status=status, headers={**fields, **(headers or {})}, body=body)


def text_response(text: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in plain text."""
    body = text.encode("utf-8", "replace")
    fields = {"Content-Type": "text/plain; charset=utf-8", "ETag": weak_etag(body)}
    return Response(status=status, headers={**fields, **(headers or {})}, body=body)


def header_value(text: str) -> str:
    """A text made safe to stand in a header."""
    return re.sub(r"[\r\n\0]", " ", text).encode("latin-1", "replace").decode("latin-1")


def weak_etag(body: bytes) -> str:
    """The Hub's form of a weak tag: the length in hex and a hash."""
    return f'W/"{len(body):x}-{zlib.crc32(body):08x}"'


class LoopbackServer(ThreadingHTTPServer):
    """A server on 127.0.0.1 that answers with a callable and remembers what crashed."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        answer: Callable[[Request, RequestRecord], Response],
        record: Callable[[Request], RequestRecord],
        *,
        port: int = 0,
    ) -> None:
        self.answer = answer
        self.record = record
        self.stopping = threading.Event()
        self.crashes: list[BaseException] = []
        self._open: set[socket.socket] = set()
        self._thread: threading.Thread | None = None
        super().__init__(("127.0.0.1", port), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Answer from a background thread."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), name="loopback", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and close every connection."""
        self.stopping.set()
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
            self._thread = None
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, so that `stop` can close it."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is normal; anything else is a fault of this server, kept for tests."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self.crashes.append(error)
            log.error("the loopback server failed", exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "loopback"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1
    server: LoopbackServer

    def do_GET(self) -> None:
        """Answer any method."""
        body = self._body()
        if body is None:
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        request = Request(
            method=self.command,
            raw_path=path,
            raw_query=query,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body,
            origin=self.server.origin,
            stopping=self.server.stopping,
        )
        record = self.server.record(request)
        self._send(self.server.answer(request, record), record)

    do_HEAD = do_GET  # noqa: N815 - http.server's names
    do_POST = do_GET  # noqa: N815
    do_PUT = do_GET  # noqa: N815
    do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep quiet: the hub has its own list of requests."""

    def _body(self) -> bytes | None:
        if "chunked" in (self.headers.get("Transfer-Encoding") or "").lower():
            data = b"".join(self._chunks())
        else:
            size = self.headers.get("Content-Length") or "0"
            if not size.isdecimal() or int(size) > BODY_LIMIT:
                return None
            data = self.rfile.read(int(size))
        if self.headers.get("Content-Encoding") == "gzip":
            try:
                return gzip.decompress(data)
            except (OSError, EOFError, zlib.error):
                return None
        return data

    def _chunks(self) -> Iterator[bytes]:
        total = 0
        while total <= BODY_LIMIT:
            line = self.rfile.readline(100).split(b";")[0].strip()
            try:
                size = int(line, 16)
            except ValueError:
                return
            if size <= 0:
                self.rfile.readline(100)
                return
            total += size
            yield self.rfile.read(min(size, BODY_LIMIT))
            self.rfile.readline(100)

    def _send(self, response: Response, record: RequestRecord) -> None:
        record.status = response.status
        if response.reset:
            # linger 0: closing sends RST, not FIN
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        body = response.body
        length = len(body) if isinstance(body, bytes) and response.length is None else response.length
        self.send_response_only(response.status)
        for name, value in ({"Date": email.utils.formatdate(usegmt=True)} | response.headers).items():
            self.send_header(name, header_value(value))
        bodiless = self.command == "HEAD" or response.status in {204, 304}
        if length is not None:
            self.send_header("Content-Length", str(length))
        elif not bodiless:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if not bodiless:
            self._send_body(response, record, chunked=length is None)
        self.wfile.flush()

    def _send_body(self, response: Response, record: RequestRecord, *, chunked: bool) -> None:
        left = response.cut_after
        for piece in (response.body,) if isinstance(response.body, bytes) else response.body:
            data = piece if left is None else piece[:left]
            if data:
                # counted first: who has read it all may look at the record at once
                record.bytes_sent += len(data)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
                if not isinstance(response.body, bytes):
                    self.wfile.flush()
            if left is not None:
                left -= len(data)
                if left <= 0:
                    break
        # a body that is not what was declared ends with the connection
        if response.cut_after is not None or response.length not in {None, record.bytes_sent}:
            self.close_connection = True
        elif chunked:
            self.wfile.write(b"0\r\n\r\n")
