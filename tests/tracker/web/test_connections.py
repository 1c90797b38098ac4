"""Connections that ask for nothing end, and never use up what the process may open."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from storage.database import Database
from tracker.settings import Settings
from tracker.web import connections
from tracker.web.app import create_app
from tracker.web.server import running_app


@pytest.fixture
def port(sqlite_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "PATIENCE_S", 0.3)
    app = create_app(Settings(database_url="sqlite:///unused.db"), sqlite_database)
    with running_app(app, "127.0.0.1", 0) as url:
        yield int(url.rstrip("/").rpartition(":")[2])


def opened(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=20)
    made.sendall(sent)
    return made


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"POST /v1/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{",
    ],
)
def test_who_does_not_ask_in_time_is_closed(port: int, sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with opened(port, sent) as slow:
        while slow.recv(4096):
            pass  # an answer to a body that did not come may stand before the end
    assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    assert "Traceback" not in caplog.text


def test_an_answer_may_take_its_time(port: int) -> None:
    with opened(port, b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as stream:
        assert b"200 OK" in stream.recv(4096)
        time.sleep(connections.PATIENCE_S * 4)
        stream.settimeout(0.2)
        with contextlib.suppress(TimeoutError):  # nothing to tell is no end
            assert stream.recv(4096), "the stream was closed"


def test_beyond_what_may_be_open_the_newest_goes(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "most_connections", lambda: 2)
    monkeypatch.setattr(connections, "PATIENCE_S", 60.0)
    first, second = opened(port), opened(port)
    with first, second, opened(port) as third:
        assert _ended(third)
        first.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in first.recv(4096)


def _ended(connection: socket.socket) -> bool:
    """Whether the other side closed a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_an_open_event_stream_ends_whole_when_the_server_stops(
    sqlite_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(Settings(database_url="sqlite:///unused.db"), sqlite_database)
    with running_app(app, "127.0.0.1", 0) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        stream = opened(port, b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        heard = b""
        while b"hubwatch" not in heard:
            heard += stream.recv(4096)
    with stream:
        while more := stream.recv(4096):
            heard += more
    assert heard.endswith(b"0\r\n\r\n")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
