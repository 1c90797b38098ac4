"""Whatever a config holds: a status with a reason, bounded work, never an exception, never a wrong count."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.model import Estimate, EstimateStatus
from tracker.estimate.classic import ESTIMATOR as CLASSIC
from tracker.estimate.defaults import class_defaults
from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.interface import Estimator
from tracker.estimate.registry import load

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "tie_word_embeddings": False,
}
POISON: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    3,
    10**9,
    10**40,
    -(10**40),
    1 << 20_000,
    float("nan"),
    float("inf"),
    2.5,
    "",
    "64",
    "\ud800",
    [],
    [1, 2],
    [[[]]],
    {},
    {"a": {"b": {}}},
    {"model_type": "llama"},
]


def check(estimate: Estimate) -> None:
    """What always holds: JSON that any reader takes, 64-bit figures, a reason unless exact."""
    text = json.dumps(estimate.body, allow_nan=False)
    assert len(text) < 2_000_000
    assert estimate.status is EstimateStatus.EXACT or estimate.reason
    if estimate.status is not EstimateStatus.UNSUPPORTED:
        assert 0 < estimate.body["parameters"]["total"] < 2**63
        assert all(0 <= value < 2**63 for value in estimate.body["memory"].values())
    else:
        assert estimate.body.get("parameters", {}).get("total") is None


@pytest.mark.parametrize("estimator", [ESTIMATOR, CLASSIC], ids=lambda item: item.name)
@pytest.mark.parametrize("key", [*LLAMA, "head_dim", "rope_scaling", "layer_types", "text_config", "id2label"])
@pytest.mark.parametrize("value", POISON, ids=[f"poison{i}" for i in range(len(POISON))])
def test_one_poisoned_value(estimator: Estimator, key: str, value: Any) -> None:
    check(estimator.estimate({**LLAMA, key: value}))


@pytest.mark.parametrize("value", POISON[:-1], ids=lambda value: type(value).__name__)
def test_no_object_at_all(value: Any) -> None:
    for estimator in (ESTIMATOR, CLASSIC):
        estimate = estimator.estimate(value)
        assert estimate.status is EstimateStatus.UNSUPPORTED
        assert estimate.reason


@pytest.mark.parametrize(
    "key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
)
@pytest.mark.parametrize("value", [None, True, -4, 0, 2.0, "64", [64], float("nan"), 10**13])
def test_a_size_that_is_none_is_unsupported(key: str, value: Any) -> None:
    estimate = ESTIMATOR.estimate({**LLAMA, key: value})
    assert estimate.status is EstimateStatus.UNSUPPORTED
    assert key in (estimate.reason or "")


def test_a_billion_layers_cost_what_one_costs() -> None:
    one = ESTIMATOR.estimate({**LLAMA, "num_hidden_layers": 1})
    many = ESTIMATOR.estimate({**LLAMA, "num_hidden_layers": 10**9})
    assert many.status is EstimateStatus.EXACT
    layer = ESTIMATOR.estimate({**LLAMA, "num_hidden_layers": 2}).body["parameters"]["total"]
    layer -= one.body["parameters"]["total"]
    assert many.body["parameters"]["total"] == one.body["parameters"]["total"] + (10**9 - 1) * layer
    assert len(many.body["structure"]) == len(one.body["structure"])


def test_a_product_past_any_model_is_unsupported() -> None:
    sizes = {"hidden_size": 10**12, "vocab_size": 10**12, "num_hidden_layers": 10**12, "intermediate_size": 10**12}
    estimate = ESTIMATOR.estimate({**LLAMA, **sizes})
    assert estimate.status is EstimateStatus.UNSUPPORTED
    assert estimate.body["parameters"]["total"] is None


def test_unknown_types_and_classes() -> None:
    unknown = ESTIMATOR.estimate({**LLAMA, "model_type": "not-a-model"})
    assert unknown.status is EstimateStatus.UNSUPPORTED
    assert "not-a-model" in (unknown.reason or "")
    odd = ESTIMATOR.estimate({**LLAMA, "architectures": ["LlamaForPoetry"]})
    assert odd.status is EstimateStatus.PARTIAL
    assert "LlamaForPoetry" in (odd.reason or "")
    silent = ESTIMATOR.estimate({key: value for key, value in LLAMA.items() if key != "architectures"})
    assert silent.status is EstimateStatus.PARTIAL


def test_an_alias_that_contradicts_its_key_makes_a_doubt() -> None:
    estimate = ESTIMATOR.estimate(
        {"model_type": "gpt2", "architectures": ["GPT2Model"], "n_embd": 768, "hidden_size": 96}
    )
    assert estimate.status is EstimateStatus.PARTIAL
    assert "alias" in (estimate.reason or "")


def test_configs_ten_deep() -> None:
    config: dict[str, Any] = dict(LLAMA)
    for _ in range(10):
        config = {"model_type": "llava", "architectures": ["LlavaModel"], "text_config": config}
    estimate = ESTIMATOR.estimate(config)
    assert estimate.status is EstimateStatus.UNSUPPORTED


def test_three_megabytes_of_config() -> None:
    junk = {f"key_{i}": "x" * 20 for i in range(60_000)}
    types = ["sliding_attention"] * 200_000
    tracemalloc.start()
    big = ESTIMATOR.estimate(
        {**LLAMA, **junk, "layer_types": types, "num_hidden_layers": len(types), "sliding_window": 8}
    )
    labels = ESTIMATOR.estimate(
        {
            **LLAMA,
            "architectures": ["LlamaForSequenceClassification"],
            "id2label": {str(i): "x" for i in range(100_000)},
        }
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert big.status is EstimateStatus.EXACT
    assert labels.body["parameters"]["head"] == 64 * 100_000
    assert peak < 64_000_000


TYPES = sorted(load())
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 70),
    st.integers(min_value=-(10**20), max_value=10**20),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(0, 9), max_size=4),
    st.dictionaries(st.sampled_from(["model_type", "hidden_size", "depth"]), st.integers(0, 64), max_size=2),
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_mutated_configs_of_every_type(data: st.DataObject) -> None:
    model_type = data.draw(st.sampled_from(TYPES))
    architecture = load()[model_type]
    keys = sorted(class_defaults(model_type).values) or ["hidden_size"]
    changes = data.draw(st.dictionaries(st.sampled_from(keys), JUNK, max_size=4))
    name = data.draw(st.sampled_from(sorted(architecture.classes)))
    check(ESTIMATOR.estimate({"model_type": model_type, "architectures": [name], **changes}))
    CLASSIC.estimate({"model_type": model_type, **changes})


@settings(max_examples=150)
@given(
    config=st.recursive(
        JUNK,
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["model_type", "text_config", "vision_config", "architectures", "hidden_size", "vocab_size"]
            ),
            inner,
            max_size=4,
        ),
        max_leaves=8,
    )
)
def test_any_json_at_all(config: Any) -> None:
    assert ESTIMATOR.estimate(config).status in EstimateStatus
    assert CLASSIC.estimate(config).status in EstimateStatus
