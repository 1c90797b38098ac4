"""The sandboxed child process, seen from outside: started once, asked many times, killed after any trouble.

The child (`tracker.probe.child`) has no environment, no inherited descriptors, its own session, and limits on
CPU, memory, files and output; the wall clock is kept here. What a limit cuts off is a gap, told by one word:
``time``, ``memory``, ``output``, ``died``.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracker import metrics
from tracker.descriptors import readable, writable

START_SECONDS = 20.0  # for the child to come up on a busy machine
MAX_ANSWER = 8 << 20  # bytes: the longest prompt, every character escaped
_CHILD = Path(__file__).with_name("child.py")


class Allowance:
    """Seconds of wall clock that several probes share, so that no revision holds the daemon up for long."""

    def __init__(self, seconds: float) -> None:
        """Start the clock."""
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left; 0 or less once they are spent."""
        return self._until - time.monotonic()


class Sandbox:
    """One child of one kind (``templates`` or ``tokenizers``), started when it is first asked. Not thread-safe."""

    def __init__(
        self,
        kind: str,
        *,
        script: Path = _CHILD,
        start_seconds: float = START_SECONDS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Remember what the child is for; nothing is started yet.

        ``script`` speaks the protocol of `tracker.probe.child`; ``environment`` is all that it sees.
        """
        self._start = (kind, script, start_seconds, dict(environment or {}))
        self._child: _Child | None = None
        self.largest = 0
        """Bytes of the longest question that the present child was asked."""

    def start(self) -> None:
        """Have the child come up, which takes a moment, while something else is done."""
        if self._child is None:
            with contextlib.suppress(_Trouble):  # `ask` meets it, too
                self._child = _Child(*self._start)

    def ask(self, request: Mapping[str, Any] | bytearray, *, seconds: float) -> dict[str, Any]:
        """The child's answer, or ``{"gap": word}`` after which the next call starts another child.

        A large request may be given as the JSON that it is sent as.
        """
        try:
            child = self._child = self._child or _Child(*self._start)
            body = request if isinstance(request, bytearray) else json.dumps(request).encode("ascii")
            self.largest = max(self.largest, len(body))
            answer = child.ask(body, seconds=seconds)
        except _Trouble as trouble:
            metrics.child_failed(self._start[0], str(trouble))
            self.close()
            return {"gap": str(trouble)}
        if answer.get("gap") == "memory":
            metrics.child_failed(self._start[0], "memory")
            self.close()
        return answer

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child, self.largest = None, 0


class _Trouble(Exception):
    """The child gave no answer; the message is the gap's word."""


class _Child:
    """One sandboxed process and the pipes to it."""

    def __init__(self, kind: str, script: Path, start_seconds: float, environment: dict[str, str]) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
                [sys.executable, "-I", str(script), kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                close_fds=True,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:  # no memory or no process left for it
            raise _Trouble("died") from error
        metrics.child_started(kind)
        assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
        assert self._process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._start_seconds: float | None = start_seconds
        """For its first word; None once that was heard."""

    def ask(self, body: bytes | bytearray, *, seconds: float) -> dict[str, Any]:
        """Send one request and wait for its answer; raises _Trouble."""
        if self._start_seconds is not None:
            self._receive(time.monotonic() + self._start_seconds)
            self._start_seconds = None
        deadline = time.monotonic() + seconds
        self._send(struct.pack(">I", len(body)), deadline)
        self._send(body, deadline)
        return self._receive(deadline)

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()

    def _send(self, data: bytes | bytearray, deadline: float) -> None:
        view = memoryview(data)
        descriptor = self._stdin.fileno()
        while view:
            left = deadline - time.monotonic()
            if left <= 0 or not writable(descriptor, left):
                raise _Trouble("time")
            try:
                view = view[os.write(descriptor, view) :]
            except OSError as error:
                raise _Trouble("died") from error

    def _receive(self, deadline: float) -> dict[str, Any]:
        (size,) = struct.unpack(">I", self._read(4, deadline))
        if size > MAX_ANSWER:
            raise _Trouble("output")
        try:
            answer = json.loads(self._read(size, deadline))
        except (ValueError, RecursionError) as error:
            raise _Trouble("died") from error
        if not isinstance(answer, dict):
            raise _Trouble("died")
        return answer

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        descriptor = self._stdout.fileno()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not readable(descriptor, left):
                raise _Trouble("time")
            part = os.read(descriptor, min(size - len(data), 1 << 16))
            if not part:
                raise _Trouble("died")
            data += part
        return bytes(data)
