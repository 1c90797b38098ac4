"""Tokenizers of two revisions on the same texts: what differs, and what is made to hurt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from storage.model import Change, ProbeOutcome
from tests.tracker.diff.snapshots import snapshot_of
from tracker.probe.process import Allowance
from tracker.probe.render import Prober
from tracker.probe.tokenize import TEXTS, facts, pairs, results, texts_for, told

WORDS = ["[UNK]", "the", "movie", "was", "good", "bad", "a", "x", "y", "[CLS]", "[SEP]", "not", "it"]
PLAIN: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {word: place for place, word in enumerate(WORDS)},
    },
}
FRAME = {
    "type": "BertProcessing",
    "sep": ["[SEP]", 10],
    "cls": ["[CLS]", 9],
}


def changed(**changes: Any) -> dict[str, Any]:
    """The plain tokenizer with other parts; a dict under ``vocab`` gives words other ids."""
    made = deepcopy(PLAIN)
    made["model"]["vocab"].update(changes.pop("vocab", {}))
    return {**made, **changes}


@pytest.fixture(scope="module")
def prober() -> Iterator[Prober]:
    with Prober() as running:
        yield running


def tried(prober: Prober, before: Any, after: Any, **options: Any) -> dict[str, Any]:
    old, new = (snapshot_of({"tokenizer.json": data}) for data in (before, after))
    texts = texts_for(old, new, "tokenizer.json")
    [(path, left, right)] = list(pairs(old, new))
    assert path == "tokenizer.json"
    seen = prober.tokenizers(left, right, texts.values(), **options)
    found = facts(tuple(texts), seen)
    assert found["probes_run"] == len(results(tuple(texts), seen)) >= len(TEXTS)
    return found


def test_swapped_ids_are_seen_in_the_texts_that_use_them(prober: Prober) -> None:
    found = tried(prober, PLAIN, changed(vocab={"good": 5, "bad": 4}))
    assert not found["probes_equal"]
    assert found["first_difference"] == {
        "probe": "tokenize vocabulary 2",
        "text": "bad",
        "before": "5 (bad)",
        "after": "4 (bad)",
    }
    assert found["moved"] == [
        {"token": "good", "before": 4, "after": 5},
        {"token": "bad", "before": 5, "after": 4},
    ]
    assert 0 < found["share"] < 0.2


def test_a_post_processor_shows_only_with_special_tokens(prober: Prober) -> None:
    found = tried(prober, PLAIN, changed(post_processor=FRAME))
    assert found["share"] == 1.0
    assert found["first_difference"]["text"] == ""
    assert (found["first_difference"]["before"], found["first_difference"]["after"]) == (
        " ()",
        "9 10 ([CLS] [SEP])",
    )


def test_a_normalizer_shows_in_the_scripts_it_touches(prober: Prober) -> None:
    found = tried(prober, changed(normalizer=None), PLAIN)
    assert "tokenize english" in found["probes_different"]
    assert "tokenize chinese" not in found["probes_different"]


def test_an_added_token_is_tried_as_text(prober: Prober) -> None:
    extra = {"id": 20, "content": "<tool>", "special": True, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False}  # fmt: skip
    found = tried(prober, PLAIN, changed(added_tokens=[extra]))
    assert found["probes_different"] == ["tokenize added 1"]
    assert found["first_difference"]["text"] == "x <tool> y"


def test_what_encodes_nothing_otherwise_says_so(prober: Prober) -> None:
    found = tried(prober, PLAIN, changed(decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}))
    assert found["probes_equal"]
    assert found["probes_different"] == []
    change = Change(cls="tokenizer.settings", path="tokenizer.json", summary="decoder absent -> WordPiece")
    assert told(change, found).summary.endswith("none of 45 probe texts encodes otherwise")
    assert told(change, found).facts["probes_equal"] is True


def test_a_file_that_cannot_be_loaded_is_a_difference(prober: Prober) -> None:
    found = tried(prober, PLAIN, changed(model={"type": "Nothing"}))
    assert not found["probes_equal"]
    assert set(found["errors"]) == {"after"}
    assert found["first_difference"]["after"].startswith("[")
    change = Change(cls="tokenizer.class", path="tokenizer.json", summary="model")
    assert told(change, found).summary == "model; the new file cannot be loaded"


def growing(times: int) -> dict[str, Any]:
    step = {"type": "Replace", "pattern": {"String": "e"}, "content": "e" * 100}
    return changed(normalizer={"type": "Sequence", "normalizers": [step] * times})


def backtracking() -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": "(?:a+a+)+b"}, "behavior": "Isolated", "invert": False}
    return changed(pre_tokenizer=split)


@pytest.mark.parametrize(
    "hostile",
    [growing(8), growing(3), backtracking(), changed(model={"type": "WordPiece", "vocab": {"a": 2**40}})],
    ids=["memory", "output", "time", "number"],
)
def test_a_tokenizer_made_to_hurt_is_no_equal_and_the_next_is_tried_all_the_same(
    prober: Prober, hostile: dict[str, Any]
) -> None:
    found = tried(prober, PLAIN, hostile, allowance=Allowance(4))
    assert not found["probes_equal"]
    assert found.get("probes_gap") or found.get("errors") or found["probes_different"]
    assert tried(prober, PLAIN, changed(vocab={"good": 5, "bad": 4}))["moved"]


def test_without_time_nothing_is_tried(prober: Prober) -> None:
    found = tried(prober, PLAIN, changed(vocab={"good": 5}), allowance=Allowance(0))
    assert found["probes_gap"] == ["skipped"]
    assert not found["probes_equal"]


@pytest.mark.corpus
def test_a_real_vocabulary_loads_under_the_limits(prober: Prober, corpus: Path) -> None:
    data = json.loads((corpus / "corpus" / "tokenizers" / "llama-3.1" / "tokenizer.json").read_bytes())
    found = tried(prober, data, {**data, "normalizer": {"type": "Lowercase"}}, allowance=Allowance(60))
    assert "tokenize case" in found["probes_different"]
    assert "tokenize chinese" not in found["probes_different"]
    old, new = (snapshot_of({"tokenizer.json": item}) for item in (data, {**data, "normalizer": {"type": "NFC"}}))
    texts = texts_for(old, new, "tokenizer.json")
    seen = prober.tokenizers(data, old.get("tokenizer.json"), texts.values(), allowance=Allowance(60))
    assert {result.outcome for result in results(tuple(texts), seen)} == {ProbeOutcome.EQUAL}
