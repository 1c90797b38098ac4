"""Changes, events and moved figures as lines: fitted to a terminal's width, whole and plain in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from storage.model import Json
from tracker.cli.context import printable
from tracker.cli.tables import SEVERITY_STYLE, bytes_text, count_text, print_row, severity_word

CLASS_WIDTH: Final = 28
"""Columns that a change class takes, so that what it says stands below what the last one said."""
WIDE: Final = 90
"""Columns of a terminal from which on classes are padded to that."""

_FIGURES = (
    ("parameters", "parameters", "total", count_text),
    ("active", "parameters", "active", count_text),
    ("weights", "memory", "weights_bytes", bytes_text),
    ("full fine-tune", "memory", "full_finetune_bytes", bytes_text),
    ("LoRA", "memory", "lora_bytes", bytes_text),
    ("KV cache", "memory", "kv_cache_bytes", bytes_text),
)


def print_changes(
    out: Console, changes: Iterable[Mapping[str, Json]], *, indent: str = "", prompts: bool = False, cut: bool
) -> None:
    """One row a change; with ``prompts`` also the prompt before and after of the first differing probe."""
    padded = CLASS_WIDTH if out.width >= WIDE else 0
    for change in changes:
        word = severity_word(change["severity"])
        head = Text.assemble(
            indent, (f"{word:<8}", SEVERITY_STYLE.get(word, "")), f" {change['class']:<{padded}} "
        )
        print_row(out, head, Text(printable(change["summary"], 300)), cut=cut)
        first = (change.get("facts") or {}).get("first_difference") if prompts else None
        if first:
            _print_prompt(out, first, indent)


def _print_prompt(out: Console, first: Mapping[str, Json], indent: str) -> None:
    out.print(Text(f"{indent}  probe {printable(first.get('probe', '?'))}", style="dim"), soft_wrap=True)
    for mark, key, style in (("-", "before", "red"), ("+", "after", "green")):
        for line in str(first.get(key) or "").split("\n"):
            text = Text(printable(line, 400), style=style)
            print_row(out, Text(f"{indent}  {mark} ", style=style), text, cut=False)


_EVENT_STYLE = {"fixed": "bold green", "reintroduced": "bold red", "withdrawn": "dim", "superseded": "dim"}
_EVENT_TEXT = {
    "fixed": "put back: closes",
    "reintroduced": "back again: reopens",
    "withdrawn": "withdraws",
    "superseded": "supersedes",
}


def print_events(out: Console, events: Iterable[Mapping[str, Json]], *, indent: str) -> None:
    """What a revision did to advisories beyond opening them: a revert stands out."""
    for event in events:
        action = str(event["action"])
        if action != "opened":
            head = Text.assemble(indent, (f"{action:<8}", _EVENT_STYLE.get(action, "")), " ")
            print_row(out, head, Text(f"{_EVENT_TEXT.get(action, action)} {event['advisory']}"), cut=False)


def moved(
    before: Mapping[str, Json] | None, after: Mapping[str, Json] | None
) -> Iterator[tuple[str, str, str, str]]:
    """The figures that differ between two estimates as label, before, after and by how much.

    None of one version of the estimator against another: that is no change upstream.
    """
    if before is None or after is None or _maker(before) != _maker(after):
        return
    for label, group, key, text in _FIGURES:
        old, new = ((side.get(group) or {}).get(key) for side in (before, after))
        same_as_total = key == "active" and _totals(before, after) == (old, new)
        if old != new and not same_as_total:
            yield label, text(old), text(new), _by(old, new)


def print_moved(
    out: Console, before: Mapping[str, Json] | None, after: Mapping[str, Json] | None, *, indent: str = ""
) -> None:
    """One row a figure, the columns below each other."""
    rows = list(moved(before, after))
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(3)]
    for label, old, new, by in rows:
        told = f"{label:<{widths[0]}}  {old:>{widths[1]}} -> {new:>{widths[2]}}"
        out.print(Text.assemble(indent, told, (f"  {by}" if by else "", "bold")), soft_wrap=True)


def moved_line(before: Mapping[str, Json] | None, after: Mapping[str, Json] | None) -> str | None:
    """The moved figures that people look at first, on one line; None where none did."""
    chosen = [row for row in moved(before, after) if row[0] in {"parameters", "full fine-tune", "LoRA"}]
    return "; ".join(f"{label} {old} -> {new}{f' {by}' if by else ''}" for label, old, new, by in chosen) or None


def print_uses(out: Console, label: str, uses: Sequence[str], style: str) -> None:
    """Uses of cards that were gained or lost."""
    if uses:
        print_row(out, Text(f"{label:<12} ", style=style), Text("; ".join(uses)), cut=False)


def _maker(estimate: Mapping[str, Json]) -> tuple[Json, Json]:
    return estimate.get("estimator"), estimate.get("version")


def _totals(before: Mapping[str, Json], after: Mapping[str, Json]) -> tuple[Json, Json]:
    old, new = ((side.get("parameters") or {}).get("total") for side in (before, after))
    return old, new


def _by(old: Any, new: Any) -> str:
    if not isinstance(old, int | float) or not isinstance(new, int | float) or not old:
        return ""
    return f"({(new - old) / old:+.1%})"
