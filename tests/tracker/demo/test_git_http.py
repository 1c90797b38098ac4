"""Plain git clones from the loopback hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracker.demo.files import LargeFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import GitRepo

Git = Callable[..., Any]


@pytest.fixture
def repo(hub: LoopbackHub) -> GitRepo:
    repo = hub.create("acme/tiny")
    for number in range(40):
        repo.commit(
            {"config.json": f"{number}\n", "big.bin": LargeFile(b"", 10**12 + number)}, title=f"n {number}"
        )
    repo.tag("v1")
    repo.pull_request(3)
    return repo


@pytest.mark.parametrize("protocol", [0, 2])
def test_a_partial_clone_has_all_commits_and_no_blobs(
    repo: GitRepo, hub: LoopbackHub, git: Git, tmp_path: Path, protocol: int
) -> None:
    clone = tmp_path / "clone.git"
    url = f"{hub.url}/acme/tiny"
    git("-c", f"protocol.version={protocol}", "clone", "-q", "--bare", "--filter=blob:none", url, clone)
    assert git("--git-dir", clone, "log", "--format=%H").stdout.split() == list(repo.log("main"))
    missing = git("--git-dir", clone, "rev-list", "--objects", "--missing=print", "--all").stdout
    assert missing.count("?") == 80
    assert {record.status for record in hub.asked("git")} == {200}
    item = repo.find("main", "big.bin")
    assert item is not None
    # a wanted blob is fetched by its id
    assert git("--git-dir", clone, "cat-file", "-p", item.sha).stdout.endswith(f"size {10**12 + 39}\n")


def test_ls_remote_lists_every_ref(repo: GitRepo, hub: LoopbackHub, git: Git) -> None:
    lines = git("ls-remote", f"{hub.url}/acme/tiny.git").stdout.splitlines()
    refs = {name: sha for sha, name in (line.split("\t") for line in lines) if name != "HEAD"}
    assert refs == repo.refs


def test_states_hold_for_git_too(repo: GitRepo, hub: LoopbackHub, git: Git) -> None:
    hub.tokens = {"hf_good": {"acme/tiny"}}
    with_token = hub.url.replace("//", "//user:hf_good@")
    hub.model("acme/tiny").private = True
    assert git("ls-remote", f"{hub.url}/acme/tiny", check=False).returncode == 128
    assert git("ls-remote", f"{with_token}/acme/tiny").stdout.count("\n") == 4
    assert [record.status for record in hub.asked("git")[:2]] == [401, 401]
    hub.model("acme/tiny").private = False
    hub.rename("acme/tiny", "acme/moved")
    assert git("ls-remote", f"{hub.url}/acme/tiny").stdout.count("\n") == 4
    assert "not found" in git("ls-remote", f"{with_token}/acme/none", check=False).stderr


def test_pushing_is_refused(repo: GitRepo, hub: LoopbackHub, git: Git, tmp_path: Path) -> None:
    git("clone", "-q", f"{hub.url}/acme/tiny", tmp_path / "work")
    pushed = git("-C", tmp_path / "work", "push", "origin", "HEAD:refs/heads/new", check=False)
    assert pushed.returncode != 0
    assert set(repo.refs) == {"refs/heads/main", "refs/tags/v1", "refs/pr/3"}
