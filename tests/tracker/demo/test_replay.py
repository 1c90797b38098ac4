"""Recorded histories come back commit by commit, as real repositories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi

from tests.support.replay import histories, replay
from tracker.demo.cards import safetensors_header
from tracker.demo.hub import LoopbackHub

pytestmark = pytest.mark.corpus


def test_every_history_is_rebuilt(corpus: Path, tmp_path: Path, git: Callable[..., Any]) -> None:
    names = histories(corpus)
    assert len(names) >= 14
    real = 0
    for name in names:
        built = replay(corpus, name, tmp_path)
        recorded = json.loads((corpus / "corpus" / "histories" / name / "_manifests.json").read_bytes())["commits"]
        assert list(built.shas) == [commit["commit"] for commit in recorded]
        assert built.repo.log("main")[::-1] == tuple(built.shas.values())
        git("--git-dir", built.repo.path, "fsck", "--strict")
        for commit in recorded:
            sha = built.shas[commit["commit"]]
            assert built.repo.commit_info(sha).title == commit["title"]
            assert len(list(built.repo.files(sha))) == commit["n_files"]
            for entry in commit["changed"]:
                item = built.repo.find(sha, entry["path"])
                assert item is not None
                pointer = built.repo.pointer(item.sha)
                if "lfs" in entry:
                    assert pointer is not None
                    assert (pointer.sha256, pointer.size) == (entry["lfs"]["oid"], entry["lfs"]["size"])
                elif (sha, entry["path"]) not in built.filled:
                    assert item.sha == entry["blob_id"]
                    real += 1
                elif entry["size"] is not None:
                    assert built.repo.info(item.sha) == ("blob", entry["size"])
    assert real > 100


def test_a_history_is_read_back_over_the_wire(corpus: Path, hub: LoopbackHub, api: HfApi) -> None:
    built = replay(corpus, "EchoCog__gpt-oss-20b", hub.root)
    hub.add("openai/gpt-oss-20b", built.repo)
    commits = api.list_repo_commits("openai/gpt-oss-20b")
    assert [built.recorded[commit.commit_id] for commit in commits] == list(built.shas)[::-1]
    header = safetensors_header(built.repo.content("main", "model-00000-of-00002.safetensors") or b"")
    assert header is not None
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert max(ends) + 8 + 1024 == 4792272488
    given = replay(corpus, "EchoCog__gpt-oss-20b", hub.root / "given", headers={"metal/model.bin": b"mine"})
    assert given.repo.content("main", "metal/model.bin") == b"mine"
