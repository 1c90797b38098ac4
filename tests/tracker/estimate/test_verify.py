"""The verifier's remarks: what each rule sees, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.verify import config_findings

LLAMA_31: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009],
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
}


def rules(config: dict[str, Any], **kwargs: Any) -> set[str]:
    return {item.rule for item in config_findings(config, **kwargs)}


def test_a_sound_config_draws_no_remark() -> None:
    assert rules(LLAMA_31) == set()
    assert rules(LLAMA_31, tokenizer_size=128256) == set()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"hidden_size": 4097}, "head-dim-divisibility"),
        ({"num_key_value_heads": 64}, "gqa-head-mismatch"),
        ({"num_key_value_heads": 7}, "gqa-head-divisibility"),
        ({"eos_token_id": [128001, 200000]}, "token-id-outside-vocabulary"),
        ({"bos_token_id": -2}, "token-id-outside-vocabulary"),
        ({"attention_dropout": 0.9}, "high-dropout"),
        ({"use_sliding_window": True, "sliding_window": None}, "sliding-window-null"),
        ({"layer_types": ["sliding_attention"] * 32, "sliding_window": None}, "sliding-window-null"),
        (
            {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}},
            "rope-scaling-context",
        ),
        ({"text_vocab_size": 5}, "lm-head-vocab-mismatch"),
        ({"text_config": {"hidden_size": 10, "num_attention_heads": 3}}, "head-dim-divisibility"),
    ],
)
def test_each_rule_sees_its_fault(change: dict[str, Any], rule: str) -> None:
    assert rules(LLAMA_31 | change) == {rule}


def test_a_tokenizer_larger_than_the_embedding() -> None:
    assert rules(LLAMA_31, tokenizer_size=128257) == {"vocabulary-smaller-than-tokenizer"}


def test_every_finding_says_what_to_do() -> None:
    found = config_findings(LLAMA_31 | {"num_key_value_heads": 7, "attention_dropout": 0.9})
    for item in found:
        assert item.level in ("info", "warning", "error")
        assert item.message
        assert item.fix


def test_remarks_on_what_is_built() -> None:
    def built(**change: Any) -> set[str]:
        return {item["rule"] for item in ESTIMATOR.estimate(LLAMA_31 | change).body["findings"]}

    assert built() == {"deep-attention-default-init"}
    assert "full-mha-serving-cost" in built(num_key_value_heads=32)
    assert "kv-cache-context-budget" in built(num_key_value_heads=32)
    assert "swiglu-dim-convention" in built(intermediate_size=4096)
    assert "huge-linear-params" in built(vocab_size=300_000)
    assert "deep-attention-default-init" not in built(num_hidden_layers=7)
    mixture = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}
    assert "moe-no-aux-loss" in {item["rule"] for item in ESTIMATOR.estimate(mixture).body["findings"]}
    told = mixture | {"router_aux_loss_coef": 0.02}
    assert "moe-no-aux-loss" not in {item["rule"] for item in ESTIMATOR.estimate(told).body["findings"]}
