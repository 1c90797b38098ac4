"""The headers that every answer has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",  # ask again each time; the answer is often 304
}
"""What a browser may do with an answer, unless the answer says otherwise."""
