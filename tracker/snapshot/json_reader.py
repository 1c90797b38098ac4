"""JSON from strangers: read as Python reads it, bounded, with every oddity named.

The whole file goes through the C scanner of `json`; what is checked besides is done on bytes or one
nesting level at a time, so a tokenizer of 30 MB costs little more than `json.loads`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from math import isinf
from typing import Any, Final

from storage.model import Json

MAX_DEPTH: Final = 32
MAX_NODES: Final = 4_000_000
MAX_FLAWS: Final = 20
_BOM: Final = b"\xef\xbb\xbf"

# First bytes that a text file never has, and what they are.
_MAGIC: Final = (
    (b"PK\x03\x04", "zip archive"),
    (b"PK\x05\x06", "zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"Rar!\x1a\x07", "rar archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstandard archive"),
    (b"\x7fELF", "ELF program"),
    (b"MZ\x90", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\xce\xfa\xed\xfe", "Mach-O program"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\x00asm", "WebAssembly program"),
    (b"\x89HDF\r\n", "HDF5 file"),
    (b"GGUF", "GGUF file"),
    (b"\x93NUMPY", "NumPy array"),
)
_PICKLE_PROTOCOLS: Final = tuple(bytes((0x80, version)) for version in range(2, 6))


StandingFor = Callable[[list[tuple[str, Any]]], Json]


class Unreadable(Exception):
    """A file that cannot be read. ``reason`` is a stable word, ``detail`` one line for a person.

    Reasons: too_large, too_deep, too_many, encoding, parse_error, not_an_object, header, disguised.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def magic_of(data: bytes) -> str | None:
    """What the first bytes say a file is, where that is no kind of text; None otherwise."""
    if data.startswith(_PICKLE_PROTOCOLS):
        return "pickle"
    return next((what for magic, what in _MAGIC if data.startswith(magic)), None)


def decode(data: bytes) -> tuple[str, list[str]]:
    """UTF-8 text and its flaws (a byte order mark); raises Unreadable ``disguised`` or ``encoding``."""
    what = magic_of(data)
    if what is not None:
        raise Unreadable("disguised", f"the first bytes are those of a {what}")
    flaws = []
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
        flaws.append("begins with a byte order mark")
    try:
        return data.decode("utf-8"), flaws
    except UnicodeDecodeError as error:
        raise Unreadable("encoding", f"not UTF-8 at byte {error.start}") from None


def read_json(
    data: bytes,
    *,
    cap: int | None = None,
    max_depth: int = MAX_DEPTH,
    max_nodes: int = MAX_NODES,
    need_object: bool = False,
    standing_for: StandingFor | None = None,
) -> tuple[Json, tuple[str, ...]]:
    """Parse a JSON file; returns its value and its flaws.

    The last of duplicate keys wins, as in Python. NaN, Infinity and numbers too big for a float become
    the strings "NaN", "Infinity" and "-Infinity", so that every value can be written again as JSON.

    Args:
        data: The file's bytes.
        cap: The most bytes that are parsed.
        max_depth: The most levels of nesting; a bare value has none.
        max_nodes: The most values in all, counted before anything is parsed.
        need_object: Refuse anything but an object at the top.
        standing_for: Told the members of every object; the value that the object stands for, None for itself.

    Raises:
        Unreadable: with the reason.

    """
    if cap is not None and len(data) > cap:
        raise Unreadable("too_large", f"{len(data)} bytes, at most {cap} are read")
    nodes = count_nodes(data)
    if nodes > max_nodes:
        raise Unreadable("too_many", f"about {nodes} values, at most {max_nodes} are read")
    text, flaws = decode(data)
    hooks = _Hooks(flaws, standing_for)
    try:
        value = json.loads(
            text,
            object_pairs_hook=hooks.pairs,
            parse_constant=hooks.constant,
            parse_float=hooks.number,
        )
    except RecursionError:
        raise Unreadable("too_deep", f"more than {max_depth} levels of nesting") from None
    except json.JSONDecodeError as error:
        raise Unreadable("parse_error", f"{error.msg} at line {error.lineno} column {error.colno}") from None
    except ValueError:
        raise Unreadable("parse_error", "an integer of more digits than can be read") from None
    if _deeper_than(value, max_depth):
        raise Unreadable("too_deep", f"more than {max_depth} levels of nesting")
    if need_object and not isinstance(value, dict):
        raise Unreadable("not_an_object", f"a JSON {type_name(value)} where an object is needed")
    return value, tuple(flaws)


def count_nodes(data: bytes) -> int:
    """How many values a file has at most: every one is the first of a container or follows a comma."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def type_name(value: Json) -> str:
    """The JSON name of a value's type."""
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number"}
    return names.get(type(value), "null")


class _Hooks:
    """The scanner's callbacks. One call an object, not one a key: a vocabulary is one object."""

    def __init__(self, flaws: list[str], standing_for: StandingFor | None) -> None:
        self._flaws = flaws
        self._standing_for = standing_for

    def _flaw(self, text: str) -> None:
        if len(self._flaws) < MAX_FLAWS and text not in self._flaws:
            self._flaws.append(text)

    def pairs(self, pairs: list[tuple[str, Any]]) -> Json:
        other = self._standing_for(pairs) if self._standing_for is not None else None
        if other is not None:
            return other
        value = dict(pairs)
        if len(value) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self._flaw(f"duplicate key {json.dumps(key[:80])}")
                seen.add(key)
        return value

    def constant(self, word: str) -> str:
        self._flaw(f"{word} is not JSON")
        return word

    def number(self, text: str) -> float | str:
        value = float(text)
        if isinf(value):
            self._flaw("a number too big for a float")
            return "Infinity" if value > 0 else "-Infinity"
        return value


def _deeper_than(value: Json, levels: int) -> bool:
    """Whether containers are nested more than ``levels`` deep; walks level by level, never recurses."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not level:
            return False
        parts = (item.values() if type(item) is dict else item for item in level)
        level = [child for child in chain.from_iterable(parts) if type(child) is dict or type(child) is list]
    return bool(level)
