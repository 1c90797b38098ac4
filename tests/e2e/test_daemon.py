"""The daemon: it polls by itself, serves, and stops without losing or halving anything. On both databases."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import feedparser
import httpx
import pytest

from tests.support.command import Hubwatch, wait_for
from tests.support.models import THINKING, llama, tokenizer_config, weights
from tracker.demo import faults
from tracker.demo.hub import LoopbackHub

REPO = "acme/tiny"
QUICK = {"HUBWATCH_POLL_FLOOR": "1", "HUBWATCH_POLL_DEFAULT": "1", "HUBWATCH_PORT": "0"}


@pytest.fixture
def hubwatch(hub: LoopbackHub, tmp_path: Path, empty_url: str) -> Hubwatch:
    """An installation on SQLite and one on PostgreSQL, both empty."""
    home = tmp_path / "home"
    home.mkdir()
    return Hubwatch(hub.url, empty_url, home, dict(QUICK))


@contextmanager
def daemon(hubwatch: Hubwatch, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running daemon and its address; stopped by SIGTERM, which must succeed."""
    process = hubwatch.start("run", *arguments)
    assert process.stderr is not None
    said = ""
    try:
        while "hubwatch runs" not in said:
            line = process.stderr.readline()
            assert line, f"the daemon ended: {said}"
            said += line
        found = re.search(r"http://\S+", said)
        yield process, found[0] if found else ""
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=40)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def revisions(hubwatch: Hubwatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hubwatch.json("history", REPO)["revisions"]
    return found


def test_it_follows_a_repo_by_itself_and_serves_its_feed(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create(REPO)
    repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="Upload")
    repo.commit({"tokenizer_config.json": tokenizer_config()}, title="Tokenizer")
    hubwatch("watch", "add", REPO, "--every", "1s")
    with daemon(hubwatch) as (_, url):
        assert httpx.get(f"{url}healthz").text == "ok\n"
        assert httpx.get(f"{url}readyz").status_code == 200
        wait_for(lambda: len(revisions(hubwatch)) == 2, what="the first read")
        sha = repo.commit({"tokenizer_config.json": tokenizer_config(THINKING)}, title="Fix template")
        wait_for(lambda: revisions(hubwatch)[0]["sha"] == sha, what="the new revision")
        feed = feedparser.parse(httpx.get(f"{url}feeds/{REPO}.atom").content)
        assert not feed.bozo
        assert any("generation prompt" in entry.title for entry in feed.entries)
        (document,) = hubwatch.json("advisories", REPO, "--class", "template.generation_prompt")["advisories"]
        assert httpx.get(f"{url}advisories/{document['id']}").status_code == 200
        assert httpx.get(f"{url}feeds/acme/absent.atom").status_code == 404
        assert httpx.get(url).status_code == 200
        assert httpx.get(url, headers={"Host": "evil.example"}).status_code == 421


def test_a_stop_in_the_middle_loses_nothing(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create(REPO)
    for number in range(40):
        repo.commit({"config.json": llama(rope_theta=1000.0 + number)}, title=f"n {number}")
    hub.faults.add(faults.delay(0.05))
    hubwatch("watch", "add", REPO)
    with daemon(hubwatch):
        wait_for(lambda: len(revisions(hubwatch)) >= 3, what="the first revisions")
    landed = revisions(hubwatch)
    assert len(landed) >= 3
    hub.faults.clear()
    assert hubwatch("poll").code == 0
    assert [row["title"] for row in revisions(hubwatch)][::-1] == [f"n {number}" for number in range(40)]
    assert [row["sha"] for row in revisions(hubwatch)][-len(landed) :] == [row["sha"] for row in landed]


def test_two_daemons_by_mistake_do_no_harm(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create(REPO)
    for number in range(15):
        repo.commit({"config.json": llama(rope_theta=1000.0 + number)}, title=f"n {number}")
    hub.faults.add(faults.delay(0.02))
    hubwatch("watch", "add", REPO, "--every", "1s")
    with daemon(hubwatch), daemon(hubwatch):
        wait_for(lambda: len(revisions(hubwatch)) == 15, what="all revisions")
    shas = [row["sha"] for row in revisions(hubwatch)]
    assert len(set(shas)) == 15


def test_an_owner_brings_all_its_models_and_those_that_come_later(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    for name in ("one", "two"):
        hub.create(f"acme/{name}").commit({"config.json": llama()}, title="Upload")
    hub.create("other/three").commit({"config.json": llama()}, title="Upload")
    assert hubwatch("watch", "add", "acme/*").code == 0
    assert {row["repo"] for row in hubwatch.json("poll")["repos"]} == {"acme/one", "acme/two"}
    hub.create("acme/late").commit({"config.json": llama()}, title="Upload")
    rows = {row["repo"]: row["status"] for row in hubwatch.json("poll")["repos"]}
    assert rows == {"acme/one": "unchanged", "acme/two": "unchanged", "acme/late": "ok"}
    hubwatch("watch", "remove", "acme/late")
    assert len(hubwatch.json("poll")["repos"]) == 2


def test_a_backup_of_a_database_in_use_can_be_read(hub: LoopbackHub, hubwatch: Hubwatch, tmp_path: Path) -> None:
    if not hubwatch.database_url.startswith("sqlite"):
        pytest.skip("the restore of a PostgreSQL dump is tested with the storage")
    hub.create(REPO).commit({"config.json": llama()}, title="Upload")
    hubwatch("watch", "add", REPO)
    hubwatch("poll")
    target = tmp_path / "copy.db"
    assert hubwatch("db", "backup", str(target)).code == 0
    assert hubwatch("db", "backup", str(target)).code == 2
    copy = Hubwatch(hub.url, f"sqlite:///{target}", hubwatch.home)
    assert len(copy.json("history", REPO)["revisions"]) == 1
    current = copy.json("db", "current")
    assert current["current"] == current["needed"]
