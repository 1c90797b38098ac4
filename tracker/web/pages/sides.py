"""Texts side by side: white space marked in prompts, code as a diff with highlighting. Everything is bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.templates import DjangoLexer
from pygments.token import STANDARD_TYPES, Token

from advisories.text import visible

PROMPT = 3000  # characters of a prompt looked at, and of the page that it takes
LINE = 200  # characters of a line of code shown
_LINES = 3000  # lines of a file that are compared
_HIGHLIGHTED = 64 * 1024  # characters of a file that is highlighted
_CONTEXT = 3
_NEAR = 3  # lines that are the same beside others
_LEAST = 20  # characters shown of a line that does not fit
_ROW = 95  # characters of the page that a line of code takes beside itself
_NOTE = Markup('<span class="ws">{}</span>')
_SPACES = re.compile(r"^ +| +$| {2,}|\t")


# --- prompts -------------------------------------------------------------------------------------


def prompt_sides(before: str, after: str, room: int = PROMPT) -> tuple[Markup, Markup]:
    """Two texts, line by line, with white space marked and the lines that differ in ``del`` and ``ins``.

    Each side takes about ``room`` characters of the page: of lines that are the same those near others are kept.
    """
    old, new = (text[:PROMPT].splitlines(keepends=True) for text in (before, after))
    left, right = _Side(room), _Side(room)
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = tag == "equal"
        left.add(old[i:j], None if same else "del")
        right.add(new[k:m], None if same else "ins")
    return left.shown(len(before)), right.shown(len(after))


class _Side:
    """One side on its way to the page."""

    def __init__(self, room: int) -> None:
        self._room, self._parts, self._taken = room, list[Markup](), 0

    def add(self, lines: Sequence[str], element: str | None) -> None:
        """Take these lines in, as far as there is room."""
        middle = range(_NEAR, len(lines) - _NEAR) if element is None else range(0)
        for number, line in enumerate(lines):
            if number in middle:
                self._taken += len(line)
                if number == middle.start:
                    self._parts.append(_NOTE.format(f"… {len(middle):,} lines that are the same\n"))
                continue
            if self._room <= 0:
                return
            made = _marked(line, element)
            taken = len(line)
            if len(made) > self._room:
                taken = max(_LEAST, taken * self._room // len(made))
                made = _marked(line[:taken], element)
            self._room -= len(made)
            self._taken += taken
            self._parts.append(made)

    def shown(self, size: int) -> Markup:
        """What there is of a text of this size, and how much is not."""
        if self._taken < size:
            self._parts.append(_NOTE.format(f"… {size - self._taken:,} more characters"))
        return Markup("").join(self._parts)


def _marked(line: str, element: str | None) -> Markup:
    body = line.rstrip("\r\n")
    ending = line[len(body) :]
    shown, at = Markup(""), 0
    for found in _SPACES.finditer(body):
        shown += escape(visible(body[at : found.start()]))
        mark = "→" if found.group() == "\t" else "·" * len(found.group())
        shown += Markup('<span class="ws">{}</span>').format(mark)
        at = found.end()
    shown += escape(visible(body[at:]))
    if ending:
        shown += Markup('<span class="ws">{}</span>\n').format("↵" if ending == "\n" else f"{visible(ending)}↵")
    return Markup("<{0}>{1}</{0}>").format(Markup(element), shown) if element else shown  # noqa: S704 - our own word


# --- code ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff: ``add``, ``del``, ``same`` or ``gap`` (lines left out); ``shown`` is safe to print."""

    kind: str
    old: int | None
    new: int | None
    shown: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDiff:
    """What differs in one text file; ``left_out`` lines did not fit."""

    path: str
    lines: Sequence[DiffLine]
    left_out: int


def code_diff(path: str, before: str, after: str, room: int) -> CodeDiff:
    """The lines that differ, with three around them, as many as fit into ``room`` characters of the page."""
    old, new = before.splitlines()[:_LINES], after.splitlines()[:_LINES]
    old_shown, new_shown = _shown(path, before, old), _shown(path, after, new)
    matcher = SequenceMatcher(None, old, new)
    lines = list(_hunks(matcher, old_shown, new_shown))
    kept: list[DiffLine] = []
    for line in lines:
        room -= cost(line)
        if room < 0:
            break
        kept.append(line)
    return CodeDiff(path=path, lines=kept, left_out=len(lines) - len(kept))


def cost(line: DiffLine) -> int:
    """Characters of the page that a line takes."""
    return len(line.shown) + _ROW


def _hunks(matcher: SequenceMatcher[str], old: Sequence[Markup], new: Sequence[Markup]) -> Iterator[DiffLine]:
    for index, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if index:
            yield DiffLine("gap", None, None, Markup("…"))
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (DiffLine("same", i + n + 1, k + n + 1, old[i + n]) for n in range(j - i))
                continue
            yield from (DiffLine("del", n + 1, None, old[n]) for n in range(i, j))
            yield from (DiffLine("add", None, n + 1, new[n]) for n in range(k, m))


def _shown(path: str, text: str, lines: Sequence[str]) -> Sequence[Markup]:
    """Each line, safe to print: highlighted where a lexer is at hand and the file is of a sane size."""
    lexer = _lexer(path)
    sane = len(text) <= _HIGHLIGHTED and all(len(line) <= LINE for line in lines)
    # the lexer ends lines at \n alone: other ends of lines would shift what belongs to which line
    if lexer is not None and sane and len(text.split("\n")) - text.endswith("\n") == len(lines):
        made = _highlighted(lexer, text)
        if len(made) >= len(lines):
            return made
    return [escape(visible(line[:LINE] + ("…" if len(line) > LINE else ""), keep="\t")) for line in lines]


def _lexer(path: str) -> Lexer | None:
    if path.endswith(".py"):
        return PythonLexer(stripnl=False, ensurenl=False)
    return DjangoLexer(stripnl=False, ensurenl=False) if path.endswith(".jinja") else None


def _highlighted(lexer: Lexer, text: str) -> list[Markup]:
    made = [Markup("")]
    for kind, value in lexer.get_tokens(text):
        name = _class(kind)
        for index, piece in enumerate(value.split("\n")):
            if index:
                made.append(Markup(""))
            if piece:
                safe = escape(visible(piece, keep="\t"))
                made[-1] += Markup('<span class="{}">{}</span>').format(name, safe) if name else safe
    return made


_TOLD = (
    (Token.Comment, "hl-c"),
    (Token.Literal.String, "hl-s"),
    (Token.Literal.Number, "hl-n"),
    (Token.Keyword, "hl-k"),
    (Token.Name.Function, "hl-f"),
    (Token.Name.Class, "hl-f"),
    (Token.Name.Decorator, "hl-f"),
)
_CLASSES: dict[object, str] = {
    kind: next((name for parent, name in _TOLD if parent in kind.split()), "") for kind in STANDARD_TYPES
}


def _class(kind: object) -> str:
    return _CLASSES.get(kind, "")
