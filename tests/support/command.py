"""The real command line, as a process of its own, against a loopback Hub and a database of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, parsed; fails the test with stderr when it is not JSON."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(
                f"not JSON (exit {self.code}): {self.out[:500]!r}; stderr: {self.err[:2000]}"
            ) from None


@dataclass(slots=True)
class Hubwatch:
    """One installation: an endpoint, a database, an environment."""

    endpoint: str
    database_url: str
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, timeout: float = 240, **environment: str) -> Result:
        """Run a command to its end."""
        done = subprocess.run(
            self._command(arguments),
            env=self._environment(environment),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str, codes: tuple[int, ...] = (0,), **environment: str) -> Any:
        """Run a reading command with ``--json`` and return what it gave."""
        result = self(*arguments, "--json", **environment)
        assert result.code in codes, f"exit {result.code}: {result.err}"
        return result.json

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            self._command(arguments),
            env=self._environment(environment),
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_after(self, seconds: float, *arguments: str) -> bool:
        """Start a command and SIGKILL it; returns whether it was still running then."""
        process = self.start(*arguments)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return True
        process.communicate()
        return False

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-c", "from tracker.cli import main; main()", *arguments]

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HUBWATCH_", "HF_"))}
        return {
            **kept,
            "HOME": str(self.home),
            "HF_ENDPOINT": self.endpoint,
            "HUBWATCH_DATABASE_URL": self.database_url,
            "NO_COLOR": "1",
            **self.environment,
            **more,
        }


def wait_for(condition: Any, *, seconds: float = 60, what: str = "the condition") -> Any:
    """Poll until ``condition()`` is truthy and return its value."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come about within {seconds} s")
