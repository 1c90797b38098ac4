"""Daemons of one installation, as processes: started, stopped, killed, and none left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.support.command import Hubwatch

START_SECONDS = 60
STOP_SECONDS = 45  # the grace of a daemon, and what an interpreter takes to end


@dataclass(slots=True)
class Daemon:
    """One ``hubwatch run``. What it says is read all the time, so that a full pipe never stops it."""

    process: subprocess.Popen[str]
    _lines: list[str] = field(default_factory=list)
    _up: threading.Event = field(default_factory=threading.Event)
    _reader: threading.Thread | None = None

    def begin(self) -> Self:
        """Wait until it says that it runs."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._up.wait(START_SECONDS), f"the daemon did not start: {self.said}"
        assert "hubwatch runs" in self.said, f"the daemon ended: {self.said}"
        return self

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def said(self) -> str:
        """Everything it said on stderr until now."""
        return "".join(self._lines)

    @property
    def url(self) -> str:
        """Where its pages are."""
        found = re.search(r"http://\S+", self.said)
        assert found, f"no pages: {self.said}"
        return found[0]

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None

    def stop(self) -> int:
        """End it by SIGTERM; returns its exit code. Fails when that takes longer than its grace."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        code = self.process.wait(STOP_SECONDS)
        if self._reader:
            self._reader.join(5)
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.append(line)
            if "hubwatch runs" in line:
                self._up.set()
        self._up.set()


class Fleet:
    """The daemons of one installation."""

    def __init__(self, hubwatch: Hubwatch) -> None:
        """None yet."""
        self._hubwatch = hubwatch
        self.daemons: list[Daemon] = []

    def start(self, roles: str, **environment: str) -> Daemon:
        """Start a daemon with these roles, and wait until it runs."""
        return self._launch(roles, **environment).begin()

    def start_all(self, *roles: str) -> list[Daemon]:
        """Start several daemons at once, one for each set of roles, and wait until all of them run."""
        return [daemon.begin() for daemon in [self._launch(item) for item in roles]]

    def _launch(self, roles: str, **environment: str) -> Daemon:
        daemon = Daemon(self._hubwatch.start("run", "--roles", roles, **environment))
        self.daemons.append(daemon)
        return daemon

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for daemon in self.daemons:
            if daemon.is_running:
                daemon.kill()
            if daemon.process.stdout:
                daemon.process.stdout.close()
            print(f"--- {daemon.pid}, exit {daemon.process.returncode}\n{daemon.said}")  # shown when a test fails
