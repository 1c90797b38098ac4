"""What every declared architecture promises, whoever adds the next one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage.model import EstimateStatus
from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.registry import load
from tracker.snapshot.defaults import known_types

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "estimate"
TYPES = sorted(load())


def test_loading_is_sorted_and_repeatable() -> None:
    assert list(load()) == TYPES
    assert load() is load()


@pytest.mark.parametrize("model_type", TYPES)
def test_an_architecture(model_type: str) -> None:
    architecture = load()[model_type]
    assert architecture.model_type == model_type
    assert architecture.base in architecture.classes
    for name in architecture.classes:
        estimate = ESTIMATOR.estimate({"model_type": model_type, "architectures": [name]})
        if model_type not in known_types():
            continue  # no class defaults to build it from
        if estimate.status is EstimateStatus.UNSUPPORTED:
            # an option that is not counted may be the class's default; it is said, never guessed
            assert estimate.reason
            continue
        body = estimate.body
        assert set(body) >= {
            "parameters",
            "checkpoint",
            "lora",
            "memory",
            "tokens",
            "headroom",
            "cards",
            "cost",
            "structure",
            "forward_pass",
            "layers",
            "findings",
        }
        parameters = body["parameters"]
        assert 0 < parameters["active"] <= parameters["total"]
        assert parameters["embedding"] + 0 <= parameters["total"]
        assert sum(parameters["by_kind"].values()) == parameters["total"]
        assert sum(parameters["components"].values()) == parameters["total"]
        assert body["lora"]["parameters_linear"] >= 0
        assert body["memory"]["weights_bytes"] == 2 * parameters["total"]
        assert body["memory"]["full_finetune_bytes"] >= body["memory"]["weights_bytes"]
        assert 1 <= len(body["structure"]) < 1500
        leaves = {row["name"] for row in body["structure"]}
        assert all(leaves)


CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES)
def test_a_golden_case(case: str) -> None:
    """Counts of published models, from their own config files' essential keys."""
    config = json.loads((GOLDEN / case / "config.json").read_text("utf-8"))
    expected = json.loads((GOLDEN / case / "expected.json").read_text("utf-8"))
    estimate = ESTIMATOR.estimate(config)
    assert estimate.status.value == expected["status"]
    found = {
        "status": estimate.status.value,
        "parameters": {key: estimate.body["parameters"][key] for key in ("total", "embedding", "head", "active")},
        "lora": estimate.body["lora"],
        "kv_cache_bytes": estimate.body["memory"]["kv_cache_bytes"],
    }
    assert found == expected
