"""A change as JSON that anybody may read: bounded, strict, with a digest of what was cut."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from storage.model import Advisory, Finding, Json, canonical_json

CAP = 4096  # bytes of canonical JSON that a value may take
HEAD = 1000  # characters shown of a longer one
_FRAME = 200  # bytes that the stand-in takes beside its head
_MOST = 100  # changes of one advisory
_ROOM = 256 * 1024  # bytes for all of them
_DEEPEST = 60
_LARGEST = 2**63  # integers beyond this are written as text: many readers cannot hold them
_ESCAPED = 12  # bytes that a character takes at most in canonical JSON
_DIGITS = 4000  # Python refuses to print more than 4,300


def plain(value: Json, _depth: int = 0) -> Json:
    """A value that every strict JSON reader takes.

    NaN and infinities, integers beyond 64 bits, lone surrogates and what is nested deeper than any sane
    document become text; keys become strings.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _no_surrogates(value)
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else _integer(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if _depth >= _DEEPEST:
        return f"(nested deeper than {_DEEPEST} levels)"
    if isinstance(value, Mapping):
        return {_no_surrogates(str(key)): plain(item, _depth + 1) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item, _depth + 1) for item in value]
    return _no_surrogates(str(value))


def capped(value: Json, cap: int = CAP) -> Json:
    """The value, or where it is larger than ``cap`` bytes what stands for it.

    That is ``{"capped": true, "digest": "sha256:...", "size": bytes, "head": the first characters}``;
    digest, size and head are of the text itself for text, else of its canonical JSON.
    """
    strict = plain(value)
    if strict is None or isinstance(strict, bool | int | float):
        return strict
    if isinstance(strict, str) and len(strict) * _ESCAPED + 2 <= cap:  # short however it is escaped
        return strict
    written = canonical_json(strict)
    if len(written) <= cap:
        return strict
    text = strict if isinstance(strict, str) else written
    data = text.encode("utf-8")
    head = text[:HEAD]
    while len(canonical_json(head)) > max(cap - _FRAME, 2):  # escapes take up to twelve bytes a character
        head = head[: len(head) // 2]
    return {
        "capped": True,
        "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "size": len(data),
        "head": head,
    }


def bounded(value: Json, cap: int = 4 * CAP) -> Json:
    """As `capped`, but a large object or list is cut in its parts first, so that its keys stay."""
    if isinstance(value, Mapping):
        value = {key: capped(item) for key, item in value.items()}
    elif isinstance(value, list | tuple):
        value = [capped(item) for item in value]
    return capped(value, cap)


def clipped(text: str, limit: int = HEAD) -> str:
    """Text that stays text: at most ``limit`` characters, without lone surrogates."""
    return _no_surrogates(text if len(text) <= limit else text[: limit - 1] + "…")


def change_json(finding: Finding) -> dict[str, Any]:
    """A change under the keys of the public contract, with its reason and facts beside them."""
    change = finding.change
    shown: dict[str, Any] = {
        "class": change.cls,
        "severity": finding.severity.label,
        "path": clipped(change.path, CAP),
        "pointer": None if change.pointer is None else clipped(change.pointer, CAP),
        "before": capped(change.before),
        "after": capped(change.after),
        "summary": clipped(change.summary),
        "reason": clipped(finding.reason),
    }
    if change.facts:
        shown["facts"] = bounded(dict(change.facts), CAP)
    return shown


def changes_json(advisory: Advisory) -> list[dict[str, Any]]:
    """The changes an advisory lists, each with whether it still holds and what ended it.

    At most 100 of them and about 256 kB; the advisory's own count says how many there are.
    """
    shown: list[dict[str, Any]] = []
    room = _ROOM
    for item in advisory.findings[:_MOST]:
        ended = {"ended_by": item.ended_by} if item.ended_by else {}
        change = change_json(item.finding) | {"holds": item.holds} | ended
        room -= len(canonical_json(change))
        if shown and room < 0:
            break
        shown.append(change)
    return shown


def _integer(value: int) -> str:
    return str(value) if value.bit_length() < _DIGITS * 3 else f"(an integer of {value.bit_length()} bits)"


def _no_surrogates(text: str) -> str:
    if text.isascii():
        return text
    return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in text)
