"""Chat templates of two revisions, rendered side by side in a sandboxed child process.

What a template raises is a result; what a limit of the child cuts off is a gap (`tracker.probe.process`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from storage.model import Json, ProbeOutcome, ProbeResult
from tracker.diff.template_ast import Unexamined, Unparsable, parse
from tracker.probe.conversations import Conversation, conversations
from tracker.probe.process import Allowance, Sandbox
from tracker.probe.tokenize import Encodings, encode

WALL_SECONDS = 3.0  # for one prompt
TOTAL_SECONDS = 8.0  # for both sides of one comparison
SMALL_TOKENIZER = 1 << 20  # bytes of a question up to which the child is kept
MAX_TROUBLE = 2  # gaps after which a template is not tried on further conversations


class Prober:
    """Tries chat templates and tokenizers out. Threads may share one; close it, or use it as a context.

    Args:
        seconds: The wall clock for one prompt.

    """

    def __init__(self, *, seconds: float = WALL_SECONDS) -> None:
        self._seconds = seconds
        self._templates = Sandbox("templates")
        self._tokenizers = Sandbox("tokenizers")
        self._lock = threading.Lock()
        self._tokenizer_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Have the children come up while something else is done: much is going to be tried out."""
        for lock, sandbox in ((self._lock, self._templates), (self._tokenizer_lock, self._tokenizers)):
            if lock.acquire(blocking=False):  # else it is at work
                try:
                    sandbox.start()
                finally:
                    lock.release()

    def close(self) -> None:
        """End the children; the next call starts others."""
        with self._lock:
            self._templates.close()
        with self._tokenizer_lock:
            self._tokenizers.close()

    def tokenizers(
        self, before: Json, after: Json, texts: Iterable[str], *, allowance: Allowance | None = None
    ) -> Encodings:
        """Encode texts with both revisions' ``tokenizer.json``; see `tracker.probe.tokenize.encode`.

        After a large one the child is ended: a vocabulary of hundreds of megabytes is not kept for the next.
        """
        with self._tokenizer_lock:
            try:
                return encode(self._tokenizers, before, after, texts, allowance or Allowance(TOTAL_SECONDS))
            finally:
                if self._tokenizers.largest > SMALL_TOKENIZER:
                    self._tokenizers.close()

    def templates(
        self,
        before: str | None,
        after: str | None,
        *,
        special_tokens_before: Mapping[str, Json] | None = None,
        special_tokens_after: Mapping[str, Json] | None = None,
        extra_variables: Iterable[str] = (),
        allowance: Allowance | None = None,
    ) -> tuple[ProbeResult, ...]:
        """Render both templates on the whole matrix of conversations.

        Args:
            before: The earlier template's text; None when there was none.
            after: The later template's text; None when there is none.
            special_tokens_before: ``bos_token`` and so on as texts, as the earlier revision names them.
            special_tokens_after: The same of the later revision.
            extra_variables: Free variables of the templates, to be tried on and off.
            allowance: The wall clock that is left for this; by default `TOTAL_SECONDS`.

        Returns:
            One result a conversation, in the matrix's order. A side with no template has neither text
            nor error, and the result is DIFFERENT. A gap's word (``time``, ``memory``, ``output``,
            ``died``, ``too_large``, ``skipped``) stands as that side's error.

        """
        matrix = conversations(extra_variables)
        with self._lock:
            left = allowance or Allowance(TOTAL_SECONDS)
            old = self._side(before, matrix, special_tokens_before or {}, left)
            new = self._side(after, matrix, special_tokens_after or {}, left)
        return tuple(_result(item.probe, was, now) for item, was, now in zip(matrix, old, new, strict=True))

    def _side(
        self,
        template: str | None,
        matrix: tuple[Conversation, ...],
        tokens: Mapping[str, Json],
        allowance: Allowance,
    ) -> list[dict[str, str]]:
        """Answer every conversation for one template; after trouble the rest are gaps untried.

        A template that ran out of time once will do so again; other trouble may lie in one conversation.
        """
        if template is None:
            return [{} for _ in matrix]
        if _too_large(template):
            return [{"gap": "too_large"} for _ in matrix]
        answers: list[dict[str, str]] = []
        trouble = 0
        for item in matrix:
            if trouble >= MAX_TROUBLE or allowance.left <= 0:
                answers.append({"gap": "skipped"})
                continue
            answer = self._templates.ask(
                _request(template, item, tokens), seconds=min(self._seconds, allowance.left)
            )
            answers.append({key: str(value) for key, value in answer.items()})
            trouble += MAX_TROUBLE if answer.get("gap") == "time" else "gap" in answer
        return answers


def _too_large(template: str) -> bool:
    """Whether the differ does not read the template either: it would only use up the time of every prompt."""
    try:
        parse(template)
    except Unexamined:
        return True
    except Unparsable:
        return False  # the child says so, too, and at once
    return False


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
