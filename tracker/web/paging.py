"""Lists in pages: one item more is asked for than is shown, to know whether there is another page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from tracker.web import cursors
from tracker.web.filters import Paging

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """What one page shows, and the cursor of the next."""

    items: Sequence[T]
    next_cursor: str | None


def page(
    kind: str,
    asked: Paging,
    shape: tuple[type, ...],
    read: Callable[[tuple[Any, ...] | None, int], Sequence[T]],
    key: Callable[[T], tuple[str | int, ...]],
) -> Slice[T]:
    """One page of the list ``kind``.

    ``read`` gives at most so many items behind a key of this ``shape`` (None: from the start); ``key`` is an
    item's. Raises BadCursor.
    """
    found = read(cursors.decode(kind, asked.cursor, *shape), asked.limit + 1)
    shown = found[: asked.limit]
    more = len(found) > asked.limit
    return Slice(shown, cursors.encode(kind, *key(shown[-1])) if more else None)


def moment_key(when: datetime) -> int:
    """A time as a part of a cursor, exact."""
    return (when - _EPOCH) // _MICROSECOND


def moment(key: int) -> datetime:
    """The time of such a part. Raises BadCursor for what was never one."""
    try:
        return _EPOCH + key * _MICROSECOND
    except OverflowError:
        raise cursors.BadCursor("this cursor is not good for this list") from None
