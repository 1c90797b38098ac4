"""What a copy or conversion may not have otherwise than its base, and what is left to those who train on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tracker.diff.snapshots import snapshot_of
from tests.tracker.snapshot.make import safetensors
from tracker.diff.lineage import Relation, differences, relation_of, shares_weights

CONFIG = {"model_type": "llama", "hidden_size": 8, "eos_token_id": 2, "rope_theta": 1e4}


def card(**front: Any) -> str:
    return "---\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items()) + "---\n"


def keys(base: dict[str, Any], here: dict[str, Any], relation: Relation = Relation.UNSTATED) -> list[str]:
    found = differences(
        snapshot_of({"config.json": CONFIG} | base), snapshot_of({"config.json": CONFIG} | here), relation
    )
    return [item.key for item in found]


@pytest.mark.parametrize(
    ("front", "relation"),
    [
        ({}, Relation.UNSTATED),
        ({"base_model_relation": "quantized"}, Relation.QUANTIZED),
        ({"base_model_relation": "finetune"}, Relation.DERIVED),
        ({"base_model_relation": "adapter"}, Relation.DERIVED),
        ({"tags": ["trl", "sft"]}, Relation.DERIVED),
        ({"datasets": ["a/b"]}, Relation.DERIVED),
        ({"base_model": ["a/b", "c/d"]}, Relation.DERIVED),
    ],
)
def test_what_a_repo_says_it_is(front: dict[str, Any], relation: Relation) -> None:
    assert relation_of(snapshot_of({"README.md": card(**({"base_model": "a/b"} | front))})) is relation


def test_a_quantized_config_says_it_too() -> None:
    here = snapshot_of({"README.md": card(base_model="a/b"), "config.json": {"quantization_config": {"bits": 4}}})
    assert relation_of(here) is Relation.QUANTIZED


def test_special_tokens_and_the_template_are_compared() -> None:
    assert keys({}, {"config.json": CONFIG | {"eos_token_id": [2, 3]}}) == ["eos_token_id"]
    assert keys({}, {"config.json": CONFIG | {"pad_token_id": 0}}) == []
    tokenizer = {"pad_token": "<pad>", "chat_template": "{{ messages }}"}
    other = {"pad_token": "<eos>", "chat_template": "{{ messages }}!"}
    assert keys({"tokenizer_config.json": tokenizer}, {"tokenizer_config.json": other}) == [
        "pad_token",
        "chat_template",
    ]
    assert keys({"tokenizer_config.json": tokenizer}, {}) == []


def test_positions_only_where_it_means_to_be_the_same_model() -> None:
    longer = {"config.json": CONFIG | {"rope_theta": 1e6}}
    assert keys({}, longer) == []
    assert keys({}, longer, Relation.QUANTIZED) == keys({}, longer, Relation.SAME) == ["rope_theta"]


def test_another_shape_or_further_training_is_another_model() -> None:
    assert keys({}, {"config.json": CONFIG | {"hidden_size": 16, "eos_token_id": 9}}) == []
    assert keys({}, {"config.json": CONFIG | {"eos_token_id": 9}}, Relation.DERIVED) == []
    assert keys({"config.json": []}, {}) == []


def test_the_same_weights_are_seen_by_their_hash() -> None:
    base = snapshot_of({"model.safetensors": safetensors({"a": ("F32", (2,))})}).manifest
    assert shares_weights(base, snapshot_of({"w.safetensors": safetensors({"a": ("F32", (2,))})}).manifest)
    assert not shares_weights(base, snapshot_of({"model.safetensors": safetensors({"a": ("F32", (3,))})}).manifest)


@pytest.mark.corpus
def test_a_re_upload_as_it_happened(corpus: Path) -> None:
    folder = corpus / "cases" / "inputs" / "C35"
    base, here = (
        snapshot_of({"config.json": (folder / side / "config.json").read_bytes()}) for side in ("old", "new")
    )
    (found,) = differences(base, here, Relation.UNSTATED)
    assert (found.key, found.base, found.here) == ("eos_token_id", 128001, 128009)
