"""Files of one revision against each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.model import Json
from tests.tracker.diff.snapshots import read_tree, snapshot_of
from tests.tracker.snapshot.make import safetensors
from tracker.diff.consistency import DIFFER


def found(files: dict[str, Json]) -> list[str]:
    return [change.cls for change in DIFFER.standing(snapshot_of(files))]


def tokenizer(**ids: int) -> Json:
    return {"model": {"type": "BPE", "vocab": ids, "merges": []}, "added_tokens": []}


@pytest.mark.parametrize(
    ("config", "generation", "token", "bad"),
    [
        (2, [2, 7], "end", False),  # more in generation_config is usual
        (2, 2, "end", False),
        (2, None, "end", False),
        (None, [7], "other", False),
        (2, [7], "other", True),  # generation_config leaves out what config stops on
        (2, None, "other", True),  # the tokenizer's eos stops nothing
        (7, [7, 9], "end", True),
        (None, None, "end", False),  # nobody says otherwise
    ],
)
def test_eos(config: int | None, generation: Json, token: str, *, bad: bool) -> None:
    files = {
        "config.json": {"model_type": "unheard-of", "eos_token_id": config},
        "generation_config.json": {"eos_token_id": generation},
        "tokenizer_config.json": {"eos_token": token},
        "tokenizer.json": tokenizer(end=2, other=7),
    }
    assert ("tokens.inconsistent" in found(files)) is bad


def test_token_ids_beyond_the_embedding() -> None:
    files = {"config.json": {"vocab_size": 2}, "tokenizer.json": tokenizer(a=0, b=1)}
    assert found(files) == []
    files["tokenizer.json"] = tokenizer(a=0, b=2)
    assert found(files) == ["tokenizer.vocab_size"]
    # The tensor table knows better than config: rows are padded.
    assert found({**files, "model.safetensors": safetensors({"model.embed_tokens.weight": ("F32", (4, 2))})}) == []


def test_a_list_of_layers_that_names_no_tensor() -> None:
    weights = safetensors({"model.layers.0.mlp.weight": ("F32", (4, 2))})
    settings = {"modules_to_not_convert": ["lm_head", "wrapper.model.layers.0.mlp"]}
    files = {"config.json": {"quantization_config": settings}, "model.safetensors": weights}
    assert found(files) == ["config.quant"]
    settings["modules_to_not_convert"] = ["lm_head", "model.layers.0"]
    assert found(files) == []


@pytest.mark.parametrize(
    ("config", "bad"),
    [
        ({"pad_token_id": -1}, True),
        ({"pad_token_id": 5, "vocab_size": 5}, True),
        ({"pad_token_id": 4, "vocab_size": 5}, False),
        ({"num_attention_heads": 7, "num_key_value_heads": 2}, True),
        ({"text_config": {"rope_scaling": {"low_freq_factor": 1.0, "high_freq_factor": 1.0}}}, True),
        ({"layer_types": ["full_attention"], "num_hidden_layers": 2}, True),
        ({"num_attention_heads": 8, "num_key_value_heads": 0}, False),
    ],
)
def test_known_bad_values(config: Json, *, bad: bool) -> None:
    assert ("config.known_bad" in found({"config.json": config})) is bad


def test_a_disagreement_is_told_when_it_begins_and_when_it_changes() -> None:
    def at(eos: int) -> dict[str, Json]:
        return {"config.json": {"eos_token_id": eos}, "generation_config.json": {"eos_token_id": 2}}

    fine, bad, worse = snapshot_of(at(2)), snapshot_of(at(3)), snapshot_of(at(4))
    [begun] = DIFFER.diff(fine, bad)
    assert begun.before_digest is None
    assert list(DIFFER.diff(bad, bad)) == []
    [other] = DIFFER.diff(bad, worse)
    assert other.before_digest == begun.after_digest
    assert list(DIFFER.diff(worse, fine)) == []
    assert DIFFER.observe(fine, begun.facet) is None


@pytest.mark.corpus
def test_real_repos_raise_few_alarms(corpus: Path) -> None:
    alarms = {
        folder.name: [change.cls for change in changes]
        for folder in sorted((corpus / "corpus" / "configs").iterdir())
        if (changes := list(DIFFER.standing(read_tree(folder))))
    }
    # Llama 4's equal frequency factors and two old configs with pad -1 are really in these files.
    assert set(alarms) <= {
        "meta-llama__Llama-4-Scout-17B-16E-Instruct",
        "rtp-llm__maga_transformer__models__test__testdata__llama__AquilaChat2-7B",
        "rtp-llm__maga_transformer__test__model_test__fake_test__testdata__llama__fake__hf_source",
    }
    assert {cls for classes in alarms.values() for cls in classes} <= {"config.known_bad"}
