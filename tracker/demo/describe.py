"""Models, files and commits as the Hub's JSON has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from tracker.demo.cards import derived
from tracker.demo.objects import Commit, TreeItem
from tracker.demo.store import Model
from tracker.demo.xet import xet_hash


def stamp(when: datetime) -> str:
    """A time as the Hub writes it: ``2024-02-19T10:57:45.000Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"


# Keys that are worked out from files, and so only where they are asked for.
_FROM_FILES = frozenset({"cardData", "config", "safetensors", "library_name", "pipeline_tag", "tags"})


def model_json(
    model: Model, sha: str | None, *, keys: Collection[str] | None = None, blobs: bool = False
) -> dict[str, Any]:
    """Everything that model info may say at a commit; with ``keys``, at least those."""
    repo = model.repo
    wanted = _FROM_FILES | {"siblings", "usedStorage"} if keys is None else set(keys)
    info: dict[str, Any] = {
        "_id": model.hub_id,
        "id": model.id,
        "modelId": model.id,
        "author": model.id.partition("/")[0],
        "sha": sha,
        "private": model.private,
        "gated": model.gated,
        "disabled": bool(model.disabled),
        "lastModified": None,
        "createdAt": stamp(model.created_at),
        "downloads": 0,
        "downloadsAllTime": 0,
        "likes": 0,
        "trendingScore": 0,
        "xetEnabled": model.xet,
        "tags": [],
        "siblings": [],
        "spaces": [],
        "usedStorage": 0,
    }
    if sha is not None:
        info["lastModified"] = stamp(model.last_modified or repo.commit_info(sha).date)
        if wanted & {"siblings", "usedStorage"}:
            files = sorted(repo.files(sha))
            info["siblings"] = [_sibling(model, path, item, blobs=blobs) for path, item in files]
            info["usedStorage"] = sum(file_size(model, item) for _, item in files)
        if wanted & _FROM_FILES:
            info |= derived(repo, sha)
    info |= model.fields
    return {key: value for key, value in info.items() if value is not None}


def _sibling(model: Model, path: str, item: TreeItem, *, blobs: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"rfilename": shown(path)}
    if blobs:
        row |= {"size": file_size(model, item), "blobId": item.sha}
        pointer = model.repo.pointer(item.sha)
        if pointer:
            row["lfs"] = {
                "sha256": pointer.sha256, "size": pointer.size, "pointerSize": len(pointer.encode())
            }  # fmt: skip
    return row


def entries_json(
    model: Model, sha: str, entries: Iterable[tuple[str, TreeItem]], *, expand: bool
) -> list[dict[str, Any]]:
    """Rows of ``/tree`` and ``/paths-info`` at a commit; ``expand`` adds the last commit and the scan."""
    entries = list(entries)
    last = _last_commits(model, sha, [path for path, _ in entries]) if expand else {}
    rows = []
    for path, item in entries:
        # a submodule is no file: nothing can be fetched for it
        kind = "directory" if item.folder or item.submodule else "file"
        row: dict[str, Any] = {"type": kind, "oid": item.sha, "size": 0}
        if kind == "file":
            row["size"] = file_size(model, item)
            pointer = model.repo.pointer(item.sha)
            if pointer:
                size = len(pointer.encode())
                row["lfs"] = {"oid": pointer.sha256, "size": pointer.size, "pointerSize": size}
                if model.xet:
                    row["xetHash"] = xet_hash(pointer.sha256)
        row["path"] = shown(path)
        if expand:
            commit = model.repo.commit_info(last[path])
            row["lastCommit"] = {"id": commit.sha, "title": commit.title, "date": stamp(commit.date)}
            if kind == "file":
                scan = {"virusFound": False, "virusNames": None}
                row["securityFileStatus"] = {"status": "safe", "avScan": scan, "pickleImportScan": None}
        rows.append(row)
    return rows


def commit_json(commit: Commit, *, formatted: bool) -> dict[str, Any]:
    """A row of ``/commits``."""
    row: dict[str, Any] = {
        "id": commit.sha,
        "title": commit.title,
        "message": commit.body,
        "authors": [{"user": commit.author, "avatar": f"/avatars/{quote(commit.author, safe='')}.svg"}],
        "date": stamp(commit.date),
    }
    if formatted:
        row["formatted"] = {"title": _escaped(commit.title), "message": _escaped(commit.body)}
    return row


def shown(path: str) -> str:
    """A path as JSON can hold it: bytes that are no UTF-8 become replacement characters."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def file_size(model: Model, item: TreeItem) -> int:
    """A file's size in bytes, of the content and not of the pointer."""
    pointer = model.repo.pointer(item.sha)
    if pointer:
        return pointer.size
    found = model.repo.info(item.sha)
    return found[1] if found else 0


def _last_commits(model: Model, sha: str, paths: Sequence[str]) -> dict[str, str]:
    """For each path the newest commit that gave it the content it has, along first parents."""
    repo = model.repo
    wanted = {path: repo.find(sha, path) for path in paths}
    last = {}
    at = sha
    while wanted:
        above = repo.commit_info(at).parents
        if above and repo.commit_info(above[0]).tree == repo.commit_info(at).tree:
            at = above[0]
            continue
        for path, item in list(wanted.items()):
            if not above or repo.find(above[0], path) != item:
                last[path] = at
                del wanted[path]
        at = above[0] if above else at
    return last


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
