"""Reading a config as its class would."""

from __future__ import annotations

import pytest

from tracker.estimate.reader import Config, ConfigError, every, within


def test_aliases_in_either_spelling() -> None:
    assert Config({"model_type": "gpt2", "n_embd": 5})["hidden_size"] == 5
    assert Config({"model_type": "gpt2", "hidden_size": 5})["n_embd"] == 5
    assert Config({"model_type": "qwen3_moe", "num_experts": 7})["num_local_experts"] == 7


def test_class_defaults_stand_in_for_missing_keys() -> None:
    llama = Config({"model_type": "llama"})
    assert llama["hidden_size"] == 4096
    assert llama.flag("attention_bias") is False
    assert llama.maybe("num_key_value_heads") is None  # computed from the heads, never taken from the default
    assert Config({"model_type": "mistral"}).maybe("num_key_value_heads") == 8  # a constant of its class


def test_a_null_is_a_value() -> None:
    with pytest.raises(ConfigError, match="hidden_size is null"):
        Config({"model_type": "llama", "hidden_size": None})["hidden_size"]


def test_an_unknown_type_has_no_defaults() -> None:
    with pytest.raises(ConfigError, match="not given"):
        Config({"model_type": "nobody"})["hidden_size"]


def test_older_keys_win() -> None:
    assert Config({"model_type": "lfm2", "block_ff_dim": 12, "intermediate_size": 24})["intermediate_size"] == 12


def test_nested_configs() -> None:
    whole = Config({"model_type": "llava", "text_config": {"hidden_size": 8}})
    text = whole.sub("text_config")
    assert text.model_type == "llama"
    assert (text["hidden_size"], text["vocab_size"]) == (8, 32000)
    assert whole.sub("vision_config")["image_size"] == 336  # llava's own default, not CLIP's
    with pytest.raises(ConfigError, match=r"text_config\.hidden_size is 'a'"):
        Config({"model_type": "llava", "text_config": {"hidden_size": "a"}}).sub("text_config")["hidden_size"]


def test_labels() -> None:
    assert Config({"model_type": "bert"}).labels() == 2
    assert Config({"model_type": "bart"}).labels() == 3
    assert Config({"model_type": "bert", "id2label": {"0": "a"}}).labels() == 1
    assert Config({"model_type": "bert", "num_labels": 9}).labels() == 9


@pytest.mark.parametrize(("total", "step", "offset"), [(10, 3, 0), (10, 3, 2), (0, 3, 1), (7, 7, 6), (5, 9, 4)])
def test_layer_patterns_in_closed_form(total: int, step: int, offset: int) -> None:
    assert every(total, step, offset) == sum(i % step == offset for i in range(total))
    assert within([0, 4, 4, -1, True, "x", 99], 5) == {0, 4}
