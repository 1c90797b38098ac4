"""Changes and estimates for people on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from storage.model import Json
from tracker.cli.context import printable

_STYLE = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}


def severity_text(severity: str) -> str:
    """A severity as a fixed-width word, coloured."""
    word = severity.lower()
    word = "medium" if word == "moderate" else word
    return f"[{_STYLE.get(word, '')}]{word:<8}[/]" if word in _STYLE else escape(word)


def bytes_text(size: Any) -> str:
    """Bytes in decimal units, as card sizes are given."""
    if not isinstance(size, int | float):
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1000
    return f"{size:.2f} TB"


def count_text(count: Any) -> str:
    """A whole number with separators."""
    return f"{count:,}" if isinstance(count, int) else "-"


def print_changes(out: Console, changes: Iterable[dict[str, Json]], *, indent: str, prompts: bool = False) -> None:
    """One line a change; with ``prompts`` also the prompt before and after of the first differing probe."""
    for change in changes:
        summary = escape(printable(change["summary"], 300))
        out.print(f"{indent}{severity_text(change['severity'])} {change['class']:<28} {summary}", soft_wrap=True)
        first = (change.get("facts") or {}).get("first_difference") if prompts else None
        if first:
            _print_prompt(out, first, indent)


def _print_prompt(out: Console, first: dict[str, Json], indent: str) -> None:
    out.print(f"{indent}  probe {escape(printable(first.get('probe', '?')))}", style="dim")
    for mark, key, style in (("-", "before", "red"), ("+", "after", "green")):
        for line in str(first.get(key) or "").split("\n"):
            out.print(f"{indent}  {mark} {escape(printable(line, 400))}", style=style, soft_wrap=True)


def print_estimate(out: Console, estimate: dict[str, Json] | None) -> None:
    """The figures of one estimate: parameters, checkpoint, memory, cards, remarks."""
    if estimate is None:
        out.print("no config.json: nothing to estimate")
        return
    status = f"{estimate['status']} ({estimate['source']})"
    out.print(f"{estimate['architecture'] or estimate['model_type'] or 'unknown architecture'}: {status}")
    if estimate.get("reason"):
        out.print(f"  {escape(printable(estimate['reason'], 300))}", style="dim")
    _print_counts(out, estimate)
    _print_memory(out, estimate)
    if estimate.get("cards"):
        table = Table("card", "full fine-tune", "LoRA", "serving", box=None, pad_edge=False, title="largest batch")
        for card in estimate["cards"]:
            table.add_row(
                card["name"],
                *(count_text(card.get(key)) for key in ("full_finetune_batch", "lora_batch", "serve_batch")),
            )
        out.print(table)
    for remark in estimate.get("findings") or ():
        fix = f"; {remark['fix']}" if remark.get("fix") else ""
        out.print(f"  {remark['level']}: {escape(printable(remark['message'] + fix, 300))}")


def _print_counts(out: Console, estimate: dict[str, Json]) -> None:
    counts, checkpoint = estimate.get("parameters") or {}, estimate.get("checkpoint") or {}
    if counts.get("total") is not None:
        active = (
            f", {count_text(counts['active'])} active"
            if counts.get("active") not in {None, counts["total"]}
            else ""
        )
        out.print(f"  parameters    {count_text(counts['total'])}{active}")
    if checkpoint.get("total") is not None:
        delta = checkpoint.get("delta")
        told = f" (delta {delta:+,})" if isinstance(delta, int) else ""
        why = f" {escape(printable(checkpoint['explanation'], 300))}" if checkpoint.get("explanation") else ""
        out.print(f"  checkpoint    {count_text(checkpoint['total'])} by {checkpoint.get('source')}{told}{why}")


_MEMORY = (
    ("weights", "weights_bytes"),
    ("full fine-tune", "full_finetune_bytes"),
    ("LoRA r=16", "lora_bytes"),
    ("KV cache", "kv_cache_bytes"),
    ("activations", "activation_bytes"),
)


def _print_memory(out: Console, estimate: dict[str, Json]) -> None:
    memory = estimate.get("memory") or {}
    for label, key in _MEMORY:
        if memory.get(key) is not None:
            out.print(f"  {label:<13} {bytes_text(memory[key])}")
