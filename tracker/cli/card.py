"""An estimate as a card in Markdown, to paste into a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from advisories.text import code_span, markdown
from storage.model import Json
from tracker.cli.tables import bytes_text, cards_shown, count_text, methods_shown
from tracker.estimate.cards import catalogue
from tracker.estimate.interface import EstimateOptions
from tracker.money import usd

NODES: Final = 60
"""Rows of the structure that a card shows."""


def markdown_card(target: str, estimate: Mapping[str, Json], options: EstimateOptions) -> str:
    """The whole card; everything that a repo wrote is escaped."""
    lines = [f"### {code_span(target)}", "", *_head(estimate), *_summary(estimate), ""]
    lines += [*_memory(estimate, options), *_cards(estimate, options), *_verifier(estimate), *_structure(estimate)]
    lines.append(
        f"Figures by hubwatch from config.json alone: profile {markdown(str(estimate.get('estimator')))}, "
        f"version {markdown(str(estimate.get('version')))}, cards of {catalogue().date}."
    )
    return "\n".join(lines) + "\n"


def _head(estimate: Mapping[str, Json]) -> Iterator[str]:
    name = estimate.get("architecture") or estimate.get("model_type") or "unknown architecture"
    yield f"{code_span(str(name))}: **{estimate['status']}** ({estimate['source']})"
    if estimate.get("reason"):
        yield f"  \n{markdown(str(estimate['reason']))}"
    yield ""


def _summary(estimate: Mapping[str, Json]) -> Iterator[str]:
    counts, checkpoint, cost = (estimate.get(key) or {} for key in ("parameters", "checkpoint", "cost"))
    yield "| | |"
    yield "|---|---|"
    if counts.get("total") is not None:
        active = counts.get("active")
        told = f", {count_text(active)} active" if active not in (None, counts["total"]) else ""
        yield f"| Parameters | {count_text(counts['total'])}{told} |"
    if checkpoint.get("total") is not None:
        delta = f", delta {checkpoint['delta']:+,}" if isinstance(checkpoint.get("delta"), int) else ""
        why = f": {markdown(str(checkpoint['explanation']))}" if checkpoint.get("explanation") else ""
        yield f"| Checkpoint | {count_text(checkpoint['total'])} by {checkpoint.get('source')}{delta}{why} |"
    if estimate.get("layers") is not None:
        yield f"| Layers | {count_text(estimate['layers'])} |"
    forward = {True: "yes", False: "no"}.get(estimate.get("forward_pass"), "not known")  # type: ignore[arg-type]
    yield f"| Will it forward-pass | {forward} |"
    if cost.get("usd") is not None:
        yield f"| Priced on | {markdown(str(cost['card']))} |"
        yield f"| Cost | {usd(cost['usd'])} in {cost['hours']:,.1f} h: 50,000 samples, ten passes |"


def _memory(estimate: Mapping[str, Json], options: EstimateOptions) -> Iterator[str]:
    memory, light, needed, band = (
        estimate.get(key) or {} for key in ("memory", "gradient_checkpointing", "needed_on_a_card", "uncertainty")
    )
    tokens = estimate.get("tokens") or {}
    if tokens.get("train") is None:
        return
    yield f"Batch {options.batch or 1} of {tokens['train']:,} tokens, {options.precision}, {options.optimizer}:"
    yield ""
    yield "| Training | Step | With gradient checkpointing | A card must have | Measured / estimate |"
    yield "|---|---|---|---|---|"
    for key, label in methods_shown(options):
        spread = band.get({"full_finetune": "full"}.get(key, key))
        told = f"{spread['low']:.2f} to {spread['high']:.2f}" if spread else "-"
        figures = (bytes_text(part.get(f"{key}_bytes")) for part in (memory, light, needed))
        yield f"| {label} | {' | '.join(figures)} | {told} |"
    yield ""
    serving = estimate.get("serving") or {}
    if serving:
        sizes = ", ".join(f"{bytes_text(size)} in {name}" for name, size in serving.items() if size is not None)
        cache = bytes_text(memory.get("kv_cache_bytes"))
        yield f"Serving: weights {sizes}; cache {cache} for {tokens['serve']:,} tokens."
        yield ""


def _cards(estimate: Mapping[str, Json], options: EstimateOptions) -> Iterator[str]:
    rows = cards_shown(estimate, options)
    if not rows:
        return
    uses = [*methods_shown(options), ("serve", "serving")]
    uses = [(key, label) for key, label in uses if f"{key}_batch" in rows[0]]
    yield f"| Largest batch | {' | '.join(label for _, label in uses)} |"
    yield "|---|" + "---|" * len(uses)
    for row in rows:
        yield f"| {markdown(row['name'])} | {' | '.join(count_text(row[f'{key}_batch']) for key, _ in uses)} |"
    yield ""


def _verifier(estimate: Mapping[str, Json]) -> Iterator[str]:
    found = estimate.get("findings") or ()
    yield "Verifier: " + ("nothing to remark." if not found else f"{len(found)} remark{'s'[: len(found) > 1]}.")
    yield ""
    for item in found:
        fix = f" Fix: {markdown(str(item['fix']))}." if item.get("fix") else ""
        yield f"- **{item['level']}** {code_span(item['rule'])}: {markdown(str(item['message']))}.{fix}"
    if found:
        yield ""


def _structure(estimate: Mapping[str, Json]) -> Iterator[str]:
    rows = estimate.get("structure") or ()
    if not rows:
        return
    yield "<details><summary>Structure</summary>"
    yield ""
    yield "| Name | Type | Output | Parameters | Count |"
    yield "|---|---|---|---|---|"
    for row in rows[:NODES]:
        shape = markdown(str(row["output_shape"])) if row.get("output_shape") else "-"
        yield (
            f"| {code_span(row['name'] or 'model')} | {markdown(row['type'])} | {shape} "
            f"| {count_text(row['parameters'])} | {count_text(row.get('count', 1))} |"
        )
    if len(rows) > NODES:
        yield f"| … and {len(rows) - NODES:,} more | | | | |"
    yield ""
    yield "</details>"
    yield ""
