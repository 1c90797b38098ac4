"""A short run of every fuzz target. ``make fuzz`` runs them for as long as asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from tests.fuzz.pipeline import check_history
from tests.fuzz.profiles import CI
from tests.fuzz.strategies import SEEDS, histories
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.work import TooMuchWork, at_most


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_nothing_unexpected_is_raised(target: Target) -> None:
    target.test(settings(CI, max_examples=target.examples))()


@pytest.mark.corpus
def test_documents_of_any_history_keep_the_schema(corpus: Path) -> None:
    folder = corpus / "reference" / "osv"
    schemas = [
        Draft202012Validator(json.loads((folder / name).read_text()))
        for name in ("schema-current.json", "schema-1.7.5-main.json")
    ]

    @settings(CI, max_examples=15)
    @given(histories())
    def check(trees: list[dict[str, bytes]]) -> None:
        check_history(trees, schemas)

    check()


def test_seeds_stay_small_and_every_one_is_used() -> None:
    seeds = sorted(SEEDS.iterdir())
    assert sum(item.stat().st_size for item in seeds) < 16_000
    used = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    assert [item.name for item in seeds if f'"{item.name}"' not in used] == []


def test_work_without_a_bound_is_noticed() -> None:
    with pytest.raises(TooMuchWork), at_most(100):
        print([ord(char) for char in "x" * 1_000])
