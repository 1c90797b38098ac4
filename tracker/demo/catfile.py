"""Objects that git has packed, read through one long-running `git cat-file --batch`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path
from shutil import which


def git_environment(**more: str) -> dict[str, str]:
    """An environment in which git reads no configuration but the repository's and asks nothing."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        **more,
    }


class CatFile:
    """The reader; its process starts with the first object asked for, and not where nothing is packed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, sha: str) -> tuple[str, bytes]:
        """An object's type and body; KeyError when it is not in any pack."""
        if not any((self._path / "objects" / "pack").glob("*.pack")):
            raise KeyError(sha)
        with self._lock:
            process = self._running()
            stdin, stdout = process.stdin, process.stdout
            if stdin is None or stdout is None:
                raise KeyError(sha)
            stdin.write(sha.encode("ascii") + b"\n")
            stdin.flush()
            answer = stdout.readline().split()
            if len(answer) != 3:
                raise KeyError(sha)
            body = stdout.read(int(answer[2]))
            stdout.read(1)
            return answer[1].decode("ascii"), body

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603 - a fixed command on a folder of our own
                [which("git") or "git", f"--git-dir={self._path}", "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=git_environment(),
            )
        return self._process
