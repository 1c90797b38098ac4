"""The straight way to watch a repo's history, as a script would: what hubwatch is held against.

Commits by the API; of each a tree; each changed small file by ``hf_hub_download``; JSON compared by DeepDiff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deepdiff import DeepDiff
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import disable_progress_bars

SMALL = 20 << 20
"""Bytes up to which a file that is not in LFS is read."""


def read(endpoint: str, name: str, cache: Path) -> int:
    """Read and compare every revision, oldest first; returns how many differences were found."""
    disable_progress_bars()
    api = HfApi(endpoint=endpoint)
    known: dict[str, str] = {}
    texts: dict[str, Any] = {}
    found = 0
    for commit in reversed(api.list_repo_commits(name)):
        for item in api.list_repo_tree(name, revision=commit.commit_id, recursive=True):
            if not isinstance(item, RepoFile) or known.get(item.path) == item.blob_id:
                continue
            known[item.path] = item.blob_id
            if item.lfs is not None or item.size > SMALL:
                continue
            path = hf_hub_download(name, item.path, revision=commit.commit_id, endpoint=endpoint, cache_dir=cache)
            if item.path.endswith(".json"):
                value = json.loads(Path(path).read_text())
                if item.path in texts:
                    found += len(DeepDiff(texts[item.path], value))
                texts[item.path] = value
    return found
