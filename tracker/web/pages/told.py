"""Changes as rows of a page, by section, as many as fit: what is hostile is escaped, which makes it longer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from markupsafe import escape

from advisories.rules.registry import by_class
from advisories.view import capped
from storage.model import Finding, Json, Severity
from tracker.web.pages.render import short, value

ROWS = 60  # of each table
_ROOM = 34_000  # characters of the page that all sections take

T = TypeVar("T")

# Which section of the page tells the changes of which families, in the order of the page.
_SECTIONS = (
    ("config", "Config", frozenset({"config", "genconfig", "tokens", "processor", "quant", "embedding"})),
    ("template", "Chat template", frozenset({"template"})),
    ("tokenizer", "Tokenizer", frozenset({"tokenizer"})),
    ("weights", "Weights", frozenset({"weights", "gguf", "adapter"})),
    ("code", "Code", frozenset({"code"})),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One change as a row: where, what it was and is, and what that means."""

    severity: Severity
    cls: str
    where: str
    before: Json
    after: Json
    summary: str
    meaning: str


def sections(findings: Iterable[Finding]) -> Iterable[tuple[str, str, Sequence[Told], int]]:
    """Name, title, rows and how many changes there are, of each section that has any."""
    sorted_in = {family: name for name, _, families in _SECTIONS for family in families}
    found: dict[str, list[Finding]] = {}
    for item in sorted(findings, key=lambda item: -item.severity):
        found.setdefault(sorted_in.get(item.cls.partition(".")[0], "other"), []).append(item)
    room = _ROOM
    for name, title in [*((name, title) for name, title, _ in _SECTIONS), ("other", "Everything else")]:
        mine = found.pop(name, [])
        if mine:
            rows = within([_told(item) for item in mine[:ROWS]], room // (len(found) + 1), _row_length)
            room -= sum(map(_row_length, rows))
            yield name, title, rows, len(mine)


def within(rows: Sequence[T], room: int, cost: Callable[[T], int]) -> list[T]:
    """The first of these rows that fit, one at least."""
    kept = list(rows[:1])
    room -= sum(map(cost, kept))
    for row in rows[1:]:
        room -= cost(row)
        if room < 0:
            break
        kept.append(row)
    return kept


def length(text: str) -> int:
    """Characters that a text takes on a page."""
    return len(escape(text))


def _row_length(row: Told) -> int:
    texts = (
        short(row.where, 160),
        value(row.before, 240),
        value(row.after, 240),
        short(row.summary, 200),
        row.meaning,
    )
    return sum(map(length, texts)) + 360  # and the cells around them


def _told(item: Finding) -> Told:
    change, rule = item.change, by_class().get(item.cls)
    return Told(
        severity=item.severity,
        cls=item.cls,
        where=change.path + (f" {change.pointer}" if change.pointer else ""),
        before=_kept(change.before),
        after=_kept(change.after),
        summary=change.summary,
        meaning=rule.effect if rule else "",
    )


def _kept(value: Json) -> Json:
    """A value small enough to be remembered; one that was cut before stays as it is."""
    return value if isinstance(value, dict) and value.get("capped") else capped(value, 600)
