"""Reads a source tree: which files matter, in which notation, within bounds that a hostile tree cannot break."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from advisories.audit.find import cache
from advisories.audit.find.kinds import Kind, kind_by_start, kind_of
from advisories.audit.model import Gap, Notation, Reading, Reference, Unreadable
from advisories.audit.names import Names
from storage.errors import UsageError

_SKIPPED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".bzr",
        "node_modules",
        "bower_components",
        "__pycache__",
        "site-packages",
        "dist-packages",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".ipynb_checkpoints",
        ".terraform",
        ".eggs",
        ".idea",
        ".vscode-test",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one audit reads at most."""

    file_bytes: int = 2 << 20
    notebook_bytes: int = 16 << 20
    settings_bytes: int = 1 << 20
    sbom_bytes: int = 32 << 20
    total_bytes: int = 1 << 30
    entries: int = 500_000
    depth: int = 40
    references: int = 50_000
    gaps: int = 2000


def read_tree(root: Path, names: Names, limits: Limits = Limits()) -> Reading:
    """The references of a folder, or of one file; what cannot be read is a gap.

    Raises UsageError when there is nothing at ``root``.
    """
    if not root.exists():
        raise UsageError(f"there is nothing at {root}", help="name a folder or a file")
    return _Tree(root, names, limits).read()


def read_file(path: Path, kind: Kind, names: Names, limits: Limits = Limits()) -> Reading:
    """The references of one file in a kind of one's own choice. Raises UsageError when it cannot be read."""
    data = _bytes(path, getattr(limits, kind.limit))
    if isinstance(data, Gap):
        raise UsageError(f"{path} cannot be read: {data.detail}", help="name a regular file of a sane size")
    try:
        reading = kind.find(data, _decoded(data), names)
    except Unreadable as error:
        raise UsageError(f"{path}: {error.detail}", help="name a CycloneDX or SPDX document") from None
    return _named(reading, path.name, kind.notation)


class _Tree:
    def __init__(self, root: Path, names: Names, limits: Limits) -> None:
        self.root = root
        self.base = root if root.is_dir() else root.parent
        self.names = names
        self.limits = limits
        self.references: list[Reference] = []
        self.gaps: list[Gap] = []
        self.left = limits.total_bytes

    def read(self) -> Reading:
        """Walk and read until done or a limit is reached."""
        if not self.root.is_dir():
            self._file(self.root, self.root.name, sure=True)
        else:
            for path, shown in self._walk():
                self._file(path, shown)
                if len(self.references) > self.limits.references:
                    self._gap("too_large", f"more than {self.limits.references} references", None)
                    break
                if self.left <= 0:
                    self._gap("too_large", f"more than {self.limits.total_bytes} bytes of sources", None)
                    break
        ordered = sorted(self.references, key=lambda item: (item.file, item.place.line, item.repo))
        return Reading(references=tuple(dict.fromkeys(ordered)), gaps=tuple(self.gaps[: self.limits.gaps]))

    def _walk(self) -> Iterator[tuple[Path, str]]:
        pending: list[tuple[Path, str, int]] = [(self.root, "", 0)]
        count = 0
        while pending:
            folder, prefix, depth = pending.pop()
            try:
                with os.scandir(folder) as entries:
                    listed = []
                    for entry in entries:
                        count += 1
                        if count > self.limits.entries:
                            self._gap("too_large", f"more than {self.limits.entries} files", prefix or None)
                            return
                        listed.append(entry)
            except OSError as error:
                self._gap("unreadable", error.strerror or "cannot be listed", prefix.rstrip("/") or ".")
                continue
            deeper: list[tuple[Path, str, int]] = []
            for entry in sorted(listed, key=lambda item: item.name):
                shown = f"{prefix}{entry.name}"
                try:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    is_file = entry.is_file(follow_symlinks=False)
                except OSError as error:
                    self._gap("unreadable", error.strerror or "cannot be looked at", shown)
                    continue
                if is_file:
                    yield Path(entry.path), shown
                elif is_folder and entry.name.startswith(cache.PREFIX):
                    reading = cache.repo(Path(entry.path), base=self.base)
                    self.references += reading.references
                    self.gaps += reading.gaps
                elif is_folder and self._enters(entry):
                    if depth >= self.limits.depth:
                        self._gap("too_deep", f"deeper than {self.limits.depth} folders", shown)
                    else:
                        deeper.append((Path(entry.path), f"{shown}/", depth + 1))
            pending += reversed(deeper)

    @staticmethod
    def _enters(entry: os.DirEntry[str]) -> bool:
        if entry.name in _SKIPPED:
            return False
        return not os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - many of them

    def _file(self, path: Path, shown: str, *, sure: bool = False) -> None:
        kind = kind_of(path.name) or self._by_shebang(path)
        if kind is None:
            if sure:
                self._gap("unknown_kind", "not a kind of file that is understood", shown)
            return
        data = _bytes(path, getattr(self.limits, kind.limit))
        if isinstance(data, Gap):
            self._gap(data.reason, data.detail, shown)
            return
        self.left -= len(data)
        if b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            self._gap("binary", "not text", shown)
            return
        names = replace(self.names, exists=self._exists(path.parent))
        try:
            reading = _named(kind.find(data, _decoded(data), names), shown, kind.notation)
        except Unreadable as error:
            self._gap(error.reason, error.detail, shown)
            return
        self.references += reading.references
        self.gaps += reading.gaps

    def _exists(self, folder: Path) -> Callable[[str], bool]:
        """Whether a relative path is there: beside the file, or from the top of the tree."""

        def there(text: str) -> bool:
            try:
                return any(os.path.lexists(place / text) for place in {folder, self.base})
            except (OSError, ValueError):
                return False

        return there

    @staticmethod
    def _by_shebang(path: Path) -> Kind | None:
        if "." in path.name:
            return None
        data = _bytes(path, 1 << 20, only=128)
        return kind_by_start(data) if isinstance(data, bytes) else None

    def _gap(self, reason: str, detail: str, file: str | None) -> None:
        self.gaps.append(Gap(reason=reason, detail=detail, file=file))


def _named(reading: Reading, shown: str, notation: Notation) -> Reading:
    references = tuple(
        replace(item, file=shown, notation=item.notation if item.notation is not Notation.PYTHON else notation)
        for item in reading.references
    )
    return Reading(references=references, gaps=tuple(replace(gap, file=shown) for gap in reading.gaps))


def _bytes(path: Path, limit: int, only: int | None = None) -> bytes | Gap:
    """The bytes of a regular file, or why not; never waits for a pipe, never follows a link."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        return Gap(reason="unreadable", detail=error.strerror or "cannot be opened")
    try:
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return Gap(reason="unreadable", detail="not a regular file")
            if only is not None:
                return file.read(only)
            if found.st_size > limit:
                return Gap(reason="too_large", detail=f"{found.st_size} bytes, more than {limit}")
            return file.read(limit)
    except OSError as error:
        return Gap(reason="unreadable", detail=error.strerror or "cannot be read")


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
