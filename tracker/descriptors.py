"""Waiting for a file descriptor, of any number: `select.select` knows none from 1,024 on."""

from __future__ import annotations

import select
from math import ceil


def readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read within so many seconds; the end of the other side counts."""
    return _ready(descriptor, select.POLLIN, seconds)


def writable(descriptor: int, seconds: float) -> bool:
    """Whether something can be written within so many seconds; the end of the other side counts."""
    return _ready(descriptor, select.POLLOUT, seconds)


def _ready(descriptor: int, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(ceil(max(seconds, 0.0) * 1000)))
