"""Running git on what nobody can be trusted to have written: a temporary bare repository, and limits.

    with Git(address, token, GitLimits()) as git:
        git.remote("fetch", ..., "origin", head)      # may talk to the address, and to nothing else
        git.local("rev-list", head)                   # may talk to nobody

* The environment is made here: no configuration of the machine or the user, no prompt, no hook, no filter, no
  helper, one protocol, no redirect. The repository's own configuration is what `git init` writes and stays so:
  whatever else git is told is in its environment. In particular it never learns, where it reads, that objects are
  missing on purpose, and so cannot fetch one on the quiet.
* The token is in the environment of the one process that needs it, as a header for this address: in no URL, no
  argument list, no file.
* Every process ends at a deadline, at a size of the folder, and (on Linux) at a size of one file and of memory;
  a limit that is hit ends the whole process group.
* Whatever goes wrong is `GitUnavailable`, which means: read by the API instead. It decides nothing about the repo.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

from tracker import metrics
from tracker.descriptors import readable
from tracker.hub import transport
from tracker.hub.answers import plain
from tracker.hub.deadline import time_left
from tracker.hub.errors import GitUnavailable, RateLimited
from tracker.hub.git_environment import MIB, GitLimits, Remote, basic, environment
from tracker.hub.git_folder import Folder, size_of
from tracker.hub.limits import DEFAULT_PAUSE_S

try:
    import resource
except ImportError:  # pragma: no cover - not a POSIX system
    resource = None  # type: ignore[assignment]

STDERR_LIMIT = 16 * 1024
"""Bytes read of what git says about a failure."""
LOOK_S = 0.05
"""Seconds between two looks at how large the folder has become."""
OLDEST = (2, 31)
"""The first git that takes configuration from its environment (``GIT_CONFIG_COUNT``)."""
HELP = "nothing to do: the same is read by the Hub's API"

_REFUSED = re.compile(
    r"returned error: (?:401|403|404|410|451)|could not read username|authentication failed|not found", re.I
)
_TOO_LARGE = re.compile(r"no space left|file too large|out of memory|cannot allocate|died of signal", re.I)
_TIMED_OUT = re.compile(r"operation too slow|timed out", re.I)
_NOT_SERVED = re.compile(r"not our ref|unadvertised object|does not (?:allow|support)|remote error|redirect", re.I)
_CORRUPT = re.compile(
    r"fsck error|in packed object|unpack|index-pack|did not send all|bad (?:object|tree|pack)|corrupt|inflate",
    re.I,
)


@dataclass(slots=True)
class Git:
    """Git on one temporary bare repository, which is gone when the block ends.

    Args:
        address: The repo's http(s) URL, without user and password.
        token: Sent to that address only; None reads anonymously.
        limits: What it may cost.
        program: Where git is; by default found on PATH.

    """

    address: str
    token: str | None
    limits: GitLimits
    program: str | None = None
    _folder: Folder | None = None
    _spent: float = 0.0
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Make the folder and the repository. Raises GitUnavailable."""
        self.program = self.program or shutil.which("git")
        if self.program is None:
            raise GitUnavailable("there is no git on this machine", reason="no_git", help="install git")
        try:
            self._folder = Folder.make()
        except OSError as error:
            raise GitUnavailable(f"no temporary folder: {error.strerror}", reason="failed", help=HELP) from None
        try:
            self._check_version(self._run(["version"], b"", network=False))
            self._run(["init", "--quiet", "--bare", "--template=", str(self.repository)], b"", network=False)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what still runs and remove the folder."""
        self._remove()

    @property
    def folder(self) -> Path:
        """The temporary folder."""
        if self._folder is None:
            raise GitUnavailable("the repository is closed", reason="failed", help=HELP)
        return self._folder.path

    @property
    def repository(self) -> Path:
        """The bare repository in it."""
        return self.folder / "repo.git"

    def remote(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a command that talks to the address, known as ``origin``, and give its output.

        Raises:
            GitUnavailable: Whatever went wrong.
            RateLimited: The server asks for a pause.

        """
        began = time.monotonic()
        status: int | None = None
        try:
            said = self._run([f"--git-dir={self.repository}", *arguments], stdin, network=True)
            status = 200
        except RateLimited:
            status = 429
            raise
        finally:
            metrics.requested("git", status, time.monotonic() - began)
        return said

    def local(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a command that talks to nobody and give its output. Raises GitUnavailable."""
        return self._run([f"--git-dir={self.repository}", *arguments], stdin, network=False)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that answers questions over pipes and talks to nobody; it ends with the block."""
        process = self._spawn(
            [f"--git-dir={self.repository}", *arguments],
            network=False,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._running.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a started command, whatever it is doing."""
        _kill(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if process in self._running:
            self._running.remove(process)

    @staticmethod
    def _check_version(said: bytes) -> None:
        found = re.match(rb"git version (\d{1,4})\.(\d{1,4})", said)
        if found is None or (int(found[1]), int(found[2])) < OLDEST:
            raise GitUnavailable(
                f"git is older than {OLDEST[0]}.{OLDEST[1]}", reason="no_git", help="install a newer git"
            )

    def _remove(self) -> None:
        for process in list(self._running):
            self.end(process)
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    def _run(self, arguments: list[str], stdin: bytes, *, network: bool) -> bytes:
        started = time.monotonic()
        seconds = self._time(network=network)
        # files, not pipes: nothing to feed or drain, and both count against the folder's size
        with _scratch(self.folder) as given, _scratch(self.folder) as out, _scratch(self.folder) as err:
            given.write(stdin)
            given.seek(0)
            process = self._spawn(arguments, network=network, stdin=given, stdout=out, stderr=err)
            try:
                self._watch(process, started + seconds)
            finally:
                _kill(process)
                if network:
                    self._spent += time.monotonic() - started
            if process.returncode != 0:
                err.seek(0)
                raise self._failure(process.returncode, err.read(STDERR_LIMIT))
            out.seek(0)
            return out.read(self.limits.disk_bytes)

    def _time(self, *, network: bool) -> float:
        """Seconds that a command may take."""
        left = time_left()
        allowed = self.limits.seconds - (self._spent if network else 0.0)
        return allowed if left is None else min(allowed, left)

    def _watch(self, process: subprocess.Popen[bytes], until: float) -> None:
        """Wait for the end of a process, its time, or its room."""
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise GitUnavailable("git took too long", reason="timed_out", help=HELP)
            if _ends(process, min(LOOK_S, left)):
                return
            if size_of(self.folder) > self.limits.disk_bytes:
                raise GitUnavailable(
                    f"the repository takes more than {self.limits.disk_bytes // MIB} MiB",
                    reason="too_large",
                    help=HELP,
                )

    def _spawn(self, arguments: list[str], *, network: bool, **pipes: Any) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(  # noqa: S603 - git, with arguments of our own and checked ids
                [str(self.program), *arguments],
                env=environment(self.folder, self.limits, self._remote() if network else None),
                cwd=self.folder,
                start_new_session=True,
                close_fds=True,
                restore_signals=False,  # a file over its size is then an error that git tells, not a silent end
                **pipes,
            )
        except OSError as error:
            raise GitUnavailable(
                f"git does not start: {error.strerror}", reason="no_git", help="install git"
            ) from None
        _limit(process.pid, self.limits)
        return process

    def _remote(self) -> Remote:
        return Remote(self.address, self.token)

    def _failure(self, code: int, said: bytes) -> GitUnavailable | RateLimited:
        """What a failed command stands for; nothing secret is in it."""
        text = self._scrubbed(said.decode("utf-8", "replace"))
        if re.search(r"returned error: 429", text):
            return RateLimited(
                f"{urlsplit(self.address).hostname} asks git for a pause",
                seconds=DEFAULT_PAUSE_S,
                help=transport.PAUSE_HELP,
            )
        told = next((line for line in text.splitlines() if line.startswith(("fatal:", "error:", "remote:"))), "")
        if code < 0:
            reason, told = "too_large", f"ended by signal {-code}"
        elif _REFUSED.search(text):
            reason = "refused"
        elif _TOO_LARGE.search(text):
            reason = "too_large"
        elif _TIMED_OUT.search(text):
            reason = "timed_out"
        elif _NOT_SERVED.search(text):
            reason = "not_served"
        else:
            reason = "corrupt" if _CORRUPT.search(text) else "failed"
        return GitUnavailable(f"git: {plain(told) or f'exit {code}'}", reason=reason, help=HELP)

    def _scrubbed(self, text: str) -> str:
        for secret in (self.token, basic(self.token)) if self.token else ():
            text = text.replace(secret, "***")
        text = re.sub(r"//[^/@\s]*@", "//", text)
        return text.replace(str(self.folder), "")


def _scratch(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise GitUnavailable(f"no temporary file: {error.strerror}", reason="failed", help=HELP) from None


def _limit(pid: int, limits: GitLimits) -> None:
    """Bound a process and what it starts; by its id, because code between fork and exec is not safe in threads."""
    if resource is None or not hasattr(resource, "prlimit"):
        return
    for what, amount in (
        (resource.RLIMIT_FSIZE, limits.disk_bytes),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, what, (amount, amount))


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a process ends within so many seconds; known at once where the system tells it."""
    if hasattr(os, "pidfd_open"):  # what else there is looks again after growing pauses
        with suppress(OSError):
            descriptor = os.pidfd_open(process.pid)
            try:
                readable(descriptor, seconds)
            finally:
                os.close(descriptor)
            return process.poll() is not None
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started; one that has ended by itself is left alone, its id may be another's."""
    if process.returncode is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
