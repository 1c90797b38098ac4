"""The reference method reproduces every figure of the reference pages."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from storage.model import EstimateStatus
from tracker.estimate.classic import ESTIMATOR, SHOWN

MODERNBERT = {
    "model_type": "modernbert",
    "vocab_size": 50368,
    "hidden_size": 768,
    "intermediate_size": 1152,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "max_position_embeddings": 8192,
}


def rounded(figure: int) -> str:
    return str((Decimal(figure) / 10**9).quantize(Decimal("0.01")))


@pytest.mark.corpus
def test_every_figure_of_the_reference_pages(corpus: Path) -> None:
    pages = json.loads((corpus / "reference" / "estimators" / "classic-figures.json").read_text("utf-8"))
    for page in pages:
        estimate = ESTIMATOR.estimate(page["config"])
        body = estimate.body
        assert body["tokens"] == {"train": page["training_tokens"], "serve": page["serving_tokens"]}
        assert rounded(body["memory"]["full_finetune_bytes"]) == page["full_finetune_gb"]
        assert rounded(body["memory"]["lora_bytes"]) == page["lora_r16_gb"]
        keys = ("full_finetune_batch", "lora_batch", "serve_batch")
        assert [[card[key] for key in keys] for card in body["cards"]] == [
            [card[key] for key in keys] for card in page["cards"]
        ]
        assert [card["name"] for card in body["cards"]] == [card["card"] for card in page["cards"]]
        assert (
            next(card["name"] for card in body["cards"] if card["full_finetune_batch"])
            == page["smallest_card_full"]
        )
        assert [(row["name"], row["type"]) for row in body["structure"]] == [
            (row["name"], row["type"]) for row in page["structure"]
        ]
        assert len(body["structure"]) == page["nodes"]
        assert body["layers"] == page["nodes"] - 2
        assert [item["rule"] for item in body["findings"]] == page["findings"]
        optional: dict[str, Any] = {
            "derived_parameters": body["parameters"]["total"],
            "weights_gb": rounded(body["memory"]["weights_bytes"]),
            "kv_cache_gb": rounded(body["memory"]["kv_cache_bytes"]),
            "cost_usd": f"{body['cost']['usd']:.2f}",
            "priced_on": body["cost"]["card"],
            "forward_pass": body["forward_pass"],
        }
        for key, value in optional.items():
            assert key not in page or page[key] == value, key


def test_a_real_config_gives_the_same_as_the_reference_one() -> None:
    body = ESTIMATOR.estimate(MODERNBERT).body
    assert body["parameters"]["total"] == 149_081_088
    assert body["structure"][1] == {
        "name": "Embedding",
        "type": "Embedding",
        "output_shape": "1 x 8192 x 768",
        "parameters": 50368 * 768,
    }
    assert body["structure"][0]["output_shape"] == "1 x 8192"
    assert body["cost"] == {"usd": 11.15, "card": "A10G (24GB)", "hours": 10.14}


def test_it_is_never_called_exact() -> None:
    estimate = ESTIMATOR.estimate(MODERNBERT)
    assert estimate.status is EstimateStatus.PARTIAL
    assert ESTIMATOR.estimate({"hidden_size": 5}).status is EstimateStatus.UNSUPPORTED
    assert ESTIMATOR.estimate([1]).status is EstimateStatus.UNSUPPORTED


def test_a_billion_layers_are_counted_not_listed() -> None:
    body = ESTIMATOR.estimate(MODERNBERT | {"num_hidden_layers": 10**9}).body
    assert body["layers"] == 2 + 4 * 10**9
    assert len(body["structure"]) <= SHOWN + 8
