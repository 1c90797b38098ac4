"""Where a list goes on: the key of the last item seen, not a number of items, so that inserts move nothing.

To callers a cursor is opaque. One that was not made here, or for another list, is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from storage.columns import escape
from storage.errors import UsageError

LONGEST = 12_000  # characters: the key of a file is its path
_LARGEST = 2**62


class BadCursor(UsageError):
    """A cursor that was not made here for this list."""

    code = "cursor"


def encode(kind: str, *key: str | int) -> str:
    """A cursor for the list ``kind`` that goes on behind ``key``."""
    text = json.dumps([kind, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("ascii")).rstrip(b"=").decode("ascii")


def decode(kind: str, cursor: str | None, *shape: type) -> tuple[Any, ...] | None:
    """The key in a cursor, whose parts have these types; None for no cursor. Raises BadCursor."""
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        parts = json.loads(data)
    except (ValueError, binascii.Error, RecursionError):
        parts = None
    good = isinstance(parts, list) and len(parts) == len(shape) + 1 and parts[0] == kind
    if not good or not all(_fits(part, wanted) for part, wanted in zip(parts[1:], shape, strict=True)):
        raise BadCursor(
            "this cursor is not good for this list", help="use next_cursor of the page before as it is"
        )
    return tuple(parts[1:])


def _fits(part: object, wanted: type) -> bool:
    if type(part) is not wanted:
        return False
    if isinstance(part, str):
        return escape(part) == part  # nothing that a database refuses
    return not isinstance(part, int) or -_LARGEST < part < _LARGEST
