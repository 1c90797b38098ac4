"""Waiting for a descriptor, whatever its number."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator

import pytest

from tracker.descriptors import readable, writable

HIGH = 1_500
"""Beyond what `select.select` knows."""


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe, with high numbers: to read from and to write to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft <= HIGH + 2:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, HIGH + 100), hard))
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, HIGH) for end in low]
    for end in low:
        os.close(end)
    yield high[0], high[1]
    for end in high:
        os.close(end)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_high_number_is_waited_for(ends: tuple[int, int]) -> None:
    out, into = ends
    assert min(ends) >= HIGH
    assert writable(into, 0.0)
    assert not readable(out, 0.01)
    os.write(into, b"x")
    assert readable(out, 5.0)


def test_the_end_of_the_other_side_is_not_waited_for() -> None:
    out, into = os.pipe()
    os.close(into)
    assert readable(out, 60.0)
    os.close(out)
