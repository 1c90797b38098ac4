"""Time spans as people write them: ``90s``, ``30m``, ``6h``, ``1d``."""

from __future__ import annotations

import re
from datetime import timedelta

from storage.errors import UsageError

_UNITS = {"": "seconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse_span(text: str) -> timedelta:
    """Read a number and a unit; without a unit, seconds. Raises UsageError for anything else."""
    match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smhd]?)", text.strip())
    if not match:
        raise UsageError(f"{text[:40]!r} is not a time span", help="write a number and a unit: 90s, 30m, 6h or 1d")
    return timedelta(**{_UNITS[match[2]]: float(match[1])})


def write_span(span: timedelta) -> str:
    """A span as `parse_span` reads it, in its largest whole unit: ``30m``, ``36h``, ``90s``."""
    seconds = span.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"
