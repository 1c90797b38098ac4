"""Configs: aliases, defaults, and what each key's change is called."""

from __future__ import annotations

from typing import Any

import pytest

from storage.model import Change, Json
from tests.tracker.diff.snapshots import snapshot_of
from tracker.diff.config import DIFFER

LLAMA: dict[str, Any] = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64}


def diff(before: dict[str, Json], after: dict[str, Json]) -> list[Change]:
    old, new = snapshot_of(before), snapshot_of(after)
    changes = list(DIFFER.diff(old, new))
    for change in changes:
        assert DIFFER.observe(old, change.facet) == change.before_digest
        assert DIFFER.observe(new, change.facet) == change.after_digest
        assert change.before_digest != change.after_digest
    return changes


def config(**after: Json) -> list[Change]:
    return diff({"config.json": LLAMA}, {"config.json": {**LLAMA, **after}})


@pytest.mark.parametrize(
    ("key", "value", "cls"),
    [
        ("rope_theta", 1234.5, "config.rope"),
        ("max_position_embeddings", 99, "config.context"),
        ("layer_types", ["full_attention"], "config.attention_window"),
        ("num_key_value_heads", 3, "config.arch_shape"),
        ("hidden_size", 65, "config.arch_shape"),
        ("model_type", "mistral", "config.rename"),
        ("quantization_config", {"bits": 4}, "config.quant"),
        ("dtype", "float16", "config.dtype"),
        ("eos_token_id", [2, 3], "tokens.eos"),
        ("pad_token_id", 7, "tokens.special"),
        ("temperature", 0.1, "genconfig.sampling"),
        ("something_new", 1, "config.other"),
    ],
)
def test_a_key_has_its_class(key: str, value: Json, cls: str) -> None:
    assert cls in {change.cls for change in config(**{key: value})}


def test_a_renamed_key_is_no_changed_value() -> None:
    [change] = diff(
        {"config.json": {**LLAMA, "torch_dtype": "bfloat16"}}, {"config.json": {**LLAMA, "dtype": "bfloat16"}}
    )
    assert (change.cls, change.before, change.after) == ("config.rename", "/torch_dtype", "/dtype")


def test_rope_settings_that_move_inside_change_nothing_else() -> None:
    before = {**LLAMA, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    after = {**LLAMA, "rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 500000}}
    changes = diff({"config.json": before}, {"config.json": after})
    assert {change.cls for change in changes} == {"config.rename"}
    changed = diff(
        {"config.json": before},
        {"config.json": {**LLAMA, "rope_parameters": {"rope_type": "linear", "factor": 4, "rope_theta": 500000}}},
    )
    [value] = [change for change in changed if change.cls == "config.rope"]
    assert (value.pointer, value.before, value.after) == ("/rope_parameters/factor", 2.0, 4)
    assert value.facet == "config:config.json#/rope_parameters/factor"


@pytest.mark.parametrize(
    ("key", "value"), [("attention_bias", False), ("attention_dropout", 0.0), ("pad_token_id", None)]
)
def test_a_key_set_to_its_class_default_says_so(key: str, value: Json) -> None:
    [change] = config(**{key: value})
    assert change.cls == "config.other"
    assert change.facts["default_equal"] is True
    [removed] = diff({"config.json": {**LLAMA, key: value}}, {"config.json": LLAMA})
    assert removed.facts["default_equal"] is True


def test_a_value_away_from_the_default_is_told_with_the_default() -> None:
    [change] = config(attention_bias=True)
    assert (change.before, change.after, change.facts["default"]) == (None, True, False)
    assert change.summary == "attention_bias absent -> true"


def test_records_of_the_writing_library_are_marked() -> None:
    [change] = config(transformers_version="5.0.0")
    assert change.facts["bookkeeping"] is True


def test_one_eos_id_as_a_list_is_another_type_and_no_other_set() -> None:
    changes = diff(
        {"generation_config.json": {"eos_token_id": 2}}, {"generation_config.json": {"eos_token_id": [2]}}
    )
    assert [change.cls for change in changes] == ["genconfig.type"]
    changes = diff(
        {"generation_config.json": {"eos_token_id": [2, 3]}}, {"generation_config.json": {"eos_token_id": [3, 2]}}
    )
    assert changes == []


def test_a_new_generation_config_is_held_against_what_counted_before() -> None:
    before = {"config.json": {**LLAMA, "eos_token_id": 2}}
    new = {"eos_token_id": 2, "top_p": 1.0, "temperature": 0.5}
    changes = diff(before, {**before, "generation_config.json": new})
    told = {change.pointer: (change.cls, change.facts.get("default_equal", False)) for change in changes}
    assert told == {
        "/eos_token_id": ("config.other", True),
        "/top_p": ("config.other", True),
        "/temperature": ("genconfig.sampling", False),
    }


def test_other_spellings_of_one_value_are_silent() -> None:
    assert diff({"config.json": b'{"a": 1e4, "b": 2}'}, {"config.json": b'{"b": 2.0,\n "a": 10000}'}) == []


def test_files_that_come_and_go() -> None:
    [gone] = diff({"config.json": LLAMA, "quantize_config.json": {"bits": 4}}, {"config.json": LLAMA})
    assert (gone.cls, gone.path, gone.after_digest) == ("config.quant", "quantize_config.json", None)
    [lost] = diff({"config.json": LLAMA}, {})
    assert lost.cls == "config.arch_shape"


def test_a_file_that_cannot_be_read_is_not_gone() -> None:
    assert diff({"config.json": LLAMA}, {"config.json": b"{"}) == []


def test_auto_map_belongs_to_the_code() -> None:
    assert config(auto_map={"AutoModel": "x.Y"}) == []


def test_lists_of_objects_are_looked_into() -> None:
    before = [{"idx": 0, "type": "Transformer"}, {"idx": 1, "type": "Pooling"}]
    after = [{"idx": 0, "type": "Transformer"}, {"idx": 1, "type": "Dense"}]
    [change] = diff({"modules.json": before}, {"modules.json": after})
    assert (change.cls, change.facts["items"]) == ("embedding.pooling", ["/1/type"])


def test_a_flood_of_changes_is_told_as_one() -> None:
    [change] = diff({"config.json": LLAMA}, {"config.json": {**LLAMA, **{f"k{n}": n for n in range(1000)}}})
    assert change.facts["count"] == 1000


def test_nested_configs_have_defaults_of_their_own() -> None:
    outer = {"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 64}}
    inner = {**outer["text_config"], "attention_bias": False, "rope_theta": 77.0}  # type: ignore[dict-item]
    changes = diff({"config.json": outer}, {"config.json": {**outer, "text_config": inner}})
    assert [(change.cls, change.pointer) for change in changes] == [
        ("config.other", "/text_config/attention_bias"),
        ("config.rope", "/text_config/rope_theta"),
    ]
