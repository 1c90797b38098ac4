"""Work, counted in calls: what a hostile input costs is a number that no slow machine changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooMuchWork(AssertionError):
    """More calls than an input of this size may cost."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail when the block makes more calls than that, of Python functions and of built-in ones."""
    left = calls
    before = sys.getprofile()

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        if event in {"call", "c_call"}:
            left -= 1
            if left < 0:
                sys.setprofile(before)
                raise TooMuchWork(f"more than {calls} calls")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
