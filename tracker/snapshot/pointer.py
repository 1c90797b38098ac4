"""JSON pointers (RFC 6901): how a place in a document is written and found."""

from __future__ import annotations

from typing import Any, Final

from storage.model import Json
from tracker.snapshot.tables import RuleTable, TokenTable, plain


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""What is not there, told apart from null."""


def escape(key: str | int) -> str:
    """One reference token, escaped."""
    return str(key).replace("~", "~0").replace("/", "~1")


def join(*keys: str | int) -> str:
    """The pointer to nested keys; "" is the whole document."""
    return "".join(f"/{escape(key)}" for key in keys)


def split(pointer: str) -> list[str]:
    """The keys of a pointer. A missing leading slash is forgiven; people type ``#rope_theta``."""
    text = pointer.removeprefix("#")
    if not text:
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in text.removeprefix("/").split("/")]


def value_at(data: Json, pointer: str) -> Any:
    """The value a pointer names, or ABSENT."""
    for key in split(pointer):
        if isinstance(data, dict | TokenTable):
            if key not in data:
                return ABSENT
            data = data[key]
        elif isinstance(data, list | RuleTable):
            if not key.isdecimal() or len(key) > 9 or int(key) >= len(data):
                return ABSENT
            data = data[int(key)]
        else:
            return ABSENT
    return plain(data)
