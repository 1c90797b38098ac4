"""Changes and estimates for people on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from storage.model import Json
from tracker.cli.context import printable
from tracker.estimate.cards import catalogue
from tracker.estimate.interface import EstimateOptions

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


def print_estimate(out: Console, estimate: dict[str, Json] | None, options: EstimateOptions | None = None) -> None:
    """The figures of one estimate: parameters, checkpoint, memory, cost, cards, remarks.

    ``options`` are those that were asked for: a method or a card of them is shown alone.
    """
    if estimate is None:
        out.print("no config.json: nothing to estimate")
        return
    status = f"{estimate['status']} ({estimate['source']})"
    out.print(f"{estimate['architecture'] or estimate['model_type'] or 'unknown architecture'}: {status}")
    if estimate.get("reason"):
        out.print(f"  {escape(printable(estimate['reason'], 300))}", style="dim")
    _print_counts(out, estimate)
    options = options or EstimateOptions()
    _print_memory(out, estimate, options)
    _print_cost(out, estimate)
    _print_cards(out, estimate, options)
    for remark in estimate.get("findings") or ():
        fix = f"; {remark['fix']}" if remark.get("fix") else ""
        out.print(f"  {remark['level']}: {escape(printable(remark['message'] + fix, 300))}")


def methods_shown(options: EstimateOptions) -> Sequence[tuple[str, str]]:
    """The ways of training that were asked for: key and label."""
    return [pair for name, pair in _METHODS.items() if options.method in (None, name)]


def cards_shown(estimate: Mapping[str, Json], options: EstimateOptions) -> list[Mapping[str, Json]]:
    """The rows of the card table that were asked for."""
    rows: list[Mapping[str, Json]] = list(estimate.get("cards") or ())
    wanted = catalogue().row_for(options.card) if options.card else None
    return [row for row in rows if wanted in (None, row["name"])]


def _print_cards(out: Console, estimate: dict[str, Json], options: EstimateOptions) -> None:
    rows = cards_shown(estimate, options)
    if not rows:
        return
    uses = [use for use in (*methods_shown(options), ("serve", "serving")) if f"{use[0]}_batch" in rows[0]]
    table = Table("card", *(label for _, label in uses), box=None, pad_edge=False, title="largest batch")
    for row in rows:
        table.add_row(row["name"], *(count_text(row[f"{key}_batch"]) for key, _ in uses))
    out.print(table)


def _print_cost(out: Console, estimate: dict[str, Json]) -> None:
    if estimate.get("layers") is not None:
        forward = "will forward-pass" if estimate.get("forward_pass") else "will not forward-pass"
        out.print(f"  layers        {count_text(estimate['layers'])}, {forward}")
    cost = estimate.get("cost")
    if cost and cost.get("usd") is not None:
        out.print(f"  cost          {cost['usd']:,.2f} $ on {cost['card']}, {cost['hours']:,.1f} h")


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


_METHODS = {"full": ("full_finetune", "full fine-tune"), "lora": ("lora", "LoRA"), "qlora": ("qlora", "QLoRA")}


def _print_memory(out: Console, estimate: dict[str, Json], options: EstimateOptions) -> None:
    memory, light = estimate.get("memory") or {}, estimate.get("gradient_checkpointing") or {}
    rows = [("weights", "weights_bytes"), ("KV cache", "kv_cache_bytes"), ("activations", "activation_bytes")]
    rows[1:1] = [(label, f"{key}_bytes") for key, label in methods_shown(options)]
    for label, key in rows:
        if memory.get(key) is not None:
            less = light.get(key)
            told = f" ({bytes_text(less)} with gradient checkpointing)" if less and less != memory[key] else ""
            out.print(f"  {label:<14} {bytes_text(memory[key])}{told}")
