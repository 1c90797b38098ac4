"""A count that transformers made, as an estimate; the answers here are what the child gives."""

from __future__ import annotations

from typing import Any

import pytest

from storage.model import EstimateStatus
from tracker.estimate.exact import ESTIMATOR
from tracker.estimating import WithTransformers

CONFIG = {"model_type": "nonesuch", "architectures": ["NonesuchModel"]}
COUNT = {
    "class": "NonesuchModel",
    "known": True,
    "transformers": "5.24.0",
    "total": 1000,
    "embedding": 100,
    "head": 0,
    "linear": 64,
    "adapted": 64,
    "expert_parameters": 0,
    "generates": False,
    "components": {"encoder": 1000},
    "structure": [{"name": "encoder.*", "type": "Linear", "parameters": 100, "count": 9}],
}


class Answer:
    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.asked = answer, 0

    def count(self, config: Any) -> dict[str, Any]:
        self.asked += 1
        return self.answer


def test_a_count_is_an_exact_estimate() -> None:
    found = WithTransformers(Answer(COUNT)).estimate(CONFIG)
    assert (found.status, found.source) == (EstimateStatus.EXACT, "transformers")
    assert found.version == f"{ESTIMATOR.version}+transformers-5.24.0"
    assert found.body["parameters"] == {
        "total": 1000,
        "embedding": 100,
        "head": 0,
        "active": 1000,
        "components": {"encoder": 1000},
    }
    assert found.body["lora"] == {"parameters": 64, "parameters_linear": 64}
    assert (found.body["memory"]["weights_bytes"], found.body["memory"]["kv_cache_bytes"]) == (2000, 0)
    assert found.body["memory"]["full_finetune_bytes"] is None
    assert "20,000 bytes" in found.body["findings"][0]["message"]


def test_what_is_not_known_is_null() -> None:
    mixture = (
        WithTransformers(Answer({**COUNT, "expert_parameters": 500, "generates": True})).estimate(CONFIG).body
    )
    assert mixture["parameters"]["active"] is None
    assert mixture["memory"]["kv_cache_bytes"] is None


def test_another_class_is_partial() -> None:
    found = WithTransformers(Answer({**COUNT, "known": False})).estimate(CONFIG)
    assert found.status is EstimateStatus.PARTIAL


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "no such model_type"},
        {"gap": "time"},
        {},
        {**COUNT, "total": -1},
        {**COUNT, "total": "many"},
        {**COUNT, "total": 10**40},
        {**COUNT, "total": True},
    ],
)
def test_no_count_stays_unsupported_with_the_reason(answer: dict[str, Any]) -> None:
    found = WithTransformers(Answer(answer)).estimate(CONFIG)
    assert found.status is EstimateStatus.UNSUPPORTED
    assert "transformers: " in (found.reason or "")


@pytest.mark.parametrize("config", [{"model_type": "bert"}, {"model_type": 5}, {}, [], None])
def test_only_a_type_without_a_closed_form_is_asked_for(config: Any) -> None:
    counter = Answer(COUNT)
    assert WithTransformers(counter).estimate(config).source == "closed_form"
    assert counter.asked == 0
