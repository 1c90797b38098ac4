"""Recorded histories, commit by commit, as real git repositories.

Author, title, date, paths, LFS hashes and sizes are the recorded ones. Bytes are real wherever the corpus
has them (found by git blob id, or by sha256 for LFS files); elsewhere a filler of the recorded size.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tracker.demo.files import LargeFile, gguf
from tracker.demo.objects import object_sha
from tracker.demo.repos import Content, GitRepo

# The size of a plain file whose size was not recorded.
UNKNOWN_SIZE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A rebuilt history. ``shas`` maps recorded commits to ours, oldest first; ``filled`` lists stand-ins."""

    name: str
    repo: GitRepo
    shas: Mapping[str, str]
    filled: frozenset[tuple[str, str]] = field(default_factory=frozenset)  # (our sha, path)

    @property
    def recorded(self) -> dict[str, str]:
        """Our shas to the recorded ones."""
        return {ours: theirs for theirs, ours in self.shas.items()}


def histories(corpus: Path) -> list[str]:
    """The names of the recorded histories that list whole trees."""
    return sorted(path.parent.name for path in (corpus / "corpus" / "histories").glob("*/_manifests.json"))


def replay(corpus: Path, name: str, folder: Path, *, headers: Mapping[str, bytes] | None = None) -> Replay:
    """Rebuild the history ``name`` as ``<folder>/<name>.git``.

    ``headers`` gives first bytes of LFS files, by path or by sha256; a .safetensors or .gguf file without
    gets a small valid header, always the same for the same path and size.
    """
    manifests = json.loads((corpus / "corpus" / "histories" / name / "_manifests.json").read_bytes())
    real = real_bytes(corpus)
    repo = GitRepo(folder / f"{name}.git")
    shas: dict[str, str] = {}
    filled = set()
    for commit in manifests["commits"]:
        files: dict[str, Content] = dict.fromkeys(commit["removed"])
        made_up = []
        for entry in commit["changed"]:
            content = _content(entry, real, headers or {})
            made_up += [] if content is not None else [entry["path"]]
            files[entry["path"]] = filler(entry) if content is None else content
        sha = repo.commit(
            files,
            title=commit["title"],
            author=commit["author"],
            date=datetime.fromisoformat(commit["date"]),
        )
        shas[commit["commit"]] = sha
        filled |= {(sha, path) for path in made_up}
    return Replay(name=name, repo=repo, shas=shas, filled=frozenset(filled))


@functools.lru_cache(maxsize=2)
def real_bytes(corpus: Path) -> Mapping[str, Path]:
    """Every file of the corpus by its git blob id and by its sha256."""
    found: dict[str, Path] = {}
    for file in sorted((corpus / "corpus").rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            found.setdefault(object_sha("blob", data), file)
            found.setdefault(hashlib.sha256(data).hexdigest(), file)
    return found


def filler(entry: Mapping[str, Any]) -> bytes:
    """Bytes of the recorded size that differ from blob to blob; JSON where the name says so and it fits."""
    size = UNKNOWN_SIZE if entry["size"] is None else entry["size"]
    line = f"filler for {entry['blob_id']}\n".encode()
    if entry["path"].endswith(".json") and size >= 64:
        frame = b'{"filler": "%s"}'
        room = size - len(frame) + 2
        return frame % ((line[:-1] + b" ") * (room // len(line) + 1))[:room]
    return (line * (size // len(line) + 1))[:size]


def _content(entry: Mapping[str, Any], real: Mapping[str, Path], headers: Mapping[str, bytes]) -> Content:
    """The recorded content of a tree entry; None when its bytes are not there."""
    lfs = entry.get("lfs")
    if lfs is None:
        file = real.get(entry["blob_id"])
        return file.read_bytes() if file else None
    file = real.get(lfs["oid"])
    if file:
        return LargeFile(file.read_bytes(), lfs["size"], lfs["oid"])
    given = headers.get(lfs["oid"], headers.get(entry["path"]))
    return LargeFile(
        synthetic_header(entry["path"], lfs["size"]) if given is None else given, lfs["size"], lfs["oid"]
    )


def synthetic_header(path: str, size: int) -> bytes:
    """A valid header for a .safetensors or .gguf file of this size; nothing for other files."""
    if path.endswith(".gguf"):
        return gguf({"general.architecture": "llama", "general.name": path}).header
    room = 1024
    if not path.endswith(".safetensors") or size < 2 * room:
        return b""
    half = (size - 8 - room) // 4
    stem = path.rpartition("/")[2].removesuffix(".safetensors")
    tensors = {
        f"{stem}.first.weight": {"dtype": "BF16", "shape": [half], "data_offsets": [0, 2 * half]},
        f"{stem}.second.weight": {"dtype": "U8", "shape": [size - 8 - room - 2 * half]},
    }
    tensors[f"{stem}.second.weight"]["data_offsets"] = [2 * half, size - 8 - room]
    text = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    return room.to_bytes(8, "little") + text.ljust(room)
