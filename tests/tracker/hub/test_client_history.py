"""Walks and manifests by the API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.model import FileEntry, RepoRef
from tests.tracker.hub.scripted import Script, reply
from tracker.demo.faults import edit_json, matching, rate_limited
from tracker.demo.files import LfsFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import GitRepo
from tracker.hub import fields, history_api
from tracker.hub.client import HubClient
from tracker.hub.errors import HubError, RateLimited, RevisionGone, TooLarge, UpstreamFault

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")
START = datetime(2024, 1, 1, tzinfo=UTC)
SHA = "a" * 40
TREE = f"/api/models/acme/tiny/tree/{SHA}"
COMMITS = f"/api/models/acme/tiny/commits/{SHA}"


def never(sha: str) -> bool:
    return False


def history(hub: LoopbackHub, count: int) -> tuple[GitRepo, list[str]]:
    """A repo whose commits, oldest first, are a day apart."""
    repo = hub.create("acme/tiny")
    shas = [
        repo.commit({"a": str(n)}, title=f"step {n}", author="ann", date=START + timedelta(days=n))
        for n in range(count)
    ]
    return repo, shas


def test_a_whole_history_is_read_oldest_first(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 5)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never)
    assert [revision.sha for revision in walk.revisions] == shas
    assert (walk.met, walk.horizon) == (None, False)
    first = walk.revisions[0]
    assert (first.title, first.author, first.committed_at) == ("step 0", "ann", START)
    assert (first.parents, first.parents_unknown) == ((), True)
    assert len(hub.requests) == 1


def test_a_walk_stops_at_the_first_known_commit(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 6)
    walk = connect(hub).walk(REPO, head=shas[-1], known=shas[:3].__contains__)
    assert [revision.sha for revision in walk.revisions] == shas[3:]
    assert (walk.met, walk.horizon) == (shas[2], False)


def test_a_known_head_brings_nothing(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 2)
    walk = connect(hub).walk(REPO, head=shas[-1], known=shas.__contains__)
    assert (walk.revisions, walk.met) == ((), shas[-1])


def test_one_new_commit_costs_one_small_page(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 150)
    connect(hub).walk(REPO, head=shas[-1], known=shas[:-1].__contains__)
    assert [record.query for record in hub.requests] == ["limit=100"]


def test_a_long_history_takes_few_requests(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 250)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never)
    assert [revision.sha for revision in walk.revisions] == shas
    assert [record.query for record in hub.requests] == ["limit=100", "limit=1000"]


def test_the_hub_may_give_smaller_pages_than_asked(hub: LoopbackHub, connect: Connect) -> None:
    hub.pages.commits_most = 7
    _, shas = history(hub, 30)
    walk = connect(hub).walk(REPO, head=shas[-1], known=shas[:2].__contains__)
    assert [revision.sha for revision in walk.revisions] == shas[2:]
    assert walk.met == shas[1]


@pytest.mark.parametrize("count", [99, 100, 101])
def test_the_seam_between_small_and_large_pages(hub: LoopbackHub, connect: Connect, count: int) -> None:
    _, shas = history(hub, count)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never)
    assert [revision.sha for revision in walk.revisions] == shas
    assert not walk.horizon


def test_since_includes_the_newest_commit_before_it(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 6)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never, since=START + timedelta(days=3, hours=1))
    assert [revision.sha for revision in walk.revisions] == shas[3:]
    assert (walk.met, walk.horizon) == (None, True)


def test_since_before_the_first_commit_is_the_whole_history(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 3)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never, since=START - timedelta(days=1))
    assert (len(walk.revisions), walk.horizon) == (3, False)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never, since=START + timedelta(hours=1))
    assert (len(walk.revisions), walk.horizon) == (3, False)


def test_since_after_the_head_is_the_head_alone(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 3)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never, since=START + timedelta(days=900))
    assert ([revision.sha for revision in walk.revisions], walk.horizon) == ([shas[-1]], True)


def test_only_the_head(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 3)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never, only_head=True)
    assert ([revision.sha for revision in walk.revisions], walk.met, walk.horizon) == ([shas[-1]], None, True)
    assert [record.query for record in hub.requests] == ["limit=1"]
    assert not connect(hub).walk(REPO, head=shas[0], known=never, only_head=True).horizon


def test_a_history_beyond_the_cap_ends_at_a_horizon(
    hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_api, "MAX_COMMITS", 10)
    _, shas = history(hub, 12)
    walk = connect(hub).walk(REPO, head=shas[-1], known=never)
    assert ([revision.sha for revision in walk.revisions], walk.horizon) == (shas[2:], True)


def test_after_a_squash_the_old_commit_is_not_among_the_ancestors(hub: LoopbackHub, connect: Connect) -> None:
    repo, shas = history(hub, 4)
    new = repo.squash()
    walk = connect(hub).walk(REPO, head=new, known=shas.__contains__)
    assert ([revision.sha for revision in walk.revisions], walk.met) == ([new], None)


def test_a_revision_that_is_not_there_is_gone(hub: LoopbackHub, connect: Connect) -> None:
    history(hub, 1)
    with pytest.raises(RevisionGone):
        connect(hub).walk(REPO, head="b" * 40, known=never)
    with pytest.raises(RevisionGone):
        connect(hub).manifest(REPO, "b" * 40)


def test_commits_that_do_not_start_with_the_head_are_a_fault(script: Script, connect: Connect) -> None:
    script.routes[COMMITS] = reply([{"id": "b" * 40, "title": "stale"}])
    with pytest.raises(UpstreamFault):
        connect(script).walk(REPO, head=SHA, known=never)
    script.routes[COMMITS] = reply([])
    with pytest.raises(UpstreamFault):
        connect(script).walk(REPO, head=SHA, known=never)


def test_what_the_author_claims_may_be_anything(script: Script, connect: Connect) -> None:
    commit = {"id": SHA, "title": "x" * 5000, "date": "32 Juni", "authors": [{"user": "Ann <ann@example.org>"}]}
    script.routes[COMMITS] = reply([commit])
    (revision,) = connect(script).walk(REPO, head=SHA, known=never).revisions
    assert (revision.committed_at, revision.author, len(revision.title)) == (fields.EPOCH, "Ann", 1000)


def test_no_mail_address_of_an_author_is_kept(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny").commit({"a": "1"}, author="Ann Example", email="ann@example.org")
    assert "@" not in repr(connect(hub).walk(REPO, head=sha, known=never))


@pytest.mark.parametrize("item", [7, None, [], {}, {"id": "main"}, {"id": "A" * 40}])
def test_a_commit_without_a_valid_id_is_a_fault(script: Script, connect: Connect, item: Any) -> None:
    script.routes[COMMITS] = reply([{"id": SHA}, item])
    with pytest.raises(UpstreamFault):
        connect(script).walk(REPO, head=SHA, known=never)


def test_a_429_in_the_middle_of_a_walk_stops_at_once(hub: LoopbackHub, connect: Connect) -> None:
    _, shas = history(hub, 120)
    hub.faults.add(rate_limited(55), when=matching(path="*/commits/*"), skip=1)
    with pytest.raises(RateLimited) as caught:
        connect(hub).walk(REPO, head=shas[-1], known=never)
    assert caught.value.seconds == pytest.approx(55, abs=2)
    assert len(hub.requests) == 2


# --- manifests -----------------------------------------------------------------------------------


def test_a_manifest_has_every_file_with_size_and_hash(hub: LoopbackHub, connect: Connect) -> None:
    weights = LfsFile(b"\x01" * 2000)
    repo = hub.create("acme/tiny")
    sha = repo.commit({"config.json": b"{}", "vae/config.json": b"[]", "model.safetensors": weights})
    files = connect(hub).manifest(REPO, sha).files
    assert sorted(files) == ["config.json", "model.safetensors", "vae/config.json"]
    config, large = files["config.json"], files["model.safetensors"]
    assert (config.size, config.lfs_sha256) == (2, None)
    assert config.blob_id == "9e26dfeeb6e641a33dae4961196235bdb965b21b"  # git hash-object of "{}"
    assert (large.size, large.lfs_sha256) == (2000, weights.pointer.sha256)
    assert hub.requests[0].query == "recursive=true&expand=false"


def test_a_move_to_xet_without_a_commit_is_no_change(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny", xet=False).commit({"model.safetensors": LfsFile(b"\x01" * 2000)})
    before = connect(hub).manifest(REPO, sha)
    hub.model("acme/tiny").xet = True
    after = connect(hub).manifest(REPO, sha)
    assert before == after
    assert before.digest == after.digest


def entry(path: Any = "a.json", **changes: Any) -> dict[str, Any]:
    return {"type": "file", "oid": SHA, "size": 5, "path": path} | changes


def test_a_name_that_git_forbids_is_kept_and_cannot_be_fetched(script: Script, connect: Connect) -> None:
    names = ["../../etc/passwd", "/abs", "a\x00.json", "\ud800.json", "x" * 2000, "ok.json"]
    script.routes[TREE] = reply([entry(name) for name in names])
    client = connect(script)
    files = client.manifest(REPO, SHA).files
    assert len(files) == len(names)
    assert [path for path in files if not fields.is_unsafe(path)] == ["ok.json"]
    for path, found in files.items():
        if fields.is_unsafe(path):
            with pytest.raises(HubError):
                client.content(REPO, SHA, found)
    assert len(script.seen) == 1


@pytest.mark.parametrize(
    "item",
    [
        7, None, entry(None), entry(""), entry(oid="x"), entry(oid=None), entry(size=-1), entry(size=None),
        entry(size=True), entry(lfs=7), entry(lfs={"oid": "x", "size": 1}),
        entry(lfs={"oid": "a" * 64, "size": "1"}),
    ],
)  # fmt: skip
def test_an_entry_that_makes_no_sense_is_a_fault(script: Script, connect: Connect, item: Any) -> None:
    script.routes[TREE] = reply([entry("ok"), item])
    with pytest.raises(UpstreamFault):
        connect(script).manifest(REPO, SHA)


def test_a_path_listed_twice_is_a_fault_unless_it_is_the_same(script: Script, connect: Connect) -> None:
    script.routes[TREE] = reply([entry(), entry()])
    assert connect(script).manifest(REPO, SHA).files == {"a.json": FileEntry(path="a.json", size=5, blob_id=SHA)}
    script.routes[TREE] = reply([entry(), entry(size=6)])
    with pytest.raises(UpstreamFault):
        connect(script).manifest(REPO, SHA)


def test_more_files_than_the_cap_are_too_large(
    hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_api, "MAX_FILES", 3)
    hub.pages.tree = 2
    sha = hub.create("acme/tiny").commit({f"f{n}": str(n) for n in range(9)})
    with pytest.raises(TooLarge):
        connect(hub).manifest(REPO, sha)
    assert len(hub.requests) == 2


def test_a_tree_that_is_no_list_is_a_fault(hub: LoopbackHub, connect: Connect) -> None:
    sha = hub.create("acme/tiny").commit({"a": "1"})
    hub.faults.add(edit_json(lambda rows: {"rows": rows}))
    with pytest.raises(UpstreamFault):
        connect(hub).manifest(REPO, sha)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=8) | st.just(SHA),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = ("type", "path", "oid", "size", "lfs", "id", "title", "date", "authors")
ROW = st.fixed_dictionaries({}, optional={name: ANY | st.just("file") for name in NAMES})


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(ANY | st.fixed_dictionaries({}, optional={name: ANY | st.just("file") for name in NAMES}), max_size=4)
)
def test_any_json_is_survived(script: Script, connect: Connect, rows: list[Any]) -> None:
    script.routes[TREE] = reply(rows)
    script.routes[COMMITS] = reply([{"id": SHA}, *rows])
    client = connect(script)
    for ask in (lambda: client.manifest(REPO, SHA), lambda: client.walk(REPO, head=SHA, known=never)):
        try:
            ask()
        except UpstreamFault:
            continue
