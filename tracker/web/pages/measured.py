"""How estimates did against measured runs, as it ships. The figures are made by ``python -m tests.accuracy``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One published run beside our figures, in bytes.

    ``needed`` is what a card must have, ``expected`` the same without headroom. ``missed`` and ``alarmed`` are
    cards (GB) on which the verdict was wrong: said to fit but did not, said not to fit but did.
    """

    model: str
    method: str
    batch: int
    seq: int
    precision: str
    checkpointing: bool
    source: str
    card: int
    measured: int | None  # None: out of memory
    expected: int
    needed: int
    missed: Sequence[int]
    alarmed: Sequence[int]
    misfits: int
    fits: int
    why: str | None

    @property
    def ratio(self) -> float | None:
        """Measured over expected."""
        return self.measured / self.expected if self.measured else None

    @property
    def verdict(self) -> str:
        """Right on every card, or on which not."""
        wrong = [f"missed on {gb} GB" for gb in self.missed]
        return ", ".join(wrong + [f"false alarm on {gb} GB" for gb in self.alarmed]) or "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Jobs of some runs, a job being one on a card: ``misfits`` did not fit, ``caught`` of them were flagged."""

    name: str
    caught: int
    misfits: int
    alarms: int
    fits: int
    runs: int

    @property
    def recall(self) -> str:
        """Flagged of those that do not fit, as a share and its 95 % interval."""
        return _share(self.caught, self.misfits)

    @property
    def false_alarms(self) -> str:
        """Flagged of those that fit, as a share and its 95 % interval."""
        return _share(self.alarms, self.fits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The whole comparison."""

    estimator: str
    groups: Sequence[Tally]
    runs: Sequence[MeasuredRun]
    left_out: Mapping[str, int]

    @property
    def by_source(self) -> list[Tally]:
        """The jobs of each source and method, by name."""
        found: dict[str, list[MeasuredRun]] = {}
        for run in self.runs:
            found.setdefault(f"{run.source}, {run.method}", []).append(run)
        return [_tally(name, runs) for name, runs in sorted(found.items(), key=lambda item: item[0].lower())]

    @property
    def wrong(self) -> list[MeasuredRun]:
        """The runs with a wrong verdict on some card, the missed ones first."""
        return sorted((run for run in self.runs if run.missed or run.alarmed), key=lambda run: not run.missed)


@cache
def accuracy() -> Accuracy:
    """What ships with this version."""
    kept = json.loads((resources.files("tracker.estimate") / "data" / "accuracy.json").read_text("utf-8"))
    return Accuracy(
        estimator=kept["estimator"],
        groups=[Tally(**item) for item in kept["groups"]],
        runs=[MeasuredRun(**item) for item in kept["runs"]],
        left_out=kept["left_out"],
    )


def _tally(name: str, runs: Sequence[MeasuredRun]) -> Tally:
    misfits = sum(run.misfits for run in runs)
    return Tally(
        name=name,
        caught=misfits - sum(len(run.missed) for run in runs),
        misfits=misfits,
        alarms=sum(len(run.alarmed) for run in runs),
        fits=sum(run.fits for run in runs),
        runs=len(runs),
    )


def _share(hits: int, of: int) -> str:
    """Per cent, with Wilson's interval at 95 %."""
    if not of:
        return "no such job"
    z, part = 1.96, hits / of
    middle, width = part + z * z / (2 * of), z * math.sqrt(part * (1 - part) / of + z * z / (4 * of * of))
    low, high = max(0.0, middle - width) / (1 + z * z / of), (middle + width) / (1 + z * z / of)
    return f"{100 * part:.1f} % ({100 * low:.0f} to {100 * high:.0f})"
