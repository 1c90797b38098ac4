"""The estimate against measured runs: what the accuracy document says holds, and the document is current."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest

from tests.accuracy.report import GROUPS, band, document, errors, of_group, reason_for, tally, wilson
from tests.accuracy.runs import Row, Run, jobs, load

ROOT = Path(__file__).resolve().parents[3]
Loaded = tuple[list[Run], Sequence[tuple[Row, str]]]


@pytest.fixture(scope="module")
def loaded(corpus: Path) -> Loaded:
    return load(corpus)


@pytest.mark.corpus
def test_what_does_not_fit_is_flagged_and_what_fits_is_not(loaded: Loaded) -> None:
    group = of_group(loaded[0], GROUPS["Full and LoRA"])
    caught, misfits, alarms, fits = tally(jobs(group))
    assert misfits >= 130
    assert caught / misfits >= 0.97
    assert alarms / fits < 0.05
    assert statistics.median(errors(group)) < 0.1


@pytest.mark.corpus
def test_every_wrong_verdict_has_a_reason(loaded: Loaded) -> None:
    assert [
        job.run.label for job in jobs(loaded[0]) if job.flagged() is job.fits and not reason_for(job.run)
    ] == []


@pytest.mark.corpus
def test_the_document_and_the_band_are_current(loaded: Loaded) -> None:
    runs, left = loaded
    hint = "run python -m tests.accuracy --write"
    assert (ROOT / "docs" / "accuracy.md").read_text("utf-8") == document(runs, left), hint
    shipped = (resources.files("tracker.estimate") / "data" / "uncertainty.json").read_text("utf-8")
    assert json.loads(shipped) == band(runs), hint


def test_the_interval_of_a_share() -> None:
    low, high = wilson(128, 130)
    assert (round(low, 3), round(high, 3)) == (0.946, 0.996)
    assert wilson(0, 10)[0] == 0
    assert wilson(0, 0) == (0.0, 1.0)
