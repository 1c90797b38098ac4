"""Which requests a fault hits, and how often. The faults themselves are in `tracker.demo.faults`."""

from __future__ import annotations

import fnmatch
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tracker.demo.wire import Request, Response

Answer = Callable[[], Response]
Action = Callable[[Request, Answer], Response]
Condition = Callable[[Request], bool]


def always(request: Request) -> bool:  # noqa: ARG001
    """Any request."""
    return True


def matching(
    *, kind: str | None = None, path: str | None = None, method: str | None = None, repo: str | None = None
) -> Condition:
    """Requests of a kind (api, resolve, storage, git), a path pattern (``*/commits/*``), a method, a repo id."""

    def match(request: Request) -> bool:
        return (
            kind in {None, request.kind}
            and method in {None, request.method}
            and (path is None or fnmatch.fnmatchcase(request.path, path))
            and (repo is None or f"/{repo}/" in f"{request.path}/")
        )

    return match


@dataclass(slots=True, kw_only=True)
class Fault:
    """An action, the requests it is done to, and how often: after ``skip`` of them, ``times`` times."""

    action: Action
    when: Condition = always
    times: int | None = None
    skip: int = 0
    chance: float = 1.0
    done: int = 0


@dataclass(slots=True)
class Faults:
    """The faults in force. ``seed`` decides those that happen by chance."""

    seed: int = 0
    active: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - to be repeated, not to be secret

    def add(
        self, action: Action, *, when: Condition = always, times: int | None = None, skip: int = 0,
        chance: float = 1.0,
    ) -> Fault:  # fmt: skip
        """Put a fault in force; its ``done`` counts how often it happened."""
        fault = Fault(action=action, when=when, times=times, skip=skip, chance=chance)
        with self._lock:
            self.active.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Take a fault back."""
        with self._lock:
            self.active.remove(fault)

    def clear(self) -> None:
        """Take all faults back."""
        with self._lock:
            self.active.clear()

    def apply(self, request: Request, answer: Answer) -> Response:
        """Answer a request under the faults that hit it; the one added last is the outermost."""
        with self._lock:
            hit = [fault.action for fault in self.active if self._hits(fault, request)]
        for action in hit:
            answer = _under(action, request, answer)
        return answer()

    def _hits(self, fault: Fault, request: Request) -> bool:
        if (fault.times is not None and fault.done >= fault.times) or not fault.when(request):
            return False
        if fault.skip > 0:
            fault.skip -= 1
            return False
        if self._random.random() >= fault.chance:
            return False
        fault.done += 1
        return True


def _under(action: Action, request: Request, answer: Answer) -> Answer:
    return lambda: action(request, answer)
