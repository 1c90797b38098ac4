"""Figures in words: counts, bytes, what a config costs, and what a revision moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage.model import Estimate, Json
from tracker.estimating import estimate_delta

_MEMORY = (
    ("Full fine-tune, batch 1", "full_finetune_bytes"),
    ("LoRA r=16, batch 1", "lora_bytes"),
    ("Weights in bf16", "weights_bytes"),
    ("KV cache, one sequence", "kv_cache_bytes"),
    ("Activations, batch 1", "activation_bytes"),
)
_USES = (("full_finetune_batch", "Full fine-tune"), ("lora_batch", "LoRA"), ("serve_batch", "Serving"))
_SHORT = {
    "total": "parameters",
    "active": "active parameters",
    "weights_bytes": "weights",
    "full_finetune_bytes": "full fine-tune",
    "lora_bytes": "LoRA",
    "kv_cache_bytes": "KV cache",
    "activation_bytes": "activations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One figure before and after."""

    name: str
    before: str
    after: str
    grew: bool | None
    by: str | None = None  # by how much of what it was


def count(number: Any) -> str:
    """A whole number with separators; a dash for anything else."""
    return f"{number:,}" if isinstance(number, int) and not isinstance(number, bool) else "–"


def size(number: Any) -> str:
    """Bytes in decimal units, as card sizes are given."""
    if not isinstance(number, int | float) or isinstance(number, bool):
        return "–"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(number) < 1000 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.2f} {unit}"
        number /= 1000
    return "–"


def gigabytes(number: Any) -> str:
    """Bytes in GB (1e9), two digits behind the point; what is below 0.1 GB in smaller units."""
    if not isinstance(number, int | float) or isinstance(number, bool):
        return "–"
    return f"{number / 1e9:,.2f} GB" if number >= 95e6 else size(number)


def billions(number: int) -> str:
    """A count of parameters as people say it: 149M, 7.24B."""
    for unit, scale in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= scale:
            shown = number / scale
            return f"{shown:.3g}{unit}" if shown < 100 else f"{shown:.0f}{unit}"
    return str(number)


def part(estimate: Estimate | None, group: str) -> Mapping[str, Json]:
    """One group of figures, empty where there is none."""
    found = estimate.body.get(group) if estimate else None
    return found if isinstance(found, Mapping) else {}


def memory_rows(estimate: Estimate) -> list[tuple[str, str]]:
    """What each use takes."""
    memory = part(estimate, "memory")
    return [(label, gigabytes(memory[key])) for label, key in _MEMORY if memory.get(key) is not None]


def smallest_card(estimate: Estimate | None, use: str = "full_finetune_batch") -> str | None:
    """The smallest card of the table on which a use fits at batch 1, headroom included."""
    cards = estimate.body.get("cards") if estimate else None
    return next((str(card["name"]) for card in cards or () if card.get(use)), None)


def headline(estimate: Estimate | None, downloads: int | None = None) -> str | None:
    """The first sentence of a model's page; None where nothing could be counted.

    ``downloads`` are those of a month, left out where the Hub told none.
    """
    told = _costs(estimate)
    return f"{told} {downloaded(downloads)}" if told and downloads is not None else told


def downloaded(downloads: int) -> str:
    """How often a repo is fetched, as a sentence."""
    return f"{downloads:,} download{'' if downloads == 1 else 's'} in the last month, as the Hub says."


def _costs(estimate: Estimate | None) -> str | None:
    total = part(estimate, "parameters").get("total")
    if estimate is None or total is None:
        return None
    memory, active = part(estimate, "memory"), part(estimate, "parameters").get("active")
    sentence = f"{billions(total)} parameters"
    if isinstance(active, int) and active != total:
        sentence += f" ({billions(active)} active)"
    full, lora = memory.get("full_finetune_bytes"), memory.get("lora_bytes")
    if full is None or lora is None:
        return f"{sentence}."
    fits, tuned = smallest_card(estimate), smallest_card(estimate, "lora_batch")
    ends = (
        f"the smallest card that takes a full fine-tune is {fits}" if fits else "no card of the table takes that"
    )
    if not fits and tuned:
        ends = f"no card of the table takes a full fine-tune; the smallest for LoRA is {tuned}"
    return f"{sentence}: a full fine-tune takes {gigabytes(full)}, LoRA {gigabytes(lora)}; {ends}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Our count against the checkpoint's."""

    derived: int | None
    published: int | None
    source: str | None
    delta: str | None
    explanation: str | None


_SOURCES = {
    "headers": "safetensors headers",
    "index": "size in the weight index, two bytes a scalar",
    "hub": "the Hub's own count",
}


def held(estimate: Estimate) -> Held:
    """Our count against the checkpoint's; the difference is derived less published."""
    derived, checkpoint = part(estimate, "parameters").get("total"), part(estimate, "checkpoint")
    published, delta = checkpoint.get("total"), None
    if isinstance(derived, int) and isinstance(published, int) and published:
        apart = derived - published
        delta = "none" if not apart else f"{apart:+,} ({apart / published:+.2%})"
    source = checkpoint.get("source")
    return Held(
        derived=derived,
        published=published,
        source=_SOURCES.get(str(source), source),
        delta=delta,
        explanation=checkpoint.get("explanation"),
    )


def moved(before: Estimate | None, after: Estimate | None) -> list[Moved]:
    """The figures that differ, in words; none between estimators of different versions."""
    return moved_of(estimate_delta(before, after))


def moved_of(delta: Mapping[str, Json]) -> list[Moved]:
    """The same from what an advisory keeps of it."""
    counts = dict(delta.get("parameters") or {})
    if counts.get("active") == counts.get("total"):
        counts.pop("active", None)  # all are active, before and after
    return [*_figures(counts, count), *_figures(delta.get("memory"), gigabytes)]


def _figures(group: Json, shown: Any) -> Iterator[Moved]:
    for key, pair in (group or {}).items():
        a, b = pair["before"], pair["after"]
        grew = b > a if isinstance(a, int | float) and isinstance(b, int | float) else None
        yield Moved(name=_SHORT.get(key, key), before=shown(a), after=shown(b), grew=grew, by=_by(a, b))


def _by(a: Json, b: Json) -> str | None:
    if not isinstance(a, int | float) or not isinstance(b, int | float) or not a or a == b:
        return None
    return f"{(b - a) / a:+,.1%}"


def cards_moved(before: Estimate | None, after: Estimate | None) -> tuple[Sequence[str], Sequence[str]]:
    """Uses of cards that became possible, and that ceased to be."""
    delta = estimate_delta(before, after)
    return delta.get("cards_gained", ()), delta.get("cards_lost", ())


def both(before: Estimate | None, after: Estimate | None) -> list[Moved]:
    """Every figure before and after, those that did not move too."""
    rows = []
    for group, key, shown in (
        ("parameters", "total", count),
        ("parameters", "active", count),
        *(("memory", key, gigabytes) for _, key in _MEMORY),
    ):
        a, b = part(before, group).get(key), part(after, group).get(key)
        dense = key == "active" and all(
            part(side, group).get("total") == known for side, known in ((before, a), (after, b))
        )
        if (a is not None or b is not None) and not dense:
            grew = b > a if isinstance(a, int | float) and isinstance(b, int | float) and a != b else None
            rows.append(Moved(name=_SHORT[key], before=shown(a), after=shown(b), grew=grew, by=_by(a, b)))
    return rows


def batches_both(before: Estimate | None, after: Estimate | None) -> list[dict[str, Any]]:
    """The largest batches before and after, by card."""
    old, new = (
        {str(card["name"]): card for card in (side.body.get("cards") or ())} if side else {}
        for side in (before, after)
    )
    return [
        {
            "name": name,
            "uses": [(old.get(name, {}).get(key), new.get(name, {}).get(key)) for key, _ in _USES],
        }
        for name in dict.fromkeys([*old, *new])
    ]
