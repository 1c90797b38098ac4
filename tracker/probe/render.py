"""Chat templates of two revisions, rendered side by side in a sandboxed child process.

The child (`tracker.probe.child`) is started once and asked many times; it is killed and started anew
after any trouble. It has no environment, no inherited descriptors, its own session, and limits on CPU,
memory, files and output; the wall clock is kept here. What a template raises is a result; what a limit
cuts off is a gap.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from storage.model import Json, ProbeOutcome, ProbeResult
from tracker.probe.conversations import Conversation, conversations

WALL_SECONDS = 5.0  # for one prompt
START_SECONDS = 20.0  # for the child to come up on a busy machine
MAX_ANSWER = 8 << 20  # bytes: the longest prompt, every character escaped
MAX_TEMPLATE = 1 << 20  # characters
MAX_TROUBLE = 2  # gaps after which a template is not tried on further conversations
_CHILD = Path(__file__).with_name("child.py")


class _Trouble(Exception):
    """The child gave no answer; the message is the gap's word."""


class _Child:
    """One sandboxed process and the pipes to it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
            [sys.executable, "-I", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            close_fds=True,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
        assert self._process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        try:
            self._receive(time.monotonic() + START_SECONDS)
        except _Trouble:
            self.kill()
            raise

    def ask(self, request: Mapping[str, Any], *, seconds: float) -> dict[str, str]:
        """Send one request and wait for its answer; raises _Trouble."""
        deadline = time.monotonic() + seconds
        body = json.dumps(request).encode("ascii")
        self._send(struct.pack(">I", len(body)) + body, deadline)
        return self._receive(deadline)

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        descriptor = self._stdin.fileno()
        while view:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [descriptor], [], left)[1]:
                raise _Trouble("time")
            try:
                view = view[os.write(descriptor, view) :]
            except OSError as error:
                raise _Trouble("died") from error

    def _receive(self, deadline: float) -> dict[str, str]:
        (size,) = struct.unpack(">I", self._read(4, deadline))
        if size > MAX_ANSWER:
            raise _Trouble("output")
        try:
            answer = json.loads(self._read(size, deadline))
        except ValueError as error:
            raise _Trouble("died") from error
        if not isinstance(answer, dict):
            raise _Trouble("died")
        return {str(key): str(value) for key, value in answer.items()}

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        descriptor = self._stdout.fileno()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise _Trouble("time")
            part = os.read(descriptor, min(size - len(data), 1 << 16))
            if not part:
                raise _Trouble("died")
            data += part
        return bytes(data)


class Prober:
    """Tries chat templates out. One may be shared between threads; close it, or use it as a context.

    Args:
        seconds: The wall clock for one prompt.

    """

    def __init__(self, *, seconds: float = WALL_SECONDS) -> None:
        self._seconds = seconds
        self._child: _Child | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child; the next call starts another."""
        with self._lock:
            self._drop()

    def templates(
        self,
        before: str | None,
        after: str | None,
        *,
        special_tokens_before: Mapping[str, Json] | None = None,
        special_tokens_after: Mapping[str, Json] | None = None,
        extra_variables: Iterable[str] = (),
    ) -> tuple[ProbeResult, ...]:
        """Render both templates on the whole matrix of conversations.

        Args:
            before: The earlier template's text; None when there was none.
            after: The later template's text; None when there is none.
            special_tokens_before: ``bos_token`` and so on as texts, as the earlier revision names them.
            special_tokens_after: The same of the later revision.
            extra_variables: Free variables of the templates, to be tried on and off.

        Returns:
            One result a conversation, in the matrix's order. A side with no template has neither text
            nor error, and the result is DIFFERENT. A gap's word (``time``, ``memory``, ``output``,
            ``died``, ``too_large``) stands as that side's error.

        """
        matrix = conversations(extra_variables)
        with self._lock:
            old = self._side(before, matrix, special_tokens_before or {})
            new = self._side(after, matrix, special_tokens_after or {})
        return tuple(_result(item.probe, left, right) for item, left, right in zip(matrix, old, new, strict=True))

    def _side(
        self, template: str | None, matrix: tuple[Conversation, ...], tokens: Mapping[str, Json]
    ) -> list[dict[str, str]]:
        """Answer every conversation for one template; after repeated trouble the rest are gaps untried."""
        if template is None:
            return [{} for _ in matrix]
        if len(template) > MAX_TEMPLATE:
            return [{"gap": "too_large"} for _ in matrix]
        answers: list[dict[str, str]] = []
        trouble = 0
        for item in matrix:
            answers.append(
                self._ask(_request(template, item, tokens)) if trouble < MAX_TROUBLE else {"gap": "skipped"}
            )
            trouble += "gap" in answers[-1]
        return answers

    def _ask(self, request: Mapping[str, Any]) -> dict[str, str]:
        try:
            if self._child is None:
                self._child = _Child()
            answer = self._child.ask(request, seconds=self._seconds)
        except _Trouble as trouble:
            self._drop()
            return {"gap": str(trouble)}
        if answer.get("gap") == "memory":
            self._drop()
        return answer

    def _drop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


def _request(template: str, item: Conversation, tokens: Mapping[str, Json]) -> dict[str, Any]:
    known = {name: text for name, text in tokens.items() if text is not None}
    variables = {
        **known,
        **item.variables,
        "messages": item.messages,
        "tools": item.tools or None,
        "documents": None,
        "add_generation_prompt": item.generation,
    }
    return {"template": template, "variables": variables, "clock": item.clock}


def _result(probe: str, before: Mapping[str, str], after: Mapping[str, str]) -> ProbeResult:
    return ProbeResult(
        probe=probe,
        outcome=_outcome(before, after),
        before=before.get("text"),
        after=after.get("text"),
        before_error=before.get("error", before.get("gap")),
        after_error=after.get("error", after.get("gap")),
    )


def _outcome(before: Mapping[str, str], after: Mapping[str, str]) -> ProbeOutcome:
    if "gap" in before or "gap" in after:
        return ProbeOutcome.GAP
    # Two refusals are the same to a caller; their words may hold line numbers or addresses.
    both_fail = "error" in before and "error" in after
    equal = both_fail or (
        bool(before) and before.get("text") == after.get("text") and "error" not in {*before, *after}
    )
    return ProbeOutcome.EQUAL if equal else ProbeOutcome.DIFFERENT
