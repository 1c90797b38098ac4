"""The comparison as figures and as docs/accuracy.md."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.accuracy.runs import Job, Row, Run, jobs, stand_ins
from tracker.estimate.cards import HEADROOM, HEADROOM_REASON, catalogue
from tracker.estimate.plans import LOOP_LOGITS

GROUPS = {"Full and LoRA": ("full", "LoRA"), "QLoRA": ("QLoRA",)}
AXOLOTL = (
    "axolotl's recipes may take the loss without making the logits (cut cross-entropy), which no option here says"
)
PACKED_BY_LITGPT = "litgpt's packed runs stand 1.2 to 1.4 times over the estimate throughout; we do not know why"
# Why an estimate was wrong about a run: model, method, batch, sequence -> a sentence.
REASONS = {
    (
        "chatglm3-6b",
        "LoRA",
        1,
        4096,
    ): "the repo's own attention code keeps scores (S² terms: three times the tokens "
    "of the row before take four times the memory over the weights); the class counted here uses flash attention",
    (
        "yi-6b-chat",
        "LoRA",
        1,
        4096,
    ): "18 GB over the weights at 4,096 tokens, with checkpointing: likely read from the "
    "card, with what the allocator holds in reserve; this source stands over the estimate throughout",
    (
        "phi-1.5 1.3 B",
        "LoRA",
        4,
        1044,
    ): "1,044 is the longest sample, most are far shorter; and litgpt fuses the GELU "
    "that transformers runs as five kernels, each of which keeps its input",
    (
        "llama-3.2-3b",
        "full",
        4,
        512,
    ): "5.1 bytes a parameter: less than bf16 weights and the two moments of the AdamW that the row names",
    (
        "Llama 3.2 3B",
        "full",
        2,
        4096,
    ): "activations were moved to the host and the loss was taken in chunks, which no option here says",
    ("Qwen-7B", "LoRA", 1, 2048): "0.2 GB under the card: inside the headroom",
    ("Qwen-7B", "LoRA", 1, 8192): "the loss took less than the copies of the logits that a loop is charged with",
    ("Qwen-14B", "LoRA", 1, 2048): "2.6 GB under the card: inside the headroom and the loop's copies",
    (
        "Qwen-1.8B-Chat",
        "full",
        1,
        512,
    ): "10.7 bytes a parameter where the same script took 23.7 in the README: another "
    "DeepSpeed set-up, which the row does not tell",
    ("qwen-7b-chat", "full", 1, 2048): "0.3 GB under the card: inside the headroom",
    ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "LoRA", 2, 2048): AXOLOTL,
    (
        "Falcon 40 B",
        "QLoRA",
        1,
        1079,
    ): PACKED_BY_LITGPT,
    ("gemma-7b", "QLoRA", 1, 512): PACKED_BY_LITGPT,
    ("llama-3.1-8b", "QLoRA", 2, 512): PACKED_BY_LITGPT,
    ("Qwen-1.8B", "QLoRA", 1, 8192): "0.2 GB under the card, and a loss that took less than ours",
    ("Qwen-7B", "QLoRA", 1, 8192): "0.5 GB under the card, and a loss that took less than ours",
    ("Qwen-14B", "QLoRA", 1, 512): "3.5 GB over, at any length: likely buffers into which GPTQ kernels unpack",
    (
        "qwen-14b-chat",
        "QLoRA",
        1,
        2048,
    ): "half a byte more for each parameter: likely read from the card after loading in half precision",
    (
        "qwen-72b-chat",
        "QLoRA",
        1,
        2048,
    ): "half a byte more for each parameter: likely read from the card after loading in half precision",
    (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "QLoRA",
        2,
        2048,
    ): "axolotl packs the 3-D experts and spares them adapters; bitsandbytes and PEFT as they come do neither",
}


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, hits / of
    middle, width = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - width) / (1 + z * z / of)), (middle + width) / (1 + z * z / of)


def share(hits: int, of: int) -> str:
    """A share in per cent with its interval and its parts."""
    low, high = wilson(hits, of)
    return f"{100 * hits / of:.1f} % ({100 * low:.1f} to {100 * high:.1f}), {hits} of {of}" if of else "no job"


def of_group(runs: Sequence[Run], methods: Sequence[str]) -> list[Run]:
    return [run for run in runs if run.row["method"] in methods]


def tally(found: Sequence[Job], scale: float = 1.0) -> tuple[int, int, int, int]:
    """Flagged of those that do not fit, their number; flagged of those that fit, their number."""
    misfits, fits = ([job for job in found if job.fits is kind] for kind in (False, True))
    return sum(j.flagged(scale) for j in misfits), len(misfits), sum(j.flagged(scale) for j in fits), len(fits)


def errors(runs: Sequence[Run]) -> list[float]:
    """Absolute relative errors of the expected peak against the measured one."""
    return [abs(run.expected / run.measured - 1) for run in runs if run.measured]


def reason_for(run: Run) -> str | None:
    """Why the estimate is wrong about this run; None where nobody has said."""
    row = run.row
    told = REASONS.get((row["model"], row["method"], row["batch"], row["seq"]))
    return told or (AXOLOTL if "axolotl" in row["source"] and run.expected > (run.measured or 0) else None)


def band(runs: Sequence[Run]) -> dict[str, dict[str, float | int]]:
    """The middle nine tenths of measured / bare step, by how a run is estimated."""
    found: dict[str, dict[str, float | int]] = {}
    for method in ("full", "lora", "qlora"):
        ratios = sorted(run.measured / run.step for run in runs if run.method == method and run.measured)
        cuts = statistics.quantiles(ratios, n=20, method="inclusive")
        found[method] = {"low": round(cuts[0], 2), "high": round(cuts[-1], 2), "runs": len(ratios)}
    return found


def document(runs: Sequence[Run], left: Sequence[tuple[Row, str]]) -> str:
    """docs/accuracy.md."""
    parts = (_opening(), _result(runs), _settled(runs), _wrong(runs), _table(runs), _left(left))
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _opening() -> Iterator[str]:
    names = ", ".join(card.name for card in catalogue().fit)
    yield from _wrapped(
        "# Estimates beside measured runs",
        "Made by `python -m tests.accuracy --write` from published peak-memory measurements; do not edit by hand.",
        f"A job is a run on a card ({names}; GB = 1e9 bytes). It does not fit on a card smaller than its "
        "measured peak; a run that ended out of memory does not fit on its own card, nor on a smaller one. An "
        "estimate flags a job if `needed_on_a_card` is more than the card has. Single card, batch and "
        "sequence known. Intervals are Wilson's at 95 %; jobs of one run are not independent, so the true "
        "ones are wider.",
    )


def _wrapped(*paragraphs: str) -> Iterator[str]:
    for paragraph in paragraphs:
        follow = "  " if paragraph.startswith("- ") else ""
        yield from textwrap.wrap(
            paragraph, 118, subsequent_indent=follow, break_long_words=False, break_on_hyphens=False
        )
        yield ""


def _result(runs: Sequence[Run]) -> Iterator[str]:
    yield "| | Flagged of those that do not fit | Flagged of those that fit | Median absolute error | Runs |"
    yield "|---|---|---|---|---|"
    for name, methods in GROUPS.items():
        group = of_group(runs, methods)
        caught, misfits, alarms, fits = tally(jobs(group))
        error = 100 * statistics.median(errors(group))
        yield f"| {name} | {share(caught, misfits)} | {share(alarms, fits)} | {error:.1f} % | {len(group)} |"
    yield ""
    yield "The reference method flags 113 of 131 (86 %) of the full and LoRA jobs that do not fit."
    yield ""
    yield "By source, full and LoRA:"
    yield ""
    yield "| Source | Do not fit | Fit, but flagged | Median measured / expected | Runs |"
    yield "|---|---|---|---|---|"
    group = of_group(runs, GROUPS["Full and LoRA"])
    for source in sorted({run.row["source"].split()[0] for run in group}):
        own = [run for run in group if run.row["source"].split()[0] == source]
        caught, misfits, alarms, fits = tally(jobs(own))
        ratios = [run.measured / run.expected for run in own if run.measured]
        told = f"{statistics.median(ratios):.2f}" if ratios else "-"
        yield f"| {source} | {caught} of {misfits} | {alarms} of {fits} | {told} | {len(own)} |"
    yield ""


def _settled(runs: Sequence[Run]) -> Iterator[str]:
    yield "## What was settled on what"
    yield ""
    precisions = Counter(run.options.precision for run in runs)
    told = ", ".join(f"`{name}` {count}" for name, count in sorted(precisions.items()))
    group = of_group(runs, GROUPS["Full and LoRA"])
    plain = [replace(run, precision=_stated(run)) for run in group]
    caught, misfits, alarms, fits = tally(jobs(plain))
    yield from _wrapped(
        "- Bytes kept and step peaks: on simulated allocation (docs/estimators.md), on none of these runs.",
        f"- Headroom {HEADROOM_REASON}. The runs on an L40S are four of these; the table below shows other "
        "values.",
        f"- What a training loop under autocast adds, {LOOP_LOGITS} bytes a logit: 4 for the logits that are "
        "given out in fp32, 4 for the gradient of the shifted ones. Derived; kept at 8, not at 4, with these "
        "runs in view, most of which are of versions that take both.",
        "- No constant was fitted to a run or a source. Which precision and optimizer a run had is from its "
        "row, and where the row is silent from how its source trains, as `tests/accuracy/runs.py` says: "
        f"{told}. With the bare words of the rows instead (`bf16` for all that do not say more), "
        f"{share(caught, misfits)} of those that do not fit are flagged, and {share(alarms, fits)} of those "
        "that fit.",
        "- Sequence lengths are often a cap on samples that are shorter, which makes an estimate look high.",
    )
    yield "The same with another headroom, full and LoRA:"
    yield ""
    yield "| Headroom | Flagged of those that do not fit | Flagged of those that fit |"
    yield "|---|---|---|"
    found = jobs(of_group(runs, GROUPS["Full and LoRA"]))
    for headroom in (1.0, 1.04, 1.06, 1.08, 1.10, 1.15):
        caught, misfits, alarms, fits = tally(found, headroom / HEADROOM)
        yield f"| {headroom:.2f} | {share(caught, misfits)} | {share(alarms, fits)} |"
    yield ""
    yield "Measured over the bare step (`memory.*_bytes`), nine runs of ten, as `uncertainty` gives it:"
    yield ""
    yield "| Method | Low | High | Runs |"
    yield "|---|---|---|---|"
    for method, item in band(runs).items():
        yield f"| {method} | {item['low']:.2f} | {item['high']:.2f} | {item['runs']} |"
    yield ""
    yield "Models that are counted as another class:"
    yield ""
    measured = {run.row["hf_id"] for run in runs}
    for name, note in sorted(stand_ins().items()):
        if name in measured:
            yield f"- {name}: {note}"
    yield ""


def _stated(run: Run) -> str:
    said = str(run.row["precision"] or "")
    return said if said.endswith("-true") else "bf16"


def _wrong(runs: Sequence[Run]) -> Iterator[str]:
    yield from _wrapped("## What was wrong", "The reasons are our reading of row and source: no run was repeated.")
    for title, fits in (("Missed", False), ("Flagged, but it fits", True)):
        yield f"### {title}"
        yield ""
        yield "| Run | Source | Card | Measured | Needed | Why |"
        yield "|---|---|---|---|---|---|"
        for job in jobs(runs):
            if job.fits is fits and job.flagged() is fits:
                run = job.run
                yield (
                    f"| {run.label} | {_source(run)} | {job.gb} GB | {_gb(run.measured)} | {_gb(run.needed)} "
                    f"| {reason_for(run) or 'not explained'} |"
                )
        yield ""


def _table(runs: Sequence[Run]) -> Iterator[str]:
    yield "## Every run"
    yield ""
    yield from _wrapped(
        "Measured, expected and needed in GB; expected is the step in a loop without headroom, needed is with "
        "it. The verdict is over the cards: right, missed (m) or flagged though it fits (f) on the cards named."
    )
    yield "| Run | Precision | Checkpointing | Source | Measured | Expected | Ratio | Needed | Verdict |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for run in runs:
        ratio = f"{run.measured / run.expected:.2f}" if run.measured else "-"
        wrong = [f"{'f' if job.fits else 'm'} {job.gb}" for job in jobs([run]) if job.flagged() is job.fits]
        yield (
            f"| {run.label} | {run.options.precision} | {'yes' if run.options.gradient_checkpointing else 'no'} "
            f"| {_source(run)} | {_gb(run.measured)} | {_gb(run.expected)} | {ratio} | {_gb(run.needed)} "
            f"| {', '.join(wrong) or 'right'} |"
        )
    yield ""


def _left(left: Sequence[tuple[Row, str]]) -> Iterator[str]:
    yield "## Not compared"
    yield ""
    yield "| Why | Runs | Which |"
    yield "|---|---|---|"
    for reason, count in Counter(reason for _, reason in left).most_common():
        names = sorted({f"{row['model']} {row['method']}" for row, why in left if why == reason})
        told = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        yield f"| {reason} | {count} | {told} |"


def _source(run: Run) -> str:
    return str(run.row["source"]).split()[0]


def _gb(size: float | None) -> str:
    return "out of memory" if size is None else f"{size / 1e9:.1f}"


def write(root: Path, runs: Sequence[Run], left: Sequence[tuple[Row, str]]) -> None:
    """Bring the document up to date."""
    (root / "docs" / "accuracy.md").write_text(document(runs, left), "utf-8")
