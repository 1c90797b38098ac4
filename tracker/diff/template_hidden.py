"""Characters in a chat template that a reviewer does not see, or takes for others.

The groups follow Unicode: format characters (Cf), the tag block, bidirectional controls, variation
selectors, letters that are drawn as nothing, and Cyrillic, Greek or Armenian letters that pass for Latin ones
inside a Latin word. What honest text needs is let through: joiners inside emoji and in scripts that use
them, selectors after a sign that has variants, flags made of tags, direction marks beside letters that
run right to left, one byte order mark at the start.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator

from tracker.diff.template_ast import Unparsable, parse, texts

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MARKS = frozenset("\u061c\u200e\u200f")
_INVISIBLE_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u2800\u3164\uffa0")
_JOINERS = frozenset("\u200c\u200d")
# Arabic, Syriac and Kaithi number and text signs are Cf, yet drawn.
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_JOINING_SCRIPTS = (
    "ARABIC", "SYRIAC", "NKO", "MONGOLIAN", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL",
    "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "KHMER", "MYANMAR", "TIBETAN",
)  # fmt: skip
# Letters whose usual glyph is a Latin letter's (Unicode confusables, the alphabetic core).
_LOOKALIKES = frozenset(
    "асԁеһіјӏорԛѕѵԝхуАВСЕНІЈКМОРЅТХҮԌԜ"  # Cyrillic
    "αικνορυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # Greek
    "օսոհցքՕՍ"  # Armenian
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_SCRIPTS = re.compile("[\u0370-\u058f\u1f00-\u1fff]")
_LATIN = re.compile(r"[A-Za-z]")


def hidden(text: str) -> tuple[str, ...]:
    """What is hidden in a template: ``zero width U+200B``, ``lookalike letters in аssistant``; sorted, no repeats.

    The source is read as it stands, and the literals besides: an escape sequence writes what the source
    does not show.
    """
    found = set(_scan(text))
    if "\\" in text:
        try:
            for literal in texts(parse(text)):
                found.update(_scan(literal))
        except Unparsable:
            pass  # reported by itself
    return tuple(sorted(found))


def _scan(text: str) -> Iterator[str]:
    if text.isascii():
        return
    seen: set[str] = set()
    right_to_left = _right_to_left(text) if any(mark in text for mark in _MARKS) else []
    for index, char in enumerate(text):
        if char <= "\x7f" or char in seen:
            continue
        if char in _MARKS and _near(right_to_left, index):
            continue
        if group := _group(text, index, char):
            seen.add(char)
            yield f"{group} U+{ord(char):04X}"
    if _SCRIPTS.search(text):
        yield from (f"lookalike letters in {_escaped(word)}" for word in _WORD.findall(text) if _mixed(word))


def _group(text: str, index: int, char: str) -> str | None:
    """The group a hidden character belongs to; None for one that is seen or needed where it stands."""
    code = ord(char)
    if 0xE0000 <= code <= 0xE007F:
        return None if _in_flag(text, index) else "tag character"
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return None if index and _has_variants(text[index - 1]) else "variation selector"
    if char in _BIDI:
        return "bidirectional control"
    if char in _INVISIBLE_LETTERS:
        return "invisible letter"
    if unicodedata.category(char) != "Cf" or char in _DRAWN:
        return None
    if char in _JOINERS and _joins(text, index):
        return None
    if char == "\ufeff" and index == 0:
        return None
    return "zero width" if char in "\u200b\u200c\u200d\u2060\ufeff" else "format character"


def _in_flag(text: str, index: int) -> bool:
    """Whether a tag belongs to a flag: a black flag, at most seven tags, the cancel tag at the end."""
    start = text.rfind("\U0001f3f4", max(0, index - 8), index)
    if start < 0:
        return False
    end = text.find("\U000e007f", start, start + 9)
    return index <= end and all("\U000e0020" <= tag <= "\U000e007f" for tag in text[start + 1 : end + 1])


def _has_variants(before: str) -> bool:
    return _is_sign(before) or before in "#*0123456789" or _is_ideograph(before) or "\u1000" <= before <= "\u109f"


def _is_sign(char: str) -> bool:
    if char in "\u200d\ufe0f":
        return True
    return not char.isascii() and unicodedata.category(char) in {"So", "Sm", "Sk", "Po", "Pd"}


def _is_ideograph(char: str) -> bool:
    return unicodedata.name(char, "").startswith(("CJK ", "MONGOLIAN "))


def _right_to_left(text: str) -> list[int]:
    """Where the letters stand that run from right to left."""
    return [
        index
        for index, char in enumerate(text)
        if char > "\u0590" and char not in _MARKS and unicodedata.bidirectional(char) in {"R", "AL"}
    ]


def _near(places: list[int], index: int) -> bool:
    """Whether one of these places, sorted, is within 20 characters."""
    following = bisect_left(places, index - 20)
    return following < len(places) and places[following] < index + 20


def _joins(text: str, index: int) -> bool:
    """Whether a joiner has on both sides what it joins: emoji, or letters of a script that uses joiners."""
    if not 0 < index < len(text) - 1:
        return False
    left, right = text[index - 1], text[index + 1]
    if _is_sign(left) and _is_sign(right):
        return True
    return all(unicodedata.name(char, "").startswith(_JOINING_SCRIPTS) for char in (left, right))


def _mixed(word: str) -> bool:
    """Whether a Latin word holds letters of another script, all of them drawn like Latin ones."""
    foreign = _SCRIPTS.findall(word)
    return bool(foreign) and bool(_LATIN.search(word)) and all(char in _LOOKALIKES for char in foreign)


def _escaped(word: str) -> str:
    return word[:40].encode("ascii", "backslashreplace").decode("ascii")
