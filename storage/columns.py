"""Column types that keep any value the same on SQLite and PostgreSQL.

Both databases have texts they refuse (NUL, lone surrogates) and times they round or shift. These types
map such values to plain text and integers, so that what comes back is what went in, and so that equality,
order and unique constraints mean the same on both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import from_json
from sqlalchemy import BigInteger, Dialect, Text
from sqlalchemy.types import TypeDecorator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MAX_INTEGER = 2**63 - 1

_UNSTORABLE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")


def escape(text: str) -> str:
    r"""Write NUL, surrogates and the backslash as ``\uXXXX``; all other text stays as it is.

    One text has exactly one form, so escaped texts are equal exactly when the texts are.
    """
    return _UNSTORABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "\\" in text else text


def _text(value: Any) -> str | None:
    return None if value is None else unescape(value)


def _parsed(value: Any) -> Any:
    if value is None:
        return None
    try:
        return from_json(value)
    except ValueError:  # lone surrogates, and what is nested deeper than it goes
        return json.loads(value)


def _time(value: Any) -> datetime | None:
    return None if value is None else EPOCH + timedelta(microseconds=value)


class HostileText(TypeDecorator[str]):
    """Free text from upstream: paths, titles, authors, details. Any Python string survives."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape on the way in."""
        return None if value is None else escape(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], str | None]:
        """Unescape on the way out."""
        # in place of process_result_value, which would be a second call for each value of each row
        return _text


class JsonText(TypeDecorator[Any]):
    """A JSON value as ASCII text, NaN and lone surrogates included. None is JSON's null, never SQL's."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        """Serialise."""
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"))

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Parse."""
        return _parsed


class Moment(TypeDecorator[datetime]):
    """A timezone-aware time as whole microseconds since 1970 UTC: exact, and in order, on both databases."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Count microseconds. A time without a zone is a mistake of the caller's."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a timezone cannot be stored")
        return (value - EPOCH) // MICROSECOND

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None]:
        """Count back."""
        return _time


class Duration(TypeDecorator[timedelta]):
    """A span of time as whole microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> int | None:
        """Count microseconds."""
        return None if value is None else value // MICROSECOND

    def process_result_value(self, value: Any, dialect: Dialect) -> timedelta | None:
        """Count back."""
        return None if value is None else value * MICROSECOND


class Size(TypeDecorator[int]):
    """A size in bytes. What a hostile listing claims beyond 63 bits is kept as the largest integer."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """Clamp to what a database integer holds."""
        return None if value is None else max(-MAX_INTEGER, min(value, MAX_INTEGER))
