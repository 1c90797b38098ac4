"""What may stand in a log, and in which shape."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from fastapi.testclient import TestClient

from storage.database import Database
from storage.model import RepoRef
from tests.tracker.hub.scripted import Script, reply
from tracker.hub.client import HubClient
from tracker.log import MAX_TEXT, configure_logging, louder, shown
from tracker.settings import Settings
from tracker.web.app import create_app


class Said:
    """What was written to stderr since the test began."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture, self._text = capture, ""

    def getvalue(self) -> str:
        self._text += self._capture.readouterr().err
        return self._text


@pytest.fixture
def stderr(capsys: pytest.CaptureFixture[str]) -> Iterator[Said]:
    """What is logged; the process's logging is as it was afterwards."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    yield Said(capsys)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers


def lines(said: Said) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.getvalue().splitlines()]


def test_json_lines_have_a_time_in_utc_and_what_is_bound(stderr: Said) -> None:
    configure_logging("info")
    with structlog.contextvars.bound_contextvars(check="0123"):
        structlog.get_logger("hubwatch.test").info("checked", status="ok", revisions=3)
    (line,) = lines(stderr)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", line.pop("timestamp"))
    assert line == {"event": "checked", "status": "ok", "revisions": 3, "check": "0123", "level": "info"}


def test_the_shape_is_chosen_and_the_level_holds(stderr: Said) -> None:
    configure_logging("warning", form="console")
    log = structlog.get_logger("hubwatch.test")
    log.info("quiet")
    log.warning("loud", answer=42)
    assert "quiet" not in stderr.getvalue()
    assert "answer" in stderr.getvalue()
    with pytest.raises(ValueError, match="Expecting"):
        lines(stderr)


def test_verbosity_raises_the_level_and_never_lowers_it() -> None:
    assert [louder("warning", v) for v in (0, 1, 2, 9)] == ["warning", "info", "debug", "debug"]
    assert [louder("debug", v) for v in (0, 1)] == ["debug", "debug"]
    assert [louder("error", v) for v in (0, 1)] == ["error", "info"]


def test_an_exception_is_one_json_line_without_secrets(stderr: Said) -> None:
    configure_logging("warning")
    address = "https://user:hunter2@host.example/a?X-Amz-Signature=abc\x1b[31m"
    try:
        int(address)
    except ValueError:
        structlog.get_logger("hubwatch.test").exception("failed")
    (line,) = lines(stderr)
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert "https://***@host.example/a?***" in line["exception"]
    assert "hunter2" not in stderr.getvalue()
    assert "X-Amz" not in stderr.getvalue()
    assert "\x1b" not in line["exception"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\x1b]0;evil\x07b", "a\\u{001b}]0;evil\\u{0007}b"),
        ("one\ntwo\r", "one\\u{000a}two\\u{000d}"),
        ("\u202eright\ud800", "\\u{202e}right\\u{d800}"),
        ("hf_abcdefghijKLMNOP in hubwatch_0123456789", "hf_*** in hubwatch_***"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer ***"),
        ("postgresql://me:pa$$w0rd@db/x", "postgresql://***@db/x"),
        ("see https://hub.example/a/b?token=1 and ftp://x/y", "see https://hub.example/a/b?*** and ftp://x/y"),
        ("plain words, 1.5 and a/b", "plain words, 1.5 and a/b"),
    ],
    ids=["escape", "lines", "hidden", "tokens", "header", "password", "query", "plain"],
)
def test_texts_are_made_fit_to_be_shown(text: str, told: str) -> None:
    assert shown(text) == told


def test_a_long_text_is_cut_before_it_costs_anything() -> None:
    assert len(shown("x" * 10**7)) == MAX_TEXT
    assert len(shown("a://" * 10**6)) <= MAX_TEXT


def test_nested_values_and_keys_are_cleaned_on_a_terminal_too(stderr: Said) -> None:
    configure_logging("info", form="console")
    structlog.get_logger("hubwatch.test").info("x\x1b[2J", value={"k\x07": ["\x1b]8;;http://evil\x07", {"a": 1}]})
    assert "\x1b[2J" not in stderr.getvalue()
    assert "\x1b]8" not in stderr.getvalue()
    assert "\x07" not in stderr.getvalue()


def test_lines_of_libraries_have_the_same_shape_and_http_libraries_stay_quiet(stderr: Said) -> None:
    configure_logging("debug")
    configure_logging("debug")  # a second time does not double the lines
    logging.getLogger("some.library").warning("trouble with %s", "https://a.example/x?sig=1")
    for name in ("httpx2", "httpcore2.connection", "huggingface_hub.utils", "urllib3", "sqlalchemy.engine.Engine"):
        logging.getLogger(name).info("GET https://storage.example/x?sig=1")
        logging.getLogger(name).debug("GET https://storage.example/x?sig=1")
    (line,) = lines(stderr)
    assert line["logger"] == "some.library"
    assert line["event"] == "trouble with https://a.example/x?***"
    assert line["level"] == "warning"


def test_every_request_to_the_hub_is_told_at_debug_without_its_query(stderr: Said) -> None:
    configure_logging("debug")
    answer = {"_id": "0" * 24, "id": "acme/tiny", "sha": "0" * 40}
    with Script() as server:
        server.fallback = reply(answer)
        HubClient(server.url, "hf_abcdefghijklmnop", deadline_s=10, connect_s=5, read_s=5).head(
            RepoRef(owner="acme", name="tiny")
        )
    (line,) = [line for line in lines(stderr) if line["event"] == "hub request"]
    assert (line["path"], line["status"], line["kind"]) == ("/api/models/acme/tiny", 200, "api")
    assert "expand" not in stderr.getvalue()
    assert "hf_abc" not in stderr.getvalue()


def test_requests_of_ours_have_an_id_and_a_line(stderr: Said, sqlite_database: Database) -> None:
    configure_logging("info")
    client = TestClient(
        create_app(Settings(database_url="sqlite:///unused.db"), sqlite_database), raise_server_exceptions=False
    )
    answer = client.get("/watches?q=secret-search", headers={"X-Request-ID": "proxy-0001"})
    assert answer.headers["x-request-id"] == "proxy-0001"
    for odd in ("short", "x" * 65, 'a"b\\c d e f', "é" * 10):
        made = client.get("/healthz", headers={"X-Request-ID": odd.encode()}).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{16}", made)
    (line,) = [line for line in lines(stderr) if line["event"] == "request"]  # health checks are not told
    assert (line["path"], line["request"], line["method"]) == ("/watches", "proxy-0001", "GET")
    assert line["status"] == answer.status_code
    assert "secret-search" not in stderr.getvalue()


def test_a_defect_is_logged_under_the_requests_id(
    stderr: Said, sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logging("error")
    app = create_app(Settings(database_url="sqlite:///unused.db"), sqlite_database)

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("no")

    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/broken", headers={"X-Request-ID": "proxy-0002"}).status_code == 500
    (line,) = lines(stderr)
    assert line["request"] == "proxy-0002"
    assert "RuntimeError: no" in line["exception"]
