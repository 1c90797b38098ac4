"""Every ground-truth row: an estimate called exact equals the class's own count, always."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from storage.model import EstimateStatus
from tracker.estimate.exact import ESTIMATOR

pytestmark = pytest.mark.corpus
# The probe ran 32 tokens and took the indexer's growing keys (128 a token and layer) for a fixed state.
PROBE_ARTEFACTS = {"default/deepseek_v32"}
# Quantized stand-ins for nn.Linear and nn.Embedding, which the reference tallies under neither.
OTHER_MODULES = {"ibert"}


@pytest.fixture(scope="module")
def rows(corpus: Path) -> list[dict[str, Any]]:
    path = corpus / "reference" / "estimators" / "truth.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def estimates(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Any]]:
    # a base-class row keeps the checkpoint's own config: the class to count is the row's
    return [(row, ESTIMATOR.estimate(row["config"] | {"architectures": [row["class"]]})) for row in rows]


def test_nothing_wrong_is_called_exact(estimates: list[tuple[dict[str, Any], Any]]) -> None:
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    wrong = []
    for row, estimate in estimates:
        right = estimate.body["parameters"]["total"] == row["params_total"]
        label = estimate.status.value if right or estimate.status is not EstimateStatus.EXACT else "wrong"
        tally[row["source"]][label] += 1
        if label == "wrong":
            wrong.append((row["name"], row["class"], estimate.body["parameters"]["total"], row["params_total"]))
    for source, counts in sorted(tally.items()):
        print(source, dict(counts))
    assert not wrong


def test_every_popular_checkpoint_is_exact(estimates: list[tuple[dict[str, Any], Any]]) -> None:
    others = [
        (row["name"], row["class"], estimate.status.value, estimate.reason)
        for row, estimate in estimates
        if row["source"] == "handwritten" and estimate.status is not EstimateStatus.EXACT
    ]
    assert not others


def test_at_least_two_fifths_of_all_model_types_are_exact(estimates: list[tuple[dict[str, Any], Any]]) -> None:
    status: dict[str, list[bool]] = defaultdict(list)
    for row, estimate in estimates:
        if row["source"] == "default":
            status[row["model_type"]].append(estimate.status is EstimateStatus.EXACT)
    exact = sum(all(flags) for flags in status.values())
    print(f"{exact} of {len(status)} model types")
    assert exact >= 0.4 * len(status)


def test_embedding_head_and_adapters(estimates: list[tuple[dict[str, Any], Any]]) -> None:
    off = []
    for row, estimate in estimates:
        if estimate.status is not EstimateStatus.EXACT or row["model_type"] in OTHER_MODULES:
            continue
        parameters, lora = estimate.body["parameters"], estimate.body["lora"]
        expected = (row["params_embedding"], row["params_head"], row["lora_r16_params"])
        if (parameters["embedding"], parameters["head"], lora["parameters_linear"]) != expected:
            off.append((row["name"], row["class"]))
        peft = row["lora_r16_params_peft_0_21_2"]
        if isinstance(peft, int) and lora["parameters"] != peft:
            off.append((row["name"], row["class"], "PEFT", lora["parameters"], peft))
        if isinstance(peft, str):  # PEFT refuses
            assert lora["parameters"] is None
    assert not off


def _cache_bytes(kv: Mapping[str, Any], tokens: int, encoder_tokens: int) -> int:
    elements = kv["elems_per_token_full"] * tokens + kv["state_elems_per_sequence"]
    elements += kv["cross_elems_per_encoder_token"] * encoder_tokens
    elements += sum(part["elems_per_token"] * min(int(window), tokens) for window, part in kv["sliding"].items())
    return 2 * int(elements)


def test_the_cache_is_what_the_probe_found(estimates: list[tuple[dict[str, Any], Any]]) -> None:
    seen = 0
    for row, estimate in estimates:
        kv = row["kv"]
        if estimate.status is not EstimateStatus.EXACT or not kv or "elems_per_token_full" not in kv:
            continue
        if row["name"] in PROBE_ARTEFACTS:
            continue
        seen += 1
        tokens = estimate.body["tokens"]["serve"]
        heard = row["config"].get("max_source_positions", 1500) if row["model_type"] == "whisper" else tokens
        expected = _cache_bytes(kv, tokens, heard)
        assert estimate.body["memory"]["kv_cache_bytes"] == expected, (row["name"], row["class"])
    assert seen > 100
