"""Which reader tells a history, and what it costs."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from storage.model import RepoRef
from tracker.demo.faults import delay, drop_entries, edit_json, rate_limited, server_error
from tracker.demo.files import LargeFile, LfsFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.injection import matching
from tracker.hub.client import HubClient
from tracker.hub.errors import AccessDenied, HubError, RateLimited, RevisionGone, UpstreamFault
from tracker.hub.git_environment import GitLimits
from tracker.hub.history_git import GitReader
from tracker.hub.readers import Histories, Reading

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git on this machine")


def never(sha: str) -> bool:
    return False


def history(hub: LoopbackHub, count: int) -> list[str]:
    """Commits that each change two small files, one of them in LFS now and then."""
    repo = hub.create("acme/tiny")
    return [
        repo.commit(
            {
                "config.json": f'{{"step": {number}}}',
                "README.md": f"step {number}",
                "tokenizer.json": LfsFile(b'{"v": %d}' % (number // 50)),
                "model.safetensors": LargeFile(b"", 10**9 + number),
            },
            title=f"step {number}",
        )
        for number in range(count)
    ]


@pytest.fixture
def log() -> Iterator[list[Any]]:
    """What was logged of the reader, as (reader, reason)."""
    with structlog.testing.capture_logs() as entries:
        yield entries


def readers(log: list[Any]) -> list[tuple[str, str]]:
    return [(entry["reader"], entry["reason"]) for entry in log if entry["event"] == "history read by"]


def read_all(reading: Reading) -> dict[str, bytes]:
    """Everything of every revision, as the pipeline asks: each content once."""
    found: dict[str, bytes] = {}
    for revision in reading.walk.revisions:
        for entry in reading.manifest(REPO, revision.sha).files.values():
            if entry.size < 1_000_000 and entry.content_key not in found:
                found[entry.content_key] = reading.content(REPO, revision.sha, entry)
    return found


# --- which one, and at what cost ---------------------------------------------------------------------


def test_three_hundred_revisions_take_few_requests(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 300)
    with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
        found = read_all(reading)
        assert reading.name == "git"
        assert [item.sha for item in reading.walk.revisions] == shas
    # one page of commits, four by git; six versions of a file in LFS, each from the Hub and then its storage
    assert hub.counts() == {"api": 1, "git": 4, "resolve": 6, "storage": 6}
    assert len(found) == 606
    assert readers(log) == [("git", "many_revisions")]


def test_a_few_new_revisions_stay_with_the_api(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 150)
    histories = Histories(connect(hub), GitReader(hub.url), git_from=20)
    with histories.history(REPO, head=shas[-1], known=shas[:-19].__contains__) as reading:
        assert [item.sha for item in reading.walk.revisions] == shas[-19:]
        assert (reading.walk.met, reading.name) == (shas[-20], "api")
    assert hub.counts() == {"api": 1}
    assert readers(log) == [("api", "few_revisions")]
    with histories.history(REPO, head=shas[-1], known=shas[:-20].__contains__) as reading:
        assert [item.sha for item in reading.walk.revisions] == shas[-20:]
        assert (reading.walk.met, reading.name) == (shas[-21], "git")


def test_a_watch_from_the_head_asks_for_one_commit(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 40)
    histories = Histories(connect(hub), GitReader(hub.url))
    with histories.history(REPO, head=shas[-1], known=never, only_head=True) as reading:
        assert [item.sha for item in reading.walk.revisions] == shas[-1:]
        assert reading.walk.horizon
    assert [record.query for record in hub.requests] == ["limit=1"]


def test_a_total_below_the_threshold_stays_with_the_api(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 120)
    histories = Histories(connect(hub), GitReader(hub.url), git_from=500)
    with histories.history(REPO, head=shas[-1], known=never) as reading:
        assert reading.name == "api"
        assert [item.sha for item in reading.walk.revisions] == shas


@pytest.mark.parametrize("git_from", [1, 10_000])
@pytest.mark.parametrize("count", [1, 30, 130])
def test_the_walk_is_the_api_s_whoever_reads(
    hub: LoopbackHub, connect: Connect, git_from: int, count: int
) -> None:
    shas = history(hub, count)
    client = connect(hub)
    plain = client.walk(REPO, head=shas[-1], known=never)
    with Histories(client, GitReader(hub.url), git_from).history(REPO, head=shas[-1], known=never) as reading:
        walk = reading.walk
        assert (walk.met, walk.horizon) == (plain.met, plain.horizon)
        assert [(item.sha, item.author, item.title, item.committed_at) for item in walk.revisions] == [
            (item.sha, item.author, item.title, item.committed_at) for item in plain.revisions
        ]
        for sha in shas[:: max(1, count // 3)]:
            assert reading.manifest(REPO, sha) == client.manifest(REPO, sha)


# --- from git to the API -----------------------------------------------------------------------------


def test_without_git_the_api_reads_everything(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 30)
    for git, reason in ((None, "git_off"), (GitReader(hub.url, program="/nowhere/git"), "no_git")):
        with Histories(connect(hub), git).history(REPO, head=shas[-1], known=never) as reading:
            assert reading.name == "api"
            assert len(read_all(reading)) == 61
        assert readers(log)[-1] == ("api", reason)
    assert hub.asked("git") == []


@pytest.mark.parametrize(("skip", "reason"), [(0, "failed"), (1, "failed")])
def test_where_git_fails_at_any_request_the_api_reads_on(
    hub: LoopbackHub, connect: Connect, log: list[Any], skip: int, reason: str
) -> None:
    shas = history(hub, 30)
    hub.faults.add(server_error(502), when=matching(kind="git", method="POST"), skip=skip)
    with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
        assert len(read_all(reading)) == 61
        assert reading.name == "api"
    assert readers(log)[-1] == ("api", reason)
    assert hub.asked("git")[-1].status == 502


def test_a_repository_over_the_cap_is_read_by_the_api(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 30)
    shas.append(hub.repo("acme/tiny").commit({"notes.txt": _noise(900_000)}, title="large"))
    git = GitReader(hub.url, limits=GitLimits(disk_bytes=400_000))
    with Histories(connect(hub), git).history(REPO, head=shas[-1], known=never) as reading:
        assert len(read_all(reading)) == 62
    assert readers(log)[-1] == ("api", "too_large")


def _noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)  # noqa: S311 - noise


def test_where_git_and_the_list_differ_the_api_is_believed(
    hub: LoopbackHub, connect: Connect, log: list[Any]
) -> None:
    shas = history(hub, 30)

    def swapped(rows: list[Any]) -> list[Any]:
        rows[3], rows[4] = rows[4], rows[3]
        return rows

    hub.faults.add(edit_json(swapped), when=matching(path="*/commits/*"))
    with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
        assert reading.name == "api"
    assert readers(log) == [("api", "differs")]


def test_a_list_that_ends_too_early_is_seen_through(hub: LoopbackHub, connect: Connect) -> None:
    """The API's page is valid and has no next one, but lacks the older commits: git's are tied by hash."""
    shas = history(hub, 40)
    hub.faults.add(drop_entries(25), when=matching(path="*/commits/*"))
    with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
        assert [item.sha for item in reading.walk.revisions] == shas


# --- from the API to git -----------------------------------------------------------------------------


def test_git_reads_where_the_list_of_commits_fails(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 30)
    hub.faults.add(server_error(504), when=matching(path="*/commits/*"))
    with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
        assert [item.sha for item in reading.walk.revisions] == shas
        assert len(read_all(reading)) == 61
    assert readers(log) == [("git", "api_failed")]


def test_git_reads_where_the_list_fails_deep_inside(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 130)
    hub.faults.add(server_error(504), when=matching(path="*/commits/*"), skip=1)
    histories = Histories(connect(hub), GitReader(hub.url), git_from=10_000)
    with histories.history(REPO, head=shas[-1], known=never) as reading:
        assert [item.sha for item in reading.walk.revisions] == shas
    assert readers(log) == [("git", "api_failed")]


def test_git_reads_where_trees_fail(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 5)
    hub.faults.add(server_error(500), when=matching(path="*/tree/*"), skip=2)
    with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
        assert len(read_all(reading)) == 11
        assert reading.name == "git"
    assert readers(log) == [("api", "few_revisions"), ("git", "api_failed")]


def test_where_both_fail_the_api_s_error_is_told(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 5)
    hub.faults.add(server_error(503), when=matching(path="*/commits/*"))
    hub.faults.add(server_error(502), when=matching(kind="git"))
    histories = Histories(connect(hub), GitReader(hub.url))
    with pytest.raises(UpstreamFault) as caught, histories.history(REPO, head=shas[-1], known=never):
        pytest.fail("read")
    assert caught.value.status == 503
    hub.faults.clear()
    hub.faults.add(server_error(500), when=matching(path="*/tree/*"))
    hub.faults.add(server_error(502), when=matching(kind="git"))
    with histories.history(REPO, head=shas[-1], known=never) as reading:
        for _ in range(2):
            with pytest.raises(UpstreamFault):
                reading.manifest(REPO, shas[-1])
    assert len(hub.asked("git")) == 2  # at the list, and once at the trees


def test_the_state_of_a_repo_is_the_api_s_to_tell(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 30)
    histories = Histories(connect(hub), GitReader(hub.url))
    hub.model("acme/tiny").gated = "auto"
    with pytest.raises(AccessDenied), histories.history(REPO, head=shas[-1], known=never):
        pytest.fail("read")
    hub.model("acme/tiny").gated = False
    with pytest.raises(RevisionGone), histories.history(REPO, head="b" * 40, known=never):
        pytest.fail("read")
    hub.faults.add(rate_limited(55), when=matching(kind="api"))
    with pytest.raises(RateLimited), histories.history(REPO, head=shas[-1], known=never):
        pytest.fail("read")
    assert hub.asked("git") == []


def test_a_refusal_by_git_alone_decides_nothing(hub: LoopbackHub, connect: Connect, log: list[Any]) -> None:
    shas = history(hub, 30)
    hub.faults.add(server_error(403), when=matching(kind="git"))
    with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
        assert len(read_all(reading)) == 61
    assert readers(log) == [("api", "refused")]


def test_a_pause_asked_of_git_is_kept(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 30)
    hub.faults.add(rate_limited(55), when=matching(kind="git"))
    histories = Histories(connect(hub), GitReader(hub.url))
    with pytest.raises(RateLimited), histories.history(REPO, head=shas[-1], known=never):
        pytest.fail("read")


def test_the_temporary_folder_goes_also_when_reading_fails(
    hub: LoopbackHub, connect: Connect, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shas = history(hub, 30)

    def stop() -> None:
        with Histories(connect(hub), GitReader(hub.url)).history(REPO, head=shas[-1], known=never) as reading:
            reading.manifest(REPO, shas[0])
            assert list(tmp_path.iterdir())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert list(tmp_path.iterdir()) == []


def test_a_slow_api_is_no_reason_to_fail(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 3)
    hub.faults.add(delay(2), when=matching(path="*/commits/*"))
    histories = Histories(connect(hub, deadline_s=0.5), GitReader(hub.url))
    try:
        with histories.history(REPO, head=shas[-1], known=never) as reading:
            assert [item.sha for item in reading.walk.revisions] == shas
    except HubError as error:
        pytest.fail(f"not read: {error}")


# --- trees that leave something out ------------------------------------------------------------------


def without(path: str) -> Any:
    return edit_json(lambda rows: [row for row in rows if row["path"] != path])


def trees_of(hub: LoopbackHub, histories: Histories, shas: list[str], **more: Any) -> list[set[str]]:
    """The names of all files of all revisions but the first, which is known."""
    base = HubClient(hub.url, None).manifest(REPO, shas[0])
    hub.requests.clear()
    with histories.history(REPO, head=shas[-1], known=shas[:1].__contains__, base=lambda: base, **more) as reading:
        return [set(reading.manifest(REPO, item.sha).files) for item in reading.walk.revisions]


NAMES = ("config.json", "a.json", "b.json", "c.json")
"""Each commit adds one."""


@pytest.mark.parametrize("path", NAMES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_tree_that_leaves_out_anything_is_not_believed(
    hub: LoopbackHub, connect: Connect, number: int, path: str
) -> None:
    """Neither what was there before nor what its own commit brings."""
    if NAMES.index(path) > number:
        pytest.skip("it is not there yet")
    repo = hub.create("acme/tiny")
    shas = [repo.commit({name: "{}"}) for name in NAMES]
    histories = Histories(connect(hub))
    paths = connect(hub).head(REPO, paths=True).paths
    complete = [{*NAMES[: count + 1]} for count in (1, 2, 3)]
    for known in ({}, {"paths": paths}, {"wary": True}):
        fault = hub.faults.add(without(path), when=matching(path=f"*/tree/{shas[number]}"))
        with pytest.raises(UpstreamFault, match=rf"leaves out {path}"):
            trees_of(hub, histories, shas, **known)
        assert fault.done == 1
        hub.faults.clear()
        assert trees_of(hub, histories, shas, **known) == complete


def test_what_bears_each_other_out_takes_no_second_answer(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    shas = [repo.commit({"config.json": f"{number}"}) for number in range(4)]
    histories = Histories(connect(hub))
    paths = connect(hub).head(REPO, paths=True).paths
    assert paths == {"config.json"}
    trees_of(hub, histories, shas, paths=paths)
    assert hub.counts() == {"api": 4}  # the commits and three trees
    trees_of(hub, histories, shas)
    assert hub.counts() == {"api": 5}  # nothing speaks for the newest tree
    trees_of(hub, histories, shas, paths=paths, wary=True)
    assert hub.counts() == {"api": 6}  # something went wrong: the others are doubted, too


def test_a_ref_that_went_back_brings_nothing_new(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 3)
    chain = {sha: number for number, sha in enumerate(shas, start=1)}
    with Histories(connect(hub)).history(REPO, head=shas[1], known=chain.__contains__, place=chain.get) as reading:
        assert (reading.walk.revisions, reading.walk.met) == ((), shas[1])
        assert set(reading.manifest(REPO, shas[1]).files) >= {"config.json"}


def test_where_no_other_answer_is_given_the_tree_stands_alone(hub: LoopbackHub, connect: Connect) -> None:
    shas = [hub.create("acme/tiny").commit({"config.json": "{}"})]
    hub.faults.add(server_error(400), when=matching(path="*/revision/*"))
    with Histories(connect(hub)).history(REPO, head=shas[-1], known=never) as reading:
        assert set(reading.manifest(REPO, shas[0]).files) == {"config.json"}


def test_an_error_is_told_where_its_own_tree_is_asked_for(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    shas = [repo.commit({"config.json": f"{number}"}) for number in range(3)]
    hub.faults.add(server_error(503), when=matching(path=f"*/tree/{shas[2]}"))
    with Histories(connect(hub)).history(REPO, head=shas[2], known=never) as reading:
        for sha in shas[:2]:
            assert set(reading.manifest(REPO, sha).files) == {"config.json"}
        with pytest.raises(UpstreamFault, match="503"):
            reading.manifest(REPO, shas[2])


def commits_without(*lost: str) -> Any:
    return edit_json(lambda rows: [row for row in rows if row["id"] not in lost])


@pytest.mark.parametrize("lost", [-2, -3, -4], ids=["a new one", "the one after the tip", "the tip"])
def test_a_list_of_commits_that_lost_one_is_not_believed(hub: LoopbackHub, connect: Connect, lost: int) -> None:
    """It is not the last page, which would have to bring all that the Hub counts."""
    shas = history(hub, 150)
    chain = {sha: number for number, sha in enumerate(shas[:-3], start=1)}
    histories = Histories(connect(hub))

    def walk() -> tuple[list[str], str | None]:
        question = {"known": chain.__contains__, "place": chain.get}
        with histories.history(REPO, head=shas[-1], **question) as reading:
            return [item.sha for item in reading.walk.revisions], reading.walk.met

    fault = hub.faults.add(commits_without(shas[lost]), times=1, when=matching(path="*/commits/*"))
    with pytest.raises(UpstreamFault, match="two lists"):
        walk()
    assert fault.done == 1
    hub.requests.clear()
    assert walk() == (shas[-3:], shas[-4])
    assert hub.counts() == {"api": 1}


def test_a_history_that_never_adds_up_is_told_twice(hub: LoopbackHub, connect: Connect) -> None:
    shas = history(hub, 150)
    chain = {sha: number for number, sha in enumerate(shas[100:-1], start=1)}  # it was cut
    with Histories(connect(hub)).history(
        REPO, head=shas[-1], known=chain.__contains__, place=chain.get
    ) as reading:
        assert [item.sha for item in reading.walk.revisions] == shas[-1:]
    assert hub.counts() == {"api": 2}
