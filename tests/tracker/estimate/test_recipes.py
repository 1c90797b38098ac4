"""Precisions, optimizers, adapters and packed bases: bytes by hand for a model of known size."""

from __future__ import annotations

from typing import Any

import pytest

from tracker.estimate.exact import ESTIMATOR, build, counted
from tracker.estimate.interface import EstimateOptions
from tracker.estimate.memory import base_bytes
from tracker.estimate.plans import adapter_parameters, in_a_loop, step_of
from tracker.estimate.recipe import OPTIMIZERS, PACKINGS, PRECISIONS, Recipe, recipe_of

LLAMA_3B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
    "head_dim": 128,
}
P = 3_212_749_824
MODEL, _, _ = build(LLAMA_3B, "llama", ["LlamaForCausalLM"])
SUMS = counted(MODEL)
BF16 = PRECISIONS["bf16-no-amp"]


@pytest.mark.parametrize(
    ("precision", "optimizer", "a_parameter"),
    [
        ("bf16", "adamw", 20),  # 4 weights, 4 gradients, 8 moments, 4 in the step
        ("bf16-true", "adamw", 10),
        ("bf16-master", "adamw", 24),  # 2 + 4 weights, 8 moments, 2 + 4 gradients, 4 in the step
        ("fp32", "sgd", 8),
        ("bf16-true", "sgd", 4),
    ],
)
def test_a_short_step_is_decided_by_the_optimizer(precision: str, optimizer: str, a_parameter: float) -> None:
    recipe = Recipe(precision=PRECISIONS[precision], optimizer=OPTIMIZERS[optimizer])
    assert step_of(MODEL, SUMS, "llama", 1, "full", recipe).optimizer == a_parameter * P


def test_other_optimizers_take_less_than_adamw() -> None:
    steps = {
        name: step_of(MODEL, SUMS, "llama", 64, "full", Recipe(precision=BF16, optimizer=item)).optimizer
        for name, item in OPTIMIZERS.items()
    }
    assert steps["sgd"] < steps["adafactor"] < steps["adamw-8bit"] < steps["adamw"]
    assert steps["adamw-in-backward"] < steps["adamw"]


@pytest.mark.parametrize(
    ("targets", "rank", "parameters", "simulated"),
    # simulated allocation of the PEFT benchmark's step on Llama-3.2-3B, batch 4 at 768 tokens
    [
        ({"q_proj", "v_proj"}, 32, 9_175_040, 21.95e9),
        ({"gate_proj", "up_proj", "down_proj"}, 10, 9_461_760, 24.67e9),
    ],
)
def test_adapters_on_some_matrices(targets: set[str], rank: int, parameters: int, simulated: float) -> None:
    recipe = Recipe(precision=BF16, rank=rank, targets=frozenset(targets))
    assert adapter_parameters(MODEL, SUMS, "llama", recipe) == parameters
    assert step_of(MODEL, SUMS, "llama", 768, "lora", recipe).peak(4) == pytest.approx(simulated, rel=0.01)


def test_a_packed_base_keeps_embeddings_in_half_precision() -> None:
    linears = 28 * (2 * 3072 * 3072 + 2 * 3072 * 1024 + 3 * 3072 * 8192)
    assert base_bytes(SUMS, None) == 2 * P
    assert base_bytes(SUMS, PACKINGS["nf4"]) == 0.5625 * linears + 2 * (P - linears)
    sizes = [base_bytes(SUMS, PACKINGS[name]) for name in ("nf4-dq", "nf4", "int8", "gptq-int8")]
    assert sizes == sorted(sizes)


def test_checkpointing_computes_one_layer_again() -> None:
    for method in ("full", "lora", "qlora"):
        plain, light = (
            step_of(MODEL, SUMS, "llama", 2048, method, Recipe(precision=BF16, checkpointing=on))
            for on in (False, True)
        )
        assert light.peak(8) < plain.peak(8)
        assert len(light.moments) == 3


def test_a_loop_under_autocast_adds_copies_of_the_logits() -> None:
    mixed = Recipe()
    step = step_of(MODEL, SUMS, "llama", 2048, "lora", mixed)
    assert in_a_loop(step, MODEL, 2048, mixed).peak(1) - step.peak(1) == 8 * 128256 * 2048
    bare = Recipe(precision=PRECISIONS["bf16-true"])
    assert in_a_loop(step, MODEL, 2048, bare) == step


def test_what_a_card_needs_decides_its_row() -> None:
    options = EstimateOptions(batch=3, seq=1024, optimizer="adamw-8bit", lora_r=64, card="L40S")
    body = ESTIMATOR.estimate(LLAMA_3B, options=options).body
    rows = {card["name"]: card for card in body["cards"]}
    assert "L40S (48GB)" in rows
    for name, gb in (("T4 16 GB", 16), ("L4 24 GB", 24), ("L40S (48GB)", 48), ("H200 141 GB", 141)):
        for use in ("full_finetune", "lora", "qlora"):
            fits = body["needed_on_a_card"][f"{use}_bytes"] <= gb * 1e9
            assert (rows[name][f"{use}_batch"] >= 3) is fits
            assert rows[name]["two_cards"][f"{use}_batch"] >= rows[name][f"{use}_batch"]
    smallest = body["smallest_card"]["lora"]
    assert rows[smallest]["lora_batch"] >= 3
    assert body["lora"]["parameters"] == 4 * 24_313_856  # rank 64


def test_options_nobody_knows_are_the_defaults() -> None:
    asked = EstimateOptions(precision="fp3", optimizer="magic", quantization="?", lora_targets=("all-linear",))
    assert recipe_of(asked) == Recipe(packing=PACKINGS["nf4"])
