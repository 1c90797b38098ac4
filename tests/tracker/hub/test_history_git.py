"""History by git: the same as by the API, whatever the repository holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.model import Manifest, RepoRef, Revision
from tests.support.replay import histories, replay
from tracker.demo.files import LargeFile, LfsFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.objects import TreeItem, encode_tree, object_sha
from tracker.demo.repos import GitRepo
from tracker.hub import fields, history_api, history_git
from tracker.hub.client import HubClient
from tracker.hub.errors import FileGone, GitUnavailable, HubError, TooLarge
from tracker.hub.git_environment import GitLimits
from tracker.hub.git_objects import parse_commit, parse_pointer, parse_tree
from tracker.hub.history_git import GitHistory, GitReader, parse_refs
from tracker.hub.interface import Walk

Connect = Callable[..., HubClient]
REPO = RepoRef(owner="acme", name="tiny")
START = datetime(2024, 1, 1, tzinfo=UTC)


def never(sha: str) -> bool:
    return False


def told(revisions: tuple[Revision, ...]) -> list[tuple[Any, ...]]:
    """What both readers tell of revisions: all but the parents."""
    return [(item.sha, item.committed_at, item.author, item.title) for item in revisions]


def assert_equal_reading(
    hub: LoopbackHub, client: HubClient, repo: RepoRef, head: str, **asked: Any
) -> tuple[Walk, dict[str, Manifest]]:
    """Read by both; walks, manifests and the bytes of all plain files have to be equal."""
    asked = {"known": never, **asked}
    by_api = client.walk(repo, head=head, **asked)
    with GitReader(hub.url).open(repo, head=head) as history:
        by_git = history.walk(repo, head=head, **asked)
        assert told(by_git.revisions) == told(by_api.revisions)
        assert (by_git.met, by_git.horizon) == (by_api.met, by_api.horizon)
        manifests = {item.sha: history.manifest(repo, item.sha) for item in by_git.revisions}
        for sha, manifest in manifests.items():
            assert manifest == client.manifest(repo, sha)
        plain = {
            entry.blob_id: (sha, entry)
            for sha, manifest in manifests.items()
            for entry in manifest.files.values()
            if entry.lfs_sha256 is None
        }
        for sha, entry in plain.values():
            assert _content(history, repo, sha, entry) == _content(client, repo, sha, entry)
    return by_git, manifests


def _content(source: Any, repo: RepoRef, sha: str, entry: Any) -> bytes | str:
    try:
        data: bytes = source.content(repo, sha, entry)
    except FileGone:
        return "gone"
    return data


# --- the same as by the API --------------------------------------------------------------------------


@pytest.mark.corpus
def test_every_recorded_history_reads_the_same(
    corpus: Path, hub: LoopbackHub, connect: Connect, tmp_path: Path
) -> None:
    names = histories(corpus)
    assert len(names) > 10
    for name in names:
        made = replay(corpus, name, tmp_path)
        repo = RepoRef.parse(name.replace("__", "/", 1))
        hub.add(repo.id, made.repo)
        walk, manifests = assert_equal_reading(hub, connect(hub), repo, list(made.shas.values())[-1])
        assert [item.sha for item in walk.revisions] == list(made.shas.values())
        assert any(manifest.files for manifest in manifests.values())


def test_a_whole_history_takes_four_requests(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    for number in range(120):
        head = repo.commit(
            {"config.json": f"{number}", "w.bin": LargeFile(b"", 10**9 + number), f"d/{number}.txt": "x"},
            title=f"n {number}",
        )
    with GitReader(hub.url).open(REPO, head=head) as history:
        walk = history.walk(REPO, head=head, known=never)
        assert len(walk.revisions) == 120
        for item in walk.revisions:
            manifest = history.manifest(REPO, item.sha)
            history.content(REPO, item.sha, manifest.files["config.json"])
    assert [record.method for record in hub.requests] == ["GET", "POST", "GET", "POST"]
    assert hub.counts() == {"git": 4}


def test_parents_and_merges_are_kept(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    root = repo.commit({"a": "1"}, title="root", date=START)
    repo.branch("side", root)
    left = repo.commit({"a": "2"}, title="left", date=START + timedelta(hours=2))
    right = repo.commit({"b": "1"}, title="right", ref="side", date=START + timedelta(hours=1))
    merge = repo.merge(right)
    again = repo.commit({"a": "3"}, title="again", date=START)  # a clock that goes back
    walk, _ = assert_equal_reading(hub, connect(hub), REPO, again)
    parents = {item.sha: item.parents for item in walk.revisions}
    assert parents == {root: (), left: (root,), right: (root,), merge: (left, right), again: (merge,)}
    assert not any(item.parents_unknown for item in walk.revisions)


@pytest.mark.parametrize(
    "asked",
    [
        {"since": START + timedelta(days=3, hours=1)},
        {"since": START - timedelta(days=1)},
        {"since": START + timedelta(hours=1)},
        {"since": START + timedelta(days=900)},
        {"only_head": True},
        {"only_head": True, "head": 0},
        {"known": 3},
        {"known": 8},
        {"known": 0, "since": START + timedelta(days=2)},
        {"head": 5, "known": 2},
    ],
    ids=str,
)
def test_walks_end_at_the_same_place(hub: LoopbackHub, connect: Connect, asked: dict[str, Any]) -> None:
    repo = hub.create("acme/tiny")
    shas = [repo.commit({"a": str(n)}, title=f"{n}", date=START + timedelta(days=n)) for n in range(8)]
    asked = dict(asked)
    head = shas[asked.pop("head", -1)]
    if "known" in asked:
        asked["known"] = set(shas[: asked["known"]]).__contains__
    assert_equal_reading(hub, connect(hub), REPO, head, **asked)


def test_the_limit_of_commits_is_the_same(
    hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_api, "MAX_COMMITS", 3)
    repo = hub.create("acme/tiny")
    shas = [repo.commit({"a": str(n)}, title=f"{n}") for n in range(5)]
    walk, _ = assert_equal_reading(hub, connect(hub), REPO, shas[-1])
    assert (len(walk.revisions), walk.horizon) == (3, True)
    walk, _ = assert_equal_reading(hub, connect(hub), REPO, shas[2])
    assert (len(walk.revisions), walk.horizon) == (3, False)


def test_a_base_is_not_brought_again(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    big = {f"big{n}.txt": os.urandom(60_000) for n in range(5)}
    first = repo.commit({**big, "w.bin": LfsFile(b"weights")}, title="first")
    second = repo.commit({"config.json": "{}"}, title="second")
    base = connect(hub).manifest(REPO, first)
    hub.clear()
    with GitReader(hub.url).open(REPO, head=second, base=base) as history:
        walk = history.walk(REPO, head=second, known={first}.__contains__)
        assert [item.sha for item in walk.revisions] == [second]
        manifest = history.manifest(REPO, second)
        kept, new = manifest.files["big0.txt"], manifest.files["config.json"]
        assert not history.has(kept)
        assert history.content(REPO, second, new) == b"{}"
    assert sum(record.bytes_sent for record in hub.requests) < 20_000
    assert manifest == connect(hub).manifest(REPO, second)


def test_blobs_come_in_batches(hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_git, "BATCH", 10)
    repo = hub.create("acme/tiny")
    repo.commit({f"f{n}": f"{n}" for n in range(35)}, title="many at once")
    for number in range(12):
        head = repo.commit({"a": f"a{number}", "b": f"b{number}"}, title=f"{number}")
    assert_equal_reading(hub, connect(hub), REPO, head)
    # the commits; 35 blobs in four; then five revisions each
    assert len([record for record in hub.asked("git") if record.method == "POST"]) == 1 + 4 + 3


def test_a_server_that_knows_no_filter_will_do(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    config = repo.path / "config"
    config.write_text(config.read_text().replace("allowFilter = true", "allowFilter = false"))
    repo.commit({"a": "1", "w.bin": LargeFile(b"", 10**9)}, title="1")
    head = repo.commit({"a": "2"}, title="2")
    assert_equal_reading(hub, connect(hub), REPO, head)
    assert len(hub.asked("git")) == 2


def test_an_api_name_stands_for_the_same_person_everywhere(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    for number in range(6):
        author = "Ann Example" if number % 2 else "Bob Builder"
        head = repo.commit({"a": str(number)}, title=f"git {number}", author=author)
    listed = connect(hub).walk(REPO, head=head, known=never).revisions[::-1][:2]
    accounts = {"Ann Example": "ann", "Bob Builder": "bob, ann"}
    api = tuple(
        Revision(sha=item.sha, committed_at=item.committed_at, author=accounts[item.author], title="by api")
        for item in listed
    )
    with GitReader(hub.url).open(REPO, head=head) as history:
        walk = history.walk(REPO, head=head, known=never, listed=api)
        # two people at once stand for nobody
        assert [item.author for item in walk.revisions] == [
            "Bob Builder", "ann", "Bob Builder", "ann", "bob, ann", "ann",
        ]  # fmt: skip
        assert [item.title for item in walk.revisions[-3:]] == ["git 3", "by api", "by api"]
        other = (Revision(sha=head, committed_at=START, author="ann", title="t"),)
        with pytest.raises(GitUnavailable) as caught:
            history.walk(REPO, head=head, known=never, listed=other)
        assert caught.value.reason == "differs"


def test_refs_are_the_same_in_two_requests(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    first = repo.commit({"a": "1"}, title="1")
    head = repo.commit({"a": "2"}, title="2")
    repo.branch("dev", first)
    repo.tag("light", first)
    repo.pull_request(7, head)
    annotated = repo.write("tag", f"object {first}\ntype commit\ntag heavy\ntagger a <a> 1 +0000\n\nm\n".encode())
    repo.set_ref("refs/tags/heavy", annotated)
    repo.set_ref("refs/convert/parquet", first)
    refs = GitReader(hub.url).ls_remote(REPO)
    assert hub.counts() == {"git": 2}
    assert refs == connect(hub).refs(REPO)
    assert refs["refs/tags/heavy"] == first
    assert set(refs) == {"refs/heads/main", "refs/heads/dev", "refs/tags/light", "refs/tags/heavy", "refs/pr/7"}


@pytest.mark.parametrize("said", [b"nonsense\n", b"zz\trefs/heads/main\n", b"\xff\xfe\n"])
def test_refs_that_make_no_sense(said: bytes) -> None:
    with pytest.raises(GitUnavailable):
        parse_refs(said)


# --- what a hostile repository may hold --------------------------------------------------------------


def raw_commit(repo: GitRepo, tree: str, *lines: bytes, message: bytes, parents: tuple[str, ...] = ()) -> str:
    head = [b"tree " + tree.encode(), *(b"parent " + sha.encode() for sha in parents), *lines]
    sha = repo.write("commit", b"\n".join(head) + b"\n\n" + message)
    repo.set_ref("refs/heads/main", sha)
    return sha


WHO = b"author A U Thor <a@example.org> 1700000000 +0000"
WHEN = b"committer C <c@example.org> 1700000000 +0000"

ODD_COMMITS: dict[str, tuple[tuple[bytes, ...], bytes]] = {
    "no utf-8": (
        (b"author J\xfcrgen <j@example.org> 1700000000 +0000", WHEN, b"encoding ISO-8859-1"),
        b"gr\xfc\xdfe\n",
    ),
    "no title": ((WHO, WHEN), b""),
    "empty first line": ((WHO, WHEN), b"\nthen text\n"),
    "long": ((WHO, WHEN), b"x" * 50_000 + b"\n" + b"y" * 300_000),
    "wide": ((WHO, WHEN), "\N{GRINNING FACE}".encode() * 5_000),
    "cut in a character": ((WHO, WHEN), b"a" + "\u20ac".encode() * 5_000),
    "controls": ((WHO, WHEN), b"\x1b]0;title\x07 \r bell\n"),
    "year 1970": ((WHO, b"committer C <c@example.org> 0 +0000"), b"m"),
    "no such year": ((WHO, b"committer C <c@example.org> 99999999999999 +0000"), b"m"),
    "odd zone": ((WHO, b"committer C <c@example.org> 1700000000 +9999"), b"m"),
    "no name": ((b"author  <a@example.org> 1700000000 +0000", WHEN), b"m"),
    "no mail": ((b"author A U Thor <> 1700000000 +0000", WHEN), b"m"),
    "mail as name": ((b"author a@example.org <a@example.org> 1700000000 +0000", WHEN), b"m"),
    "long name": ((b"author " + b"n" * 5_000 + b" <a@example.org> 1700000000 +0000", WHEN), b"m"),
    "signed": ((WHO, WHEN, b"gpgsig -----BEGIN\n \n xx\n -----END"), b"title\n\nbody"),
}


@pytest.mark.parametrize("name", ODD_COMMITS)
def test_odd_commits_read_the_same(hub: LoopbackHub, connect: Connect, name: str) -> None:
    repo = hub.create("acme/tiny")
    first = repo.commit({"a": "1"}, title="first", date=START)
    lines, message = ODD_COMMITS[name]
    head = raw_commit(repo, repo.commit_info(first).tree, *lines, message=message, parents=(first,))
    try:
        walk, _ = assert_equal_reading(hub, connect(hub), REPO, head)
    except GitUnavailable as error:
        pytest.fail(f"git cannot tell: {error.message}")
    assert "@" not in repr(walk)
    assert len(walk.revisions[-1].title) <= fields.TITLE_LIMIT


FLAWED = {
    "nul": (WHO, b"a\0b"),
    "zone": (WHO.replace(b" +0000", b" +00"), b"m"),
    "padded date": (WHO.replace(b" 17", b" 017"), b"m"),
}


@pytest.mark.parametrize("name", FLAWED)
def test_flawed_commits_read_the_same_or_by_the_api(hub: LoopbackHub, connect: Connect, name: str) -> None:
    """Which git minds what is a matter of its version."""
    repo = hub.create("acme/tiny")
    tree = repo.commit_info(repo.commit({"a": "1"}, title="first")).tree
    who, message = FLAWED[name]
    head = raw_commit(repo, tree, who, WHEN, message=message)
    reason = None
    try:
        assert_equal_reading(hub, connect(hub), REPO, head)
    except GitUnavailable as error:
        reason = error.reason
    assert reason in {None, "corrupt"}


ODD_NAMES = [
    b"caf\xe9.json", b"caf\xc3\xa9.json", b"bad\xff\xfe/config.json", "\ufffd.json".encode(), b"with\nline.json",
    b"with\ttab", b"-rf", b"--upload-pack=x", b"a" * 255, b"%2e%2e", b"unsafe-name:x", b"quote\"'", b" ",
    b"\x1b[31m", b"config.json ", b"CON", b"a\\b",
]  # fmt: skip


def tree_of(repo: GitRepo, *items: TreeItem) -> str:
    return repo.write("tree", encode_tree(items))


def named(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def test_odd_names_read_the_same(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    blob = repo.add("{}")
    files = [TreeItem(named(name), "100644", blob) for name in ODD_NAMES if b"/" not in name]
    inner = tree_of(repo, TreeItem("config.json", "100755", blob))
    files += [TreeItem(named(b"bad\xff\xfe"), "40000", inner), TreeItem("ok.json", "100644", blob)]
    head = raw_commit(repo, tree_of(repo, *files), WHO, WHEN, message=b"names\n")
    _, manifests = assert_equal_reading(hub, connect(hub), REPO, head)
    assert len(manifests[head].files) == len(ODD_NAMES) + 1
    assert sum(fields.is_unsafe(path) for path in manifests[head].files) == 4


def test_links_modes_and_submodules_read_the_same(hub: LoopbackHub, connect: Connect) -> None:
    repo = hub.create("acme/tiny")
    blob, link = repo.add("x"), repo.add("../../etc/passwd")
    head = raw_commit(
        repo,
        tree_of(
            repo,
            TreeItem(".gitmodules", "100644", repo.add('[submodule "x"]\n\tpath = x\n\turl = http://x.test/\n')),
            TreeItem("link", "120000", link),
            TreeItem("module", "160000", "c" * 40),
            TreeItem("program", "100755", blob),
            TreeItem("writable", "100664", blob),
        ),
        WHO,
        WHEN,
        message=b"modes\n",
    )  # fmt: skip
    _, manifests = assert_equal_reading(hub, connect(hub), REPO, head)
    assert set(manifests[head].files) == {".gitmodules", "link", "program", "writable"}


@pytest.mark.parametrize("name", [".git", "..", ".", ".GIT", "git~1"])
def test_names_that_git_forbids_are_left_to_the_api(hub: LoopbackHub, name: str) -> None:
    repo = hub.create("acme/tiny")
    head = raw_commit(
        repo, tree_of(repo, TreeItem(name, "100644", repo.add("x"))), WHO, WHEN, message=b"forbidden\n"
    )
    with pytest.raises(GitUnavailable) as caught, GitReader(hub.url).open(REPO, head=head):
        pytest.fail("taken")
    assert caught.value.reason == "corrupt"


def test_one_path_twice_is_left_to_the_api(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    items = [TreeItem("a", "100644", repo.add("1")), TreeItem("a", "100644", repo.add("2"))]
    head = raw_commit(repo, tree_of(repo, *items), WHO, WHEN, message=b"twice\n")
    with pytest.raises(GitUnavailable), GitReader(hub.url).open(REPO, head=head):
        pytest.fail("taken")


def test_trees_that_hold_each_other_many_times_have_an_end(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    tree = tree_of(repo, TreeItem("f", "100644", repo.add("x")))
    for _ in range(12):
        tree = tree_of(repo, *(TreeItem(f"d{n}", "40000", tree) for n in range(10)))
    head = raw_commit(repo, tree, WHO, WHEN, message=b"bomb\n")
    with GitReader(hub.url).open(REPO, head=head) as history:
        history.walk(REPO, head=head, known=never)
        with pytest.raises((GitUnavailable, TooLarge)):
            history.manifest(REPO, head)


def test_too_many_files_are_too_large_when_their_turn_comes(
    hub: LoopbackHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_api, "MAX_FILES", 10)
    repo = hub.create("acme/tiny")
    first = repo.commit({"a": "1"}, title="small")
    head = repo.commit({f"f{n}": str(n) for n in range(11)}, title="large")
    with GitReader(hub.url).open(REPO, head=head) as history:
        history.walk(REPO, head=head, known=never)
        assert history.manifest(REPO, first) == connect(hub).manifest(REPO, first)
        for source in (history, connect(hub)):
            with pytest.raises(TooLarge):
                source.manifest(REPO, head)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%b\nsize %b\n"


def test_pointers(hub: LoopbackHub, connect: Connect) -> None:
    digest = b"ab" * 32
    found = parse_pointer(POINTER % (digest, b"12"))
    assert found is not None
    assert (found.sha256, found.size) == (digest.decode(), 12)
    assert parse_pointer(b"version 2\n") is None
    assert parse_pointer(b"") is None
    assert parse_pointer(POINTER % (digest, b"12") + b" " * 2_000) is None
    for data in (
        POINTER % (digest, b"9" * 20),
        POINTER % (digest, b"-1"),
        POINTER % (b"AB" * 32, b"1"),
        POINTER % (digest, b"12") + b"more\n",
        (POINTER % (digest, b"12")).replace(b"\n", b"\r\n"),
    ):
        with pytest.raises(GitUnavailable):
            parse_pointer(data)


def test_a_pointer_of_another_form_is_left_to_the_api(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    head = repo.commit({"w.bin": POINTER % (b"ab" * 32, b"12") + b"x-more 1\n"}, title="odd")
    with GitReader(hub.url).open(REPO, head=head) as history:
        history.walk(REPO, head=head, known=never)
        with pytest.raises(GitUnavailable):
            history.manifest(REPO, head)


@given(st.binary(max_size=300))
def test_objects_of_any_bytes_raise_nothing_else(data: bytes) -> None:
    for parse in (parse_tree, parse_pointer, lambda value: parse_commit("a" * 40, value)):
        try:
            parse(data)
        except GitUnavailable:
            continue


@given(
    st.lists(st.sampled_from([b"tree ", b"parent ", b"author ", b"committer ", b"x"]), max_size=6),
    st.binary(max_size=60),
    st.integers(-(10**21), 10**21),
)
def test_commits_of_any_lines_raise_nothing_else(keys: list[bytes], value: bytes, stamp: int) -> None:
    lines = [b"tree " + b"a" * 40] + [key + value + b" <x> %d +0000" % stamp for key in keys]
    try:
        commit = parse_commit("a" * 40, b"\n".join(lines) + b"\n\n" + value)
    except GitUnavailable:
        return
    assert commit.committed_at.tzinfo is UTC
    commit.title.encode()
    commit.author.encode()


def test_blobs_that_are_not_what_they_are_named(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    head = repo.commit({"config.json": "{}"}, title="1")
    sha = object_sha("blob", b"{}")
    loose = repo.path / "objects" / sha[:2] / sha[2:]
    other = repo.write("blob", b"[]")
    loose.chmod(0o644)
    loose.write_bytes((repo.path / "objects" / other[:2] / other[2:]).read_bytes())
    with GitReader(hub.url).open(REPO, head=head) as history:
        history.walk(REPO, head=head, known=never)
        with pytest.raises(HubError):
            history.content(REPO, head, history.manifest(REPO, head).files["config.json"])


def test_a_bomb_of_a_blob_stays_small(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    head = repo.commit({"zeros.txt": b"\0" * 60_000_000, "config.json": "{}"}, title="1")
    with GitReader(hub.url, limits=GitLimits(disk_bytes=5_000_000)).open(REPO, head=head) as history:
        history.walk(REPO, head=head, known=never)
        assert history.manifest(REPO, head).files["zeros.txt"].size == 60_000_000


# --- any repository ----------------------------------------------------------------------------------

PATHS = [
    "config.json",
    "README.md",
    "a/b/c.txt",
    "a/b",
    "w.safetensors",
    "tokenizer.json",
    "ü/ñ.json",
    "a b#?%.txt",
]
CONTENTS: list[Any] = [
    "", "{}", "x" * 1023, "x" * 1024, b"\xff\x00", None, LfsFile(b"small"), LargeFile(b"h", 10**12), "version 1\n",
]  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(PATHS), st.sampled_from(CONTENTS), max_size=3),
        st.sampled_from(["ann", "Bob B", "名前"]),
        st.text(max_size=30).filter(lambda text: "\0" not in text and text.isprintable()),
        st.integers(-5, 5),
        st.sampled_from(["commit", "branch", "merge"]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[LoopbackHub, HubClient]]:
    with LoopbackHub() as running:
        yield running, HubClient(running.url)
    assert running.crashes == []


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, known=st.integers(0, 9))
def test_any_repository_reads_the_same(
    shared: tuple[LoopbackHub, HubClient], steps: list[Any], known: int
) -> None:
    hub, client = shared
    with tempfile.TemporaryDirectory() as folder:
        repo = GitRepo(Path(folder) / "any.git")
        shas: list[str] = []
        for number, (files, author, title, jump, kind) in enumerate(steps):
            date = START + timedelta(hours=10 * number + 7 * jump)
            if kind == "merge" and len(shas) > 2:
                shas.append(repo.merge(shas[number // 2], title=title, author=author, date=date))
            elif kind == "branch" and shas:
                parents = [shas[number // 3]]
                shas.append(repo.commit(files, title=title, author=author, date=date, parents=parents))
            else:
                shas.append(repo.commit(files, title=title, author=author, date=date))
        hub.add("acme/any", repo)
        ref = RepoRef(owner="acme", name="any")
        assert_equal_reading(hub, client, ref, shas[-1])
        assert_equal_reading(hub, client, ref, shas[-1], known=set(shas[:known]).__contains__)
        repo.close()


def test_a_history_says_nothing_secret() -> None:
    assert "hf_x" not in repr(GitReader("http://127.0.0.1", "hf_x"))
    assert GitHistory.__doc__
