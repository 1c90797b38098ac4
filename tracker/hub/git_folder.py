"""Temporary folders that do not outlive their process for long, however it ends.

Each holds a locked file for as long as its process lives. Whoever makes a folder first removes those that nobody
holds any more: what a killed process left behind. A lock, and not a process id: the folder may be shared with
containers, in which other ids are valid.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PREFIX = "hubwatch-git-"
LOCK = "held"
YOUNG_S = 60.0
"""Seconds for which a folder that nobody holds may be one that is just being made."""


@dataclass(slots=True)
class Folder:
    """A folder of ours, and the lock that says so."""

    path: Path
    _lock: int

    @classmethod
    def make(cls) -> Self:
        """Remove abandoned folders and make a new one. Raises OSError."""
        sweep(Path(tempfile.gettempdir()))
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # not every file system has locks; it is then never taken for abandoned
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return cls(path, lock)

    def remove(self) -> None:
        """Remove it and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def sweep(parent: Path) -> None:
    """Remove the folders in here that no living process holds; what belongs to other users stays."""
    for folder in parent.glob(f"{PREFIX}*"):
        if _abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    try:
        status = folder.lstat()
        if status.st_uid != os.getuid() or not folder.is_dir() or folder.is_symlink():
            return False
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return folder.is_dir() and _old(status)
    except OSError:
        return False
    try:
        if not _old(os.fstat(lock)):
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _old(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > YOUNG_S


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; those that vanish meanwhile count as nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size  # noqa: PTH118 - many times a second
    return total
