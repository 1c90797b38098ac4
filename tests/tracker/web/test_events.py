"""The event stream over a real connection: from any point on, filtered, bounded, cheap while idle."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from storage import advisories
from storage.database import Database
from storage.model import AdvisoryAction, AdvisoryEvent, RepoRef, Severity
from tests.storage.support import advisory, sha
from tests.support.command import wait_for
from tracker.settings import Settings
from tracker.web import events, problems

NOW = datetime.now(UTC)
REPO, OTHER = RepoRef(owner="acme", name="tiny"), RepoRef(owner="other", name="tiny")


def happen(database: Database, number: int, action: str = "opened", **changed: Any) -> None:
    warned = advisory(number, **{"repo": REPO, "cls": "template.semantic", **changed})
    event = AdvisoryEvent(advisory_id=warned.id, action=AdvisoryAction(action), sha=sha((number, action)))
    with database.transaction() as tx:
        advisories.save(tx, warned)
        advisories.record_events(tx, warned.repo, [event], now=datetime.now(UTC))


@contextmanager
def served(database: Database) -> Iterator[str]:
    settings = Settings()
    app = FastAPI()
    app.state.web = SimpleNamespace(settings=settings, database=database)
    problems.install(app)
    app.include_router(events.router(settings, database))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_for(lambda: server.started, what="the server")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1/events"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def listening(url: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a stream, as they come."""
    with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield _parsed(response.iter_lines())


def _parsed(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield {"event": fields["event"], "id": int(fields["id"]), **json.loads(fields["data"])}
            fields = {}


def take(stream: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    return [next(stream) for _ in range(count)]


def test_a_listener_hears_what_comes_and_goes_on_where_it_was(database: Database) -> None:
    happen(database, 1)
    with served(database) as url:
        with listening(url) as stream:
            happen(database, 2)
            happen(database, 2, "fixed", holds=False)
            first, second = take(stream, 2)
        assert [first["event"], second["event"]] == ["advisory.opened", "advisory.fixed"]
        assert first["repo"] == REPO.id
        assert first["class"] == "template.semantic"
        assert first["summary"].startswith("acme/tiny: ")
        assert first["number"] == first["id"] < second["id"]
        for number in range(3, 3 + 2 * events._PAGE):
            happen(database, number)
        with listening(url, **{"Last-Event-ID": str(second["id"])}) as stream:
            found = take(stream, 2 * events._PAGE)
        ids = [item["id"] for item in found]
        assert ids == sorted(set(ids))
        assert {item["advisory"][-4:] for item in found} == {f"{n:04d}" for n in range(3, 3 + 2 * events._PAGE)}
        with listening(f"{url}?last_event_id=0") as stream:
            assert next(stream)["advisory"].endswith("0001")


def test_filters_hold(sqlite_database: Database) -> None:
    database = sqlite_database
    with served(database) as url:
        happen(database, 1, repo=OTHER)
        happen(database, 2, severity=Severity.LOW)
        happen(database, 3, cls="template.tools")
        happen(database, 4)
        happen(database, 5, repo=OTHER)
        wanted = {
            "owner=acme": [2, 3, 4],
            "repo=other/tiny": [1, 5],
            "min_severity=high": [1, 3, 4, 5],
            "class=template.tools": [3],
            "owner=acme&min_severity=high&class=template.semantic": [4],
        }
        for query, numbers in wanted.items():
            with listening(f"{url}?last_event_id=0&{query}") as stream:
                got = take(stream, len(numbers))
            assert [int(item["advisory"][-4:]) for item in got] == numbers


def test_what_was_read_with_a_token_is_not_for_everybody(sqlite_database: Database) -> None:
    database = sqlite_database
    happen(database, 1)
    happen(database, 2, repo=OTHER)
    with database.transaction() as tx:
        tx.exec_driver_sql("UPDATE repos SET restricted = 1 WHERE owner = 'acme'")
    with served(database) as url, listening(f"{url}?last_event_id=0") as stream:
        assert next(stream)["repo"] == OTHER.id


@pytest.mark.parametrize(
    "query", ["min_severity=bad", "class=none", "repo=..%2F..", "last_event_id=-1", "owner=" + "x" * 999]
)
def test_bad_questions_are_refused(sqlite_database: Database, query: str) -> None:
    with served(sqlite_database) as url:
        answer = httpx.get(f"{url}?{query}", trust_env=False)
        assert answer.status_code in {400, 422}
        assert answer.headers["content-type"] == "application/problem+json"
        bad = httpx.get(url, headers={"Last-Event-ID": "1; drop"}, trust_env=False)
        assert bad.status_code == 400


def test_places_are_limited_and_given_back(sqlite_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_STREAMS", 2)
    with served(sqlite_database) as url:
        with listening(url), listening(url):
            full = httpx.get(url, trust_env=False)
            assert full.status_code == 503
            assert full.json()["code"] == "too_many_streams"
            assert full.headers["retry-after"] == "60"

        def free() -> bool:
            with httpx.stream("GET", url, trust_env=False) as response:
                return response.status_code == 200

        wait_for(free, what="a free place")


def test_an_idle_stream_shows_that_it_lives_and_ends_in_time(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(events, "LONGEST_SECONDS", 0.5)
    with served(sqlite_database) as url:
        text = httpx.get(url, timeout=30, trust_env=False).text
    assert "retry: 3000" in text
    assert text.count(": still here\n\n") >= 2


def test_a_number_that_may_still_come_is_waited_for(postgres_database: Database) -> None:
    """Two transactions at once: the one with the lower number commits last, and is not skipped."""
    database = postgres_database
    happen(database, 1)
    tail = events.Tail(database)
    start = tail._look()
    late = advisory(2, repo=REPO)
    with database.transaction() as slow:
        advisories.save(slow, late)
        event = AdvisoryEvent(advisory_id=late.id, action=AdvisoryAction.OPENED, sha=sha("late"))
        advisories.record_events(slow, REPO, [event], now=datetime.now(UTC))
        happen(database, 3, repo=OTHER)
        assert tail._advance(start) == start
    assert tail._advance(start) == start + 2


def test_a_number_that_never_comes_is_not_waited_for_long(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgres_database
    happen(database, 1)
    tail = events.Tail(database)
    start = tail._look()
    with database.transaction() as tx:
        tx.exec_driver_sql("SELECT nextval('advisory_events_id_seq')")
    happen(database, 2)
    assert tail._advance(start) == start
    monkeypatch.setattr(events, "GRACE", timedelta(seconds=-1))
    assert tail._advance(start) == start + 2
