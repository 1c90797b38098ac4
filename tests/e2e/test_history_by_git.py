"""The two readers of history, end to end: what is published must not depend on which one read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from storage.database import Database
from storage.model import RepoRef
from tests.support.command import Hubwatch
from tests.support.models import llama
from tests.support.replay import histories, replay
from tests.support.site import Site, site
from tracker.demo.files import LfsFile, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.views import history_json
from tracker.worker import Status

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git on this machine")

BY_GIT = {"git": "auto", "git_from": 1}
BY_API = {"git": "off"}
KNOWN = {"parents", "parents_unknown"}
"""What the readers tell of a revision that the API does not know."""

PARTS = 4
"""The recorded histories are read in so many tests, none of which then takes long."""

Open = Callable[..., Site]


@pytest.fixture
def installed(hub: LoopbackHub, sqlite_template: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens installations; one of the same name goes on with the same database."""
    with ExitStack() as stack:

        def install(name: str, **settings: Any) -> Site:
            path = tmp_path / f"{name}.db"
            if not path.exists():
                shutil.copy(sqlite_template, path)
            database = Database.open(f"sqlite:///{path}")
            stack.callback(database.dispose)
            return stack.enter_context(site(hub, database, **settings))

        yield install


def published(place: Site, repo: RepoRef) -> dict[str, Any]:
    """Everything that is said of a repo but who read it; both installations have the same clock."""
    with place.database.snapshot() as tx:
        rows = history_json(tx, repo)["revisions"]
    return {
        "history": [{key: value for key, value in row.items() if key not in KNOWN} for row in rows],
        "advisories": place.advisories(repo),
    }


def parents(place: Site, repo: RepoRef) -> dict[str, list[str] | None]:
    with place.database.snapshot() as tx:
        rows = history_json(tx, repo)["revisions"]
    return {row["sha"]: None if row["parents_unknown"] else row["parents"] for row in rows}


@pytest.mark.corpus
@pytest.mark.parametrize("part", range(PARTS))
def test_every_recorded_history_is_published_the_same(
    corpus: Path, hub: LoopbackHub, installed: Open, tmp_path: Path, part: int
) -> None:
    by_git, by_api = installed("git", **BY_GIT), installed("api", **BY_API)
    advisories = 0
    for name in histories(corpus)[part::PARTS]:
        made = replay(corpus, name, tmp_path / "replays")
        text = name.replace("__", "/", 1)
        hub.add(text, made.repo)
        repo = by_git.watch(text)
        hub.clear()
        assert by_git.poll(repo).status is Status.OK
        assert (len(hub.asked("git")), hub.asked("api", path="/tree/")) == (4, [])
        hub.clear()
        by_api.watch(text)
        assert by_api.poll(repo).status is Status.OK
        assert hub.asked("git") == []
        told = published(by_git, repo)
        assert told == published(by_api, repo)
        assert [row["sha"] for row in told["history"]] == list(made.shas.values())[::-1]
        advisories += len(told["advisories"])
        line = list(made.shas.values())
        assert parents(by_git, repo) == {sha: line[at - 1 : at] if at else [] for at, sha in enumerate(line)}
    assert advisories > 10


def grown(hub: LoopbackHub, count: int) -> RepoRef:
    """A model whose config changes at every commit; its tokenizer is in LFS."""
    repo = hub.create("acme/long")
    tokenizer = json.dumps({"version": "1.0", "model": {"vocab": {"a": 0}}}).encode()
    repo.commit(
        {
            "config.json": llama(),
            "tokenizer.json": LfsFile(tokenizer),
            "model.safetensors": safetensors({"w": ("F32", [4, 4])}),
        },
        title="first",
    )
    for number in range(count - 1):
        change = {"config.json": llama(rope_theta=1000.0 + number), "README.md": f"step {number}\n"}
        repo.commit(change, title=f"n {number}")
    return RepoRef(owner="acme", name="long")


def test_a_first_watch_of_three_hundred_revisions(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    grown(hub, 300)
    hubwatch("watch", "add", "acme/long")
    hub.clear()
    done = hubwatch("poll", "acme/long", "--json", HUBWATCH_LOG_LEVEL="info", HUBWATCH_LOG_FORMAT="json")
    assert done.json["repos"][0]["new_revisions"] == 300
    # a range is asked of weight files alone, also where it leads to a redirect
    asked = [f"{record.kind} {record.method} {record.path}" for record in hub.requests if record.range is None]
    assert len(asked) <= 12, asked
    assert len([line for line in asked if line.startswith("git")]) == 4
    lines = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    (line,) = [line for line in lines if line["event"] == "history read by"]
    assert (line["reader"], line["revisions"], line["repo"]) == ("git", 300, "acme/long")


def test_what_comes_later_joins_up_whoever_reads(hub: LoopbackHub, installed: Open) -> None:
    repo = grown(hub, 30)
    for place in (installed("one", **BY_GIT), installed("two", **BY_API)):
        place.watch(repo.id)
        assert place.poll(repo).new_revisions == 30
    for number in range(3):
        hub.repo(repo.id).commit({"config.json": llama(rope_theta=9.0 + number)}, title=f"later {number}")
    # each goes on by the reader that it did not begin with
    one, two = installed("one", **BY_API), installed("two", **BY_GIT)
    assert (one.poll(repo).new_revisions, two.poll(repo).new_revisions) == (3, 3)
    assert published(one, repo) == published(two, repo)
    assert [value is None for value in parents(one, repo).values()] == [True] * 3 + [False] * 30
    assert [value is None for value in parents(two, repo).values()] == [False] * 3 + [True] * 30


def test_a_rewritten_history_is_told_the_same(hub: LoopbackHub, installed: Open) -> None:
    repo = grown(hub, 12)
    places = (installed("git", **BY_GIT), installed("api", **BY_API))
    for place in places:
        place.watch(repo.id)
        place.poll(repo)
    upstream = hub.repo(repo.id)
    upstream.reset("main", upstream.log("main")[5])
    for number in range(4):
        change = {"config.json": llama(rope_theta=5.0 + number), "new.py": f"# {number}\n"}
        upstream.commit(change, title=f"new {number}")
    for place in places:
        assert place.poll(repo).status is Status.OK
    told = published(places[0], repo)
    assert told == published(places[1], repo)
    assert "history.rewritten" in {item.cls for item in told["advisories"].values()}


def test_merges_are_kept_and_told_the_same(hub: LoopbackHub, installed: Open) -> None:
    repo = grown(hub, 6)
    upstream = hub.repo(repo.id)
    start = upstream.log("main")[2]
    upstream.branch("side", start)
    side = upstream.commit({"code.py": "import os\n"}, title="side", ref="side")
    upstream.commit({"config.json": llama(rope_theta=7.0)}, title="on main")
    main = upstream.log("main")[0]
    merge = upstream.merge(side)
    places = (installed("git", **BY_GIT), installed("api", **BY_API))
    for place in places:
        place.watch(repo.id)
        assert place.poll(repo).status is Status.OK
    assert published(places[0], repo) == published(places[1], repo)
    ancestry = parents(places[0], repo)
    assert ancestry[side] == [start]
    assert ancestry[merge] == [main, side]
