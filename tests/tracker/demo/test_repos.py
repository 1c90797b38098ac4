"""Repositories written without git are what git says they are."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tracker.demo.files import LargeFile, LfsFile, gguf, safetensors
from tracker.demo.objects import EMPTY_TREE, parse_pointer
from tracker.demo.repos import GitRepo, json_file

Git = Callable[..., Any]


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "a.git")


def test_git_reads_what_was_written(repo: GitRepo, git: Git) -> None:
    first = repo.commit(
        {"config.json": json_file({"a": 1}), "sub/deep/x.txt": "x", "sub.txt": "y", "sub-a": b"\xff\x00"},
        title="initial commit",
        author="Ann <a@b>",
        date=datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC),
    )
    second = repo.commit({"sub/deep": None, "ünï.txt": "é"}, title="títle", body="more\nlines", author="")
    git("--git-dir", repo.path, "fsck", "--strict")
    shown = git("--git-dir", repo.path, "log", "--format=%H|%an|%cI|%s|%b", "--name-status", "-z", first).stdout
    assert shown.startswith(f"{first}|Ann a@b|2020-02-03T04:05:06+00:00|initial commit|")
    assert git("--git-dir", repo.path, "log", "-1", "--format=%s|%b|%an").stdout == "títle|more\nlines|unknown\n"
    names = git("--git-dir", repo.path, "ls-tree", "-r", "-z", "--name-only", second).stdout.split("\0")
    assert names == ["config.json", "sub-a", "sub.txt", "ünï.txt", ""]
    assert [path for path, _ in repo.files(second)] == names[:-1]
    assert repo.commit_info(second).title == "títle"


def test_the_log_is_in_the_order_of_git_log(repo: GitRepo, git: Git) -> None:
    repo.commit({"a": "1"}, title="one")
    repo.branch("side")
    for number in range(5):
        repo.commit({"a": str(number)}, title=f"main {number}")
        repo.commit({"b": str(number)}, title=f"side {number}", ref="side")
    merge = repo.merge("side", title="both")
    repo.commit({"c": "late, and dated early"}, title="old", date=datetime(2019, 1, 1, tzinfo=UTC))
    assert repo.commit_info(merge).parents == (repo.log("main")[2], repo.refs["refs/heads/side"])
    assert repo.content(merge, "b") == b"4"
    assert list(repo.log("main")) == git("--git-dir", repo.path, "log", "--format=%H", "main").stdout.split()


def test_refs_move_and_go(repo: GitRepo, git: Git) -> None:
    first = repo.commit({"a": "1"})
    second = repo.commit({"a": "2"})
    repo.tag("v1", first)
    repo.pull_request(7, first)
    repo.branch("dev/x", first)
    squashed = repo.squash()
    assert repo.log("main") == (squashed,)
    assert repo.content("main", "a") == b"2"
    assert repo.reset("main", second) == second
    repo.delete_ref("refs/tags/v1")
    refs = dict(line.split()[::-1] for line in git("--git-dir", repo.path, "show-ref").stdout.splitlines())
    assert refs == repo.refs
    assert refs == {"refs/heads/main": second, "refs/heads/dev/x": first, "refs/pr/7": first}
    assert repo.resolve("dev/x") == repo.resolve("refs/pr/7") == repo.resolve(first) == first
    assert repo.resolve("v1") is repo.resolve("0" * 40) is repo.resolve("no") is None


def test_a_repository_that_git_packed_reads_the_same(repo: GitRepo, git: Git) -> None:
    for number in range(20):
        repo.commit({"a": str(number), f"d/{number}": "x"})
    git("--git-dir", repo.path, "gc", "--quiet")
    again = GitRepo(repo.path)
    loose = [file.parent.name + file.name for file in (repo.path / "objects").glob("[0-9a-f][0-9a-f]/*")]
    assert set(loose) <= {EMPTY_TREE}
    assert again.refs == repo.refs
    assert again.log("main") == repo.log("main")
    assert list(again.files("main")) == list(repo.files("main"))
    again.commit({"a": "after"})
    assert again.content("main", "a") == b"after"
    assert again.content("main", "d/3") == b"x"
    again.close()


def test_large_files_are_pointers_in_git(repo: GitRepo) -> None:
    big = LargeFile(b"head", 10**15)
    true = LargeFile(b"head", 100)
    tokenizer = LfsFile(b"{}")
    repo.commit({"big.bin": big, "true.bin": true, "tokenizer.json": tokenizer})
    assert true.sha256 == hashlib.sha256(b"head" + b"\0" * 96).hexdigest()
    assert tokenizer.sha256 == hashlib.sha256(b"{}").hexdigest()
    assert LargeFile(b"head", 10**15 + 1).sha256 != big.sha256
    item = repo.find("main", "big.bin")
    assert item is not None
    pointer = parse_pointer(repo.blob(item.sha))
    assert pointer == repo.pointer(item.sha) == big.pointer
    assert repo.blob(item.sha) == (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{big.sha256}\nsize {10**15}\n".encode()
    )
    assert repo.content("main", "big.bin") == b"head"


def test_safetensors_headers_are_valid() -> None:
    tensors = {"w": ("BF16", [3, 5]), "scale": ("F32", []), "packed": ("F4", [3]), "none": ("I64", [0, 4])}
    file = safetensors(tensors, metadata={"format": "pt"})
    length = int.from_bytes(file.header[:8], "little")
    header = json.loads(file.header[8 : 8 + length])
    assert length % 8 == 0
    assert file.size == 8 + length + 30 + 4 + 2
    assert header["__metadata__"] == {"format": "pt"}
    assert [header[name]["data_offsets"] for name in tensors] == [[0, 30], [30, 34], [34, 36], [36, 36]]
    salted = safetensors(tensors, metadata={"format": "pt"}, salt="other weights")
    assert salted.header[: 8 + length] == file.header
    assert (salted.size, salted.sha256 == file.sha256) == (file.size, False)


def test_gguf_headers_are_valid() -> None:
    file = gguf(
        {
            "general.architecture": "llama",
            "n": 7,
            "neg": -1,
            "big": 1 << 40,
            "f": 0.5,
            "yes": True,
            "t": ["a", "b"],
        },
        {"blk.0.w": ("Q4_K", [256, 10]), "out": ("F32", [3])},
    )
    magic, version, tensors, keys = struct.unpack_from("<4sIQQ", file.header)
    assert (magic, version, tensors, keys) == (b"GGUF", 3, 2, 7)
    # the second tensor begins after ten blocks of 144 bytes, a multiple of 32
    assert b"blk.0.w" + struct.pack("<IQQIQ", 2, 256, 10, 12, 0) in file.header
    assert b"out" + struct.pack("<IQIQ", 1, 3, 0, 1440) in file.header
    assert file.size == len(file.header) + 1440 + 32


def test_hundreds_of_commits_keep_every_tree(repo: GitRepo) -> None:
    for number in range(600):
        repo.commit({f"shard/{number % 7}.txt": str(number), "config.json": json_file({"n": number})})
    log = repo.log("main")
    assert len(log) == len(set(log)) == 600
    assert repo.content(log[400], "config.json") == json_file({"n": 199})
