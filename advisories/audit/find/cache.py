"""What a Hub cache holds: ``models--owner--name/refs/<ref>`` and ``snapshots/<sha>``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from advisories.audit.legacy import LEGACY
from advisories.audit.model import Gap, Notation, Place, Reading, Reference, is_sha
from storage.errors import UsageError
from storage.model import RepoRef

PREFIX = "models--"
_MOST_REPOS = 20_000
_MOST_REFS = 1000
_DEEPEST_REF = 4
_REF_BYTES = 200


def default_cache(environment: dict[str, str] | os._Environ[str] = os.environ) -> Path:
    """Where the Hub's own tools keep what they download."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    home = environment.get("HF_HOME")
    if not home:
        root = environment.get("XDG_CACHE_HOME") or "~/.cache"
        home = f"{root}/huggingface"
    return (Path(home) / "hub").expanduser()


def read(folder: Path) -> Reading:
    """Every commit that a cache holds: one reference a repo and sha. Raises UsageError when it is not there.

    ``folder`` may also be the one that holds ``hub/``, or a single ``models--owner--name``.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no Hub cache at {folder}", help="name its folder: --hub-cache DIR")
    if folder.name.startswith(PREFIX):
        return repo(folder, base=folder.parent)
    inner = folder / "hub"
    references: list[Reference] = []
    gaps: list[Gap] = []
    base = inner if inner.is_dir() and not inner.is_symlink() and not _has_models(folder) else folder
    for count, entry in enumerate(_folders(base, gaps)):
        if count >= _MOST_REPOS:
            gaps.append(Gap(reason="too_large", detail=f"more than {_MOST_REPOS} repos"))
            break
        if entry.name.startswith(PREFIX):
            reading = repo(Path(entry.path), base=folder)
            references += reading.references
            gaps += reading.gaps
    return Reading(references=tuple(references), gaps=tuple(gaps))


def repo(folder: Path, *, base: Path) -> Reading:
    """What one ``models--owner--name`` holds; files are told relative to ``base``."""
    shown = folder.relative_to(base).as_posix()
    name = _repo_id(folder.name)
    if name is None:
        return Reading(gaps=(Gap(reason="parse_error", detail="not a repo's folder", file=shown),))
    gaps: list[Gap] = []
    refs = dict(_refs(folder / "refs", gaps, shown))
    held = [entry.name for entry in _folders(folder / "snapshots", gaps) if is_sha(entry.name)]
    found: list[Reference] = []
    named: set[str] = set()
    for ref, sha in sorted(refs.items()):
        if sha in named:
            continue
        named.add(sha)
        found.append(_reference(name, sha, f"{shown}/refs/{ref}", f"refs/{ref}"))
    found += [_reference(name, sha, f"{shown}/snapshots/{sha}", "snapshots") for sha in sorted(set(held) - named)]
    return Reading(references=tuple(found), gaps=tuple(gaps))


def _reference(name: str, sha: str, file: str, via: str) -> Reference:
    return Reference(repo=name, revision=sha, place=Place(line=1), via=via, file=file, notation=Notation.HUB_CACHE)


def _repo_id(folder: str) -> str | None:
    text = folder.removeprefix(PREFIX).replace("--", "/")
    if "/" not in text:
        text = f"{LEGACY.get(text, '')}/{text}"
    try:
        return RepoRef.parse(text).id
    except UsageError:
        return None


def _has_models(folder: Path) -> bool:
    return any(entry.name.startswith(PREFIX) for entry in _folders(folder, []))


def _folders(folder: Path, gaps: list[Gap]) -> list[os.DirEntry[str]]:
    """The folders inside a folder, by name; links are not followed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                (entry for entry in entries if entry.is_dir(follow_symlinks=False)), key=lambda entry: entry.name
            )
    except FileNotFoundError:
        return []
    except OSError as error:
        gaps.append(Gap(reason="unreadable", detail=error.strerror or "cannot be listed", file=folder.name))
        return []


def _refs(folder: Path, gaps: list[Gap], shown: str) -> Iterator[tuple[str, str]]:
    """Name and sha of each ref; names may have slashes (``refs/pr/1``)."""
    pending: list[tuple[Path, str, int]] = [(folder, "", 0)]
    count = 0
    while pending:
        here, prefix, depth = pending.pop()
        try:
            with os.scandir(here) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed[:_MOST_REFS]:
            count += 1
            if count > _MOST_REFS:
                return
            name = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEEPEST_REF:
                    pending.append((Path(entry.path), f"{name}/", depth + 1))
            elif entry.is_file(follow_symlinks=False):
                sha = _small(entry.path)
                if is_sha(sha):
                    yield name, str(sha)
                else:
                    gaps.append(Gap(reason="parse_error", detail="not a commit sha", file=f"{shown}/refs/{name}"))


def _small(path: str) -> str | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return file.read(_REF_BYTES).decode("ascii", "replace").strip().lower()
