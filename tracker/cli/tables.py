"""Changes and estimates for people on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from storage.model import Json
from tracker.cli.context import printable
from tracker.estimate.cards import catalogue
from tracker.estimate.interface import EstimateOptions
from tracker.money import usd

NARROW: Final = 24
"""Fewest columns for a text beside its head; below that it takes a line of its own."""
SEVERITY_STYLE = {"critical": "bold red", "high": "red", "medium": "yellow", "low": "cyan", "info": "dim"}
_LEVEL = {"error": "red", "warning": "yellow"}


def severity_word(severity: str) -> str:
    """The word of the command line for a severity, also for what OSV calls it."""
    word = severity.lower()
    return "medium" if word == "moderate" else word


def severity_text(severity: str) -> str:
    """A severity as a fixed-width word, coloured."""
    word = severity_word(severity)
    return f"[{SEVERITY_STYLE[word]}]{word:<8}[/]" if word in SEVERITY_STYLE else escape(word)


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


def print_row(out: Console, head: Text, body: Text, *, cut: bool) -> None:
    """A head and what belongs to it: on a terminal cut to the width, or wrapped below itself; else one line."""
    if not out.is_terminal:
        out.print(head + body, soft_wrap=True)
        return
    room = out.width - head.cell_len
    if cut:
        body = body.copy()
        body.truncate(max(room, 1), overflow="ellipsis")
        out.print(head + body, no_wrap=True, overflow="ellipsis")
        return
    hang = head.cell_len
    if room < NARROW:
        out.print(head, no_wrap=True, overflow="ellipsis")
        head, hang = Text("    "), 4
        room = max(out.width - hang, 1)
    for number, line in enumerate(body.wrap(out, room)):
        out.print((head if not number else Text(" " * hang)) + line, no_wrap=True)


def print_estimate(out: Console, estimate: dict[str, Json] | None, options: EstimateOptions | None = None) -> None:
    """The figures of one estimate: parameters, checkpoint, memory, cost, cards, remarks.

    ``options`` are those that were asked for: a method or a card of them is shown alone.
    """
    if estimate is None:
        out.print("no config.json: nothing to estimate")
        return
    status = f"{estimate['status']} ({estimate['source']})"
    name = printable(estimate["architecture"] or estimate["model_type"] or "unknown architecture", 100)
    out.print(f"[bold]{escape(name)}[/]: {status}")
    if estimate.get("reason"):
        out.print(f"  {escape(printable(estimate['reason'], 300))}", style="dim")
    _print_counts(out, estimate)
    options = options or EstimateOptions()
    _print_memory(out, estimate, options)
    _print_cost(out, estimate)
    _print_cards(out, estimate, options)
    for remark in estimate.get("findings") or ():
        fix = f"; {remark['fix']}" if remark.get("fix") else ""
        head = Text.assemble("  ", (f"{remark['level']}:", _LEVEL.get(remark["level"], "dim")), " ")
        print_row(out, head, Text(printable(remark["message"] + fix, 300)), cut=False)


def methods_shown(options: EstimateOptions) -> Sequence[tuple[str, str]]:
    """The ways of training that were asked for: key and label."""
    return [pair for name, pair in _METHODS.items() if options.method in (None, name)]


def cards_shown(estimate: Mapping[str, Json], options: EstimateOptions) -> list[Mapping[str, Json]]:
    """The rows of the card table that were asked for."""
    rows: list[Mapping[str, Json]] = list(estimate.get("cards") or ())
    wanted = catalogue().row_for(options.card) if options.card else None
    return [row for row in rows if wanted in (None, row["name"])]


def _figure(out: Console, label: str, told: str) -> None:
    print_row(out, Text(f"  {label:<14} "), Text(told), cut=False)


def _print_cards(out: Console, estimate: dict[str, Json], options: EstimateOptions) -> None:
    rows = cards_shown(estimate, options)
    if not rows:
        return
    uses = [use for use in (*methods_shown(options), ("serve", "serving")) if f"{use[0]}_batch" in rows[0]]
    table = Table("largest batch", box=None, pad_edge=False)
    for _, label in uses:
        table.add_column(label, justify="right")
    for row in rows:
        batches = (row[f"{key}_batch"] for key, _ in uses)
        table.add_row(row["name"], *(count_text(batch) if batch else "[dim]-[/]" for batch in batches))
    out.print(table)


def _print_cost(out: Console, estimate: dict[str, Json]) -> None:
    if estimate.get("layers") is not None:
        forward = "will forward-pass" if estimate.get("forward_pass") else "will not forward-pass"
        _figure(out, "layers", f"{count_text(estimate['layers'])}, {forward}")
    cost = estimate.get("cost")
    if cost and cost.get("usd") is not None:
        _figure(out, "cost", f"{usd(cost['usd'])} on {cost['card']}, {cost['hours']:,.1f} h")


def _print_counts(out: Console, estimate: dict[str, Json]) -> None:
    counts, checkpoint = estimate.get("parameters") or {}, estimate.get("checkpoint") or {}
    if counts.get("total") is not None:
        active = (
            f", {count_text(counts['active'])} active"
            if counts.get("active") not in {None, counts["total"]}
            else ""
        )
        _figure(out, "parameters", f"{count_text(counts['total'])}{active}")
    if checkpoint.get("total") is not None:
        delta = checkpoint.get("delta")
        told = f" (delta {delta:+,})" if isinstance(delta, int) else ""
        why = f" {printable(checkpoint['explanation'], 300)}" if checkpoint.get("explanation") else ""
        _figure(out, "checkpoint", f"{count_text(checkpoint['total'])} by {checkpoint.get('source')}{told}{why}")


_METHODS = {"full": ("full_finetune", "full fine-tune"), "lora": ("lora", "LoRA"), "qlora": ("qlora", "QLoRA")}


def _print_memory(out: Console, estimate: dict[str, Json], options: EstimateOptions) -> None:
    memory, light = estimate.get("memory") or {}, estimate.get("gradient_checkpointing") or {}
    rows = [("weights", "weights_bytes"), ("KV cache", "kv_cache_bytes"), ("activations", "activation_bytes")]
    rows[1:1] = [(label, f"{key}_bytes") for key, label in methods_shown(options)]
    for label, key in rows:
        if memory.get(key) is not None:
            less = light.get(key)
            told = f" ({bytes_text(less)} with gradient checkpointing)" if less and less != memory[key] else ""
            _figure(out, label, f"{bytes_text(memory[key])}{told}")
