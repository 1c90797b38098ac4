"""Ordered trouble happens on the wire, to the requests it was ordered for, and is counted."""

from __future__ import annotations

import email.utils
import gzip
import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracker.demo.conftest import Reply
from tracker.demo import faults
from tracker.demo.faults import matching
from tracker.demo.files import LargeFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import GitRepo

Ask = Callable[..., Reply]


@pytest.fixture
def repo(hub: LoopbackHub) -> GitRepo:
    repo = hub.create("acme/tiny")
    for number in range(9):
        repo.commit({"config.json": f'{{"n": {number}}}', "w.bin": LargeFile(b"head", 1000 + number)})
    return repo


@pytest.fixture
def info(hub: LoopbackHub, repo: GitRepo) -> str:
    return f"{hub.url}/api/models/acme/tiny"


def test_a_fault_hits_the_requests_it_names_as_often_as_it_says(hub: LoopbackHub, info: str, ask: Ask) -> None:
    fault = hub.faults.add(
        faults.server_error(503), when=matching(kind="api", path="*/commits/*"), times=2, skip=1
    )
    statuses = [ask(f"{info}/commits/main").status for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]
    assert ask(info).status == 200
    assert fault.done == 2
    assert [record.status for record in hub.asked("api")] == [*statuses, 200]
    hub.faults.clear()
    hub.faults.add(faults.server_error(), when=matching(repo="acme/other", method="GET"))
    assert ask(info).status == 200


def test_chance_is_the_same_in_every_run(hub: LoopbackHub, info: str, ask: Ask) -> None:
    def run() -> list[int]:
        hub.faults.__init__(seed=3)  # type: ignore[misc]
        hub.faults.add(faults.server_error(500), chance=0.5)
        return [ask(info).status for _ in range(12)]

    first = run()
    assert set(first) == {200, 500}
    assert run() == first


def test_rate_limits_come_in_three_forms(hub: LoopbackHub, info: str, ask: Ask) -> None:
    seen = []
    for form in ("ratelimit", "seconds", "date"):
        hub.faults.add(faults.rate_limited(55, form=form, now=1e9), times=1)
        seen.append(ask(info))
    assert {reply.status for reply in seen} == {429}
    assert seen[0].headers["ratelimit"] == '"api";r=0;t=55'
    assert seen[1].headers["retry-after"] == "55"
    assert email.utils.parsedate_to_datetime(seen[2].headers["retry-after"]).timestamp() == 1e9 + 55
    assert "ratelimit" not in seen[1].headers


def test_connections_are_reset_cut_and_lied_about(hub: LoopbackHub, info: str, ask: Ask) -> None:
    hub.faults.add(faults.reset(), times=1)
    with pytest.raises(ConnectionResetError):
        ask(info)
    hub.faults.add(faults.truncate(10), times=1)
    with pytest.raises(http.client.IncompleteRead) as cut:
        ask(info)
    assert len(cut.value.partial) == 10
    hub.faults.add(faults.oversize(100, declared=1000), times=1)
    with pytest.raises(http.client.IncompleteRead):
        ask(info)
    hub.faults.add(faults.oversize(5000), times=1)
    assert len(ask(info).body) == 5000
    hub.faults.add(faults.gzip_bomb(1 << 20), times=1)
    bomb = ask(info)
    assert (len(gzip.decompress(bomb.body)), bomb.headers["content-encoding"]) == (1 << 20, "gzip")


@pytest.mark.parametrize(
    "action",
    [faults.stall(600), faults.stall_body(600), faults.drip(600), faults.endless()],
    ids=["stall", "stall_body", "drip", "endless"],
)
def test_stalls_end_when_the_hub_stops(tmp_path: Path, ask: Ask, action: faults.Action) -> None:
    outcomes: list[Any] = []

    def wait(url: str) -> None:
        try:
            outcomes.append(ask(url))
        except (OSError, http.client.HTTPException) as error:
            outcomes.append(error)

    hub = LoopbackHub(tmp_path).start()
    hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(action)
    client = threading.Thread(target=wait, args=(f"{hub.url}/api/models/acme/tiny",))
    client.start()
    while not hub.asked("api"):
        time.sleep(0.01)
    client.join(0.2)
    assert client.is_alive()
    hub.stop()
    client.join(20)
    assert len(outcomes) == 1
    assert hub.crashes == []


def test_answers_are_altered(hub: LoopbackHub, info: str, ask: Ask, repo: GitRepo) -> None:
    true = ask(info)
    hub.faults.add(faults.corrupt(2, 3), times=1)
    wrong = ask(info)
    assert [at for at, (a, b) in enumerate(zip(true.body, wrong.body, strict=True)) if a != b] == [2, 3, 4]
    hub.faults.add(faults.garbage(), times=1)
    with pytest.raises(ValueError):
        json.loads(ask(info).body)
    hub.faults.add(faults.edit_json(lambda model: model | {"_id": "f" * 24}), times=1)
    assert json.loads(ask(info).body)["_id"] == "f" * 24
    hub.faults.add(faults.redirect("http://evil.example{path}"), times=1)
    assert ask(f"{info}?expand=sha").headers["location"] == "http://evil.example/api/models/acme/tiny?expand=sha"
    hub.faults.add(faults.delay(0.01), times=1)
    assert ask(info).status == 200


def test_pages_lead_astray_or_end_early(hub: LoopbackHub, info: str, ask: Ask) -> None:
    hub.pages.commits = 4
    url = f"{info}/commits/main"
    assert ask(url).headers["link"].startswith(f"<{hub.url}/api/models/acme/tiny/commits/main?p=1&limit=4>")
    hub.faults.add(faults.foreign_link("http://evil.example"), times=1)
    assert ask(url).headers["link"].startswith("<http://evil.example/api/models/acme/tiny/commits/main?p=1")
    hub.faults.add(faults.no_link(), times=1)
    assert "link" not in ask(url).headers
    hub.faults.add(faults.drop_entries(1), times=1)
    partial = ask(url)
    assert (len(json.loads(partial.body)), "link" in partial.headers) == (1, False)


def test_a_stale_main_is_stale_but_not_among_the_refs(
    hub: LoopbackHub, repo: GitRepo, info: str, ask: Ask
) -> None:
    old, new = repo.log("main")[4], repo.log("main")[0]
    hub.faults.add(faults.stale(old))
    assert json.loads(ask(f"{info}?expand=sha").body)["sha"] == old
    assert json.loads(ask(f"{info}/commits/main").body)[0]["id"] == old
    assert ask(f"{hub.url}/acme/tiny/resolve/main/config.json", "HEAD").headers["x-repo-commit"] == old
    assert json.loads(ask(f"{info}/refs").body)["branches"][0]["targetCommit"] == new


def test_storage_trouble(hub: LoopbackHub, repo: GitRepo, ask: Ask) -> None:
    url = f"{hub.url}/acme/tiny/resolve/main/w.bin"
    hub.faults.add(faults.expired_links(), when=matching(kind="resolve"), times=1)
    assert ask(ask(url).headers["location"]).status == 403
    link = ask(url).headers["location"]
    assert ask(link).body == b"head" + b"\0" * 1004
    assert ask(link.replace("size=1008", "size=99")).status == 403
    hub.faults.add(faults.corrupt(-1), when=matching(kind="storage"), times=1)
    assert ask(link).body[-1:] == b"\xff"
    honest = ask(url, "HEAD").headers["x-linked-etag"]
    hub.faults.add(faults.wrong_hash(), times=1)
    lying = ask(url, "HEAD").headers["x-linked-etag"]
    assert (len(lying), lying == honest) == (len(honest), False)
