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
