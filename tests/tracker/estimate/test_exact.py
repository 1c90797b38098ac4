"""The body of an estimate: what a person can ask for, and what the figures say."""

from __future__ import annotations

from typing import Any

import pytest

from tracker.estimate.cards import catalogue
from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.interface import EstimateOptions
from tracker.estimate.profiles import PROFILES

QWEN: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
}


def body(**options: Any) -> dict[str, Any]:
    return dict(ESTIMATOR.estimate(QWEN, options=EstimateOptions(**options)).body)


def test_the_contract_s_defaults() -> None:
    figures = body()
    assert figures["parameters"]["total"] == 596_049_920
    assert figures["tokens"] == {"train": 2048, "serve": 4096}
    assert figures["memory"]["kv_cache_bytes"] == 114_688 * 4096
    assert figures["memory"]["weights_bytes"] == 2 * 596_049_920
    assert figures["headroom"] == 1.08
    assert figures["layers"] == 28
    assert figures["forward_pass"] is True


def test_options() -> None:
    assert body(seq=128)["tokens"] == {"train": 128, "serve": 128}
    assert body(seq=10**9)["tokens"] == {"train": 40960, "serve": 40960}  # the context is the most there is
    assert body(batch=4)["memory"]["activation_bytes"] > 2 * body()["memory"]["activation_bytes"]
    assert body(precision="int4")["memory"]["weights_bytes"] == 596_049_920 // 2
    pure, mixed = body(precision="bf16-true")["memory"], body()["memory"]
    assert pure["full_finetune_bytes"] < mixed["full_finetune_bytes"]
    assert body(card="H100")["cost"]["card"] == "H100 (80GB)"
    assert body(card="l4 24 gb")["cost"]["card"] == "L4 (24GB)"
    assert body(card="abacus")["cost"]["card"] == "A10G (24GB)"


def test_cards_grow_with_their_memory() -> None:
    cards = body()["cards"]
    assert [card["name"] for card in cards] == [card.name for card in catalogue().fit]
    for key in ("full_finetune_batch", "lora_batch", "serve_batch"):
        batches = [card[key] for card in cards]
        assert batches == sorted(batches)
        assert batches[-1] > 0


def test_the_structure_counts_its_repeats() -> None:
    rows = {row["name"]: row for row in body()["structure"]}
    gate = rows["model.layers.*.mlp.gate_proj"]
    assert gate == {
        "name": "model.layers.*.mlp.gate_proj",
        "type": "Linear",
        "output_shape": "1 x 40960 x 3072",
        "parameters": 1024 * 3072,
        "count": 28,
    }
    assert rows["lm_head"]["parameters"] == 0  # tied: counted at the embedding


def test_an_encoder_has_no_cache_but_serves() -> None:
    config = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    figures = ESTIMATOR.estimate(config).body
    assert figures["memory"]["kv_cache_bytes"] == 0
    assert figures["cards"][0]["serve_batch"] > 0
    assert figures["parameters"]["head"] == 768 * 30522 + 30522


@pytest.mark.parametrize("name", ["exact", "classic"])
def test_profiles_by_name(name: str) -> None:
    assert PROFILES[name].name == name
    assert PROFILES[name].estimate(QWEN).estimator == name


@pytest.mark.parametrize(
    ("model_type", "head", "top", "text", "total"),
    [
        # LLaVA ties where either config says so.
        ("llava", "LlavaForConditionalGeneration", None, None, 7_062_902_784),
        ("llava", "LlavaForConditionalGeneration", None, True, 6_931_830_784),
        ("llava", "LlavaForConditionalGeneration", True, False, 6_931_830_784),
        ("llava", "LlavaForConditionalGeneration", False, False, 7_062_902_784),
        # Video-LLaVA listens to the outer config alone.
        ("video_llava", "VideoLlavaForConditionalGeneration", None, True, 7_365_754_880),
        ("video_llava", "VideoLlavaForConditionalGeneration", True, False, 7_234_682_880),
        # ShieldGemma 2 is tied by its text's default; only a text config that says no unties it.
        ("shieldgemma2", "ShieldGemma2ForImageClassification", None, None, 2_723_312_896),
        ("shieldgemma2", "ShieldGemma2ForImageClassification", False, None, 2_723_312_896),
        ("shieldgemma2", "ShieldGemma2ForImageClassification", None, False, 3_327_440_128),
        ("shieldgemma2", "ShieldGemma2ForImageClassification", True, False, 2_723_312_896),
    ],
)
def test_which_of_two_configs_ties(
    model_type: str, head: str, top: bool | None, text: bool | None, total: int
) -> None:
    config: dict[str, Any] = {"model_type": model_type, "architectures": [head]}
    if top is not None:
        config["tie_word_embeddings"] = top
    if text is not None:
        config["text_config"] = {"tie_word_embeddings": text}
    estimate = ESTIMATOR.estimate(config)
    assert (estimate.status, estimate.body["parameters"]["total"]) == ("exact", total)
