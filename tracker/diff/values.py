"""Helpers that every differ shares: JSON pointers, canonical values, capped values and examples.

Pure and total: no function here raises on any parsed JSON value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from advisories.view import capped as stand_in
from storage.model import Json, canonical_json, digest
from tracker.snapshot.pointer import join, split
from tracker.snapshot.tables import RuleTable

MAX_VALUE_BYTES = 4096  # what a change shows of one value; the digest stands for the rest
MAX_EXAMPLES = 100  # of a set that changed: vocabulary entries, merges, list items
MAX_LEAVES = 20_000  # leaves looked at in one document
_EXACT_FLOAT = 2.0**53  # above it a float no longer names one integer


def pointer(parts: Iterable[str | int]) -> str:
    """Join parts into a JSON pointer (RFC 6901); no parts give ``""``, the whole document."""
    return join(*parts)


def split_pointer(text: str) -> tuple[str, ...]:
    """Take a JSON pointer apart."""
    return tuple(split(text))


def canonical(value: Json) -> Json:
    """Return the value with whole floats as integers, so that ``10000.0`` and ``10000`` are one value.

    Booleans stay apart from numbers.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple | RuleTable):
        return [canonical(item) for item in value]
    return value


def value_digest(value: Json) -> str:
    """Return the digest of a value's canonical form."""
    return digest(canonical(value))


def same(left: Json, right: Json) -> bool:
    """Whether two JSON values are one value: 1 and 1.0 are, 1 and true are not."""
    return canonical_json(canonical(left)) == canonical_json(canonical(right))


def json_type(value: Json) -> str:
    """Return the JSON type's name; whole and broken numbers are both ``number``."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "list"
        case _:
            return "object"


def flatten(document: Json, *, limit: int = MAX_LEAVES) -> dict[tuple[str, ...], Json]:
    """Return the leaves of nested objects by key path, at most ``limit`` of them, in document order.

    Lists, also lists of objects, are leaves: one list is one value of a config. An empty object is a
    leaf too. A document that is no object is the one leaf ``()``.
    """
    leaves: dict[tuple[str, ...], Json] = {}
    stack: list[tuple[tuple[str, ...], Json]] = [((), document)]
    while stack and len(leaves) < limit:
        path, value = stack.pop()
        if isinstance(value, Mapping) and value:
            stack.extend(((*path, str(key)), item) for key, item in reversed([*value.items()]))
        else:
            leaves[path] = value
    return leaves


def capped(value: Json, *, limit: int = MAX_VALUE_BYTES) -> Json:
    """Return the value, or, when it takes more than ``limit`` bytes, what stands for it.

    `advisories.view.capped` says what that is: a digest, the size and how it begins.
    """
    return value if len(canonical_json(value)) <= limit else stand_in(value, limit)


def examples(items: Iterable[Json], *, limit: int = MAX_EXAMPLES) -> list[Json]:
    """Return the first ``limit`` items, each capped."""
    return [capped(item, limit=512) for item in islice(items, limit)]


def short(value: Json, *, limit: int = 60) -> str:
    """Say a value in a few words for a summary line."""
    if value is None:
        return "null"
    text = value if isinstance(value, str) else canonical_json(value)
    text = text.encode("unicode_escape", "backslashreplace").decode("ascii") if not text.isprintable() else text
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def list_delta(before: Sequence[Json], after: Sequence[Json]) -> dict[str, Json]:
    """Say which items a list lost and gained: ``removed``, ``added``, their counts, and ``reordered``."""
    old = {canonical_json(canonical(item)): item for item in before}
    new = {canonical_json(canonical(item)): item for item in after}
    added = [item for key, item in new.items() if key not in old]
    removed = [item for key, item in old.items() if key not in new]
    return {
        "added": examples(added),
        "removed": examples(removed),
        "added_count": len(added),
        "removed_count": len(removed),
        "reordered": not added and not removed,
    }
