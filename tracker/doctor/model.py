"""A finding of the doctor: how a thing stands, what that means, what to do."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.StrEnum):
    """``warn``: it works, and somebody should look; ``fail``: it does not; ``skip``: it could not be looked at."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. ``help`` says what to do, where there is something to do."""

    name: str
    level: Level
    message: str
    help: str = ""


def good(name: str, message: str) -> Check:
    """All is well."""
    return Check(name=name, level=Level.OK, message=message)


def warn(name: str, message: str, help: str = "") -> Check:  # noqa: A002 - the word of our errors
    """Somebody should look."""
    return Check(name=name, level=Level.WARN, message=message, help=help)


def fail(name: str, message: str, help: str = "") -> Check:  # noqa: A002
    """It does not work."""
    return Check(name=name, level=Level.FAIL, message=message, help=help)


def skip(name: str, message: str) -> Check:
    """It could not be looked at."""
    return Check(name=name, level=Level.SKIP, message=message)
