"""Tokenizers: token tables as sets, components, special tokens."""

from __future__ import annotations

from typing import Any

import pytest

from storage.model import Change, Json
from tests.tracker.diff.snapshots import snapshot_of
from tracker.diff.tokenizer import DIFFER

VOCAB = {"a": 0, "b": 1, "ab": 2}


def tokenizer(vocab: Json = None, *, added: dict[str, int] | None = None, **parts: Any) -> Json:
    model = {"type": "BPE", "vocab": VOCAB if vocab is None else vocab, "merges": parts.pop("merges", ["a b"])}
    tokens = [{"id": place, "content": token, "special": True} for token, place in (added or {}).items()]
    return {"added_tokens": tokens, "model": {**model, **parts.pop("model", {})}, **parts}


def diff(before: dict[str, Json], after: dict[str, Json]) -> list[Change]:
    old, new = snapshot_of(before), snapshot_of(after)
    changes = list(DIFFER.diff(old, new))
    for change in changes:
        assert DIFFER.observe(old, change.facet) == change.before_digest
        assert DIFFER.observe(new, change.facet) == change.after_digest
        assert change.before_digest != change.after_digest
    return changes


def classes(before: Json, after: Json) -> list[str]:
    return [change.cls for change in diff({"tokenizer.json": before}, {"tokenizer.json": after})]


def test_two_tokens_swap_ids() -> None:
    [change] = diff({"tokenizer.json": tokenizer()}, {"tokenizer.json": tokenizer({"a": 1, "b": 0, "ab": 2})})
    assert change.cls == "tokenizer.vocab_remap"
    assert change.facts["count"] == 2
    assert (change.before, change.after) == ({"a": 0, "b": 1}, {"a": 1, "b": 0})


def test_tokens_come_and_go() -> None:
    assert classes(tokenizer(), tokenizer({**VOCAB, "c": 3})) == ["tokenizer.tokens_added"]
    assert classes(tokenizer({**VOCAB, "c": 3}), tokenizer()) == ["tokenizer.tokens_removed"]
    assert classes(tokenizer(), tokenizer(added={"<s>": 3})) == ["tokenizer.tokens_added"]


def test_a_quarter_of_a_million_tokens_are_one_change_with_a_hundred_examples() -> None:
    big = {f"t{n}": n for n in range(256_000)}
    shifted = {token: place + 1 for token, place in big.items()}
    [change] = diff({"tokenizer.json": tokenizer(big)}, {"tokenizer.json": tokenizer(shifted)})
    assert change.facts["count"] == 256_000
    assert len(change.facts["examples"]) == 100
    assert change.summary == "256000 tokens with a new id: t0 0 -> 1"


def test_one_token_told_by_four_files_is_one_change() -> None:
    def files(**tokens: int) -> dict[str, Json]:
        decoder = {str(place): {"content": token} for token, place in tokens.items()}
        return {
            "tokenizer.json": tokenizer(added=tokens),
            "vocab.json": VOCAB,
            "added_tokens.json": tokens,
            "tokenizer_config.json": {"added_tokens_decoder": decoder},
        }

    [change] = diff(files(x=3), files(x=3, y=4))
    assert (change.cls, change.path) == ("tokenizer.tokens_added", "tokenizer.json")
    assert change.facts["paths"] == ["tokenizer.json", "added_tokens.json", "tokenizer_config.json"]


def test_only_the_slow_files_differ() -> None:
    fast = {"tokenizer.json": tokenizer()}
    [change] = diff({**fast, "vocab.json": VOCAB}, {**fast, "vocab.json": {"a": 1, "b": 0, "ab": 2}})
    assert (change.cls, change.path) == ("tokenizer.vocab_remap", "vocab.json")


def test_a_file_that_goes_takes_no_token_with_it_that_another_file_has() -> None:
    changes = diff({"tokenizer.json": tokenizer(), "vocab.json": VOCAB}, {"tokenizer.json": tokenizer()})
    assert [(change.cls, change.path) for change in changes] == [("tokenizer.settings", "vocab.json")]


def test_a_tokenizer_that_cannot_be_read_lost_nothing() -> None:
    assert diff({"tokenizer.json": tokenizer()}, {"tokenizer.json": b"{"}) == []


def test_merges() -> None:
    assert classes(tokenizer(merges=["a b", "b a"]), tokenizer(merges=["b a", "a b"])) == ["tokenizer.merges"]
    assert classes(tokenizer(merges=["a b"]), tokenizer(merges=[["a", "b"]])) == []
    changes = diff({"merges.txt": "#version: 0.2\na b\n"}, {"merges.txt": "#version: 0.2\na b\nb a\n"})
    assert (changes[0].cls, changes[0].facts["added"]) == ("tokenizer.merges", 1)


def test_unigram_scores() -> None:
    before = tokenizer([["a", -1.0], ["b", -2.0]], model={"type": "Unigram"})
    after = tokenizer([["a", -1.0], ["b", -2.5]], model={"type": "Unigram"})
    [change] = diff({"tokenizer.json": before}, {"tokenizer.json": after})
    assert (change.cls, change.before, change.after) == ("tokenizer.merges", {"b": -2.0}, {"b": -2.5})


@pytest.mark.parametrize(
    ("part", "cls"),
    [
        ("normalizer", "tokenizer.normalizer"),
        ("pre_tokenizer", "tokenizer.pretokenizer"),
        ("post_processor", "tokenizer.postprocessor"),
        ("decoder", "tokenizer.settings"),
    ],
)
def test_components(part: str, cls: str) -> None:
    assert classes(tokenizer(), {**tokenizer(), part: {"type": "X"}}) == [cls]
    assert classes(tokenizer(), {**tokenizer(), part: None}) == []


def test_model_settings() -> None:
    assert classes(tokenizer(), tokenizer(model={"type": "WordPiece"})) == ["tokenizer.class"]
    assert classes(tokenizer(), tokenizer(model={"byte_fallback": False, "dropout": None})) == []
    assert classes(tokenizer(), tokenizer(model={"byte_fallback": True})) == ["tokenizer.settings"]


@pytest.mark.parametrize(
    ("key", "before", "after", "expected"),
    [
        ("tokenizer_class", "LlamaTokenizer", "TokenizersBackend", ["tokenizer.class"]),
        ("add_bos_token", True, False, ["tokenizer.settings"]),
        ("model_max_length", 4096, 8192, ["tokenizer.settings"]),
        ("eos_token", "</s>", {"content": "<end>"}, ["tokens.eos"]),
        ("eos_token", "</s>", {"content": "</s>"}, []),
        ("pad_token", "<a>", "<b>", ["tokens.special"]),
        ("name_or_path", "a", "b", ["config.other"]),
        ("chat_template", "a", "b", []),
        ("auto_map", {}, {"AutoTokenizer": ["x.Y", None]}, []),
    ],
)
def test_settings(key: str, before: Json, after: Json, expected: list[str]) -> None:
    changes = diff({"tokenizer_config.json": {key: before}}, {"tokenizer_config.json": {key: after}})
    assert [change.cls for change in changes] == expected


def test_a_special_token_told_by_two_files_is_one_change() -> None:
    def files(token: str) -> dict[str, Json]:
        return {"tokenizer_config.json": {"eos_token": token}, "special_tokens_map.json": {"eos_token": token}}

    [change] = diff(files("a"), files("b"))
    assert change.facts["paths"] == ["tokenizer_config.json", "special_tokens_map.json"]


def test_a_special_tokens_map_that_says_nothing_new() -> None:
    config = {"tokenizer_config.json": {"eos_token": "</s>"}}
    changes = diff(config, {**config, "special_tokens_map.json": {"eos_token": "</s>"}})
    assert [change.cls for change in changes] == ["config.other"]


def test_further_special_tokens_under_another_key() -> None:
    before = {"tokenizer_config.json": {"additional_special_tokens": ["<x>"]}}
    [change] = diff(before, {"tokenizer_config.json": {"extra_special_tokens": ["<x>"]}})
    assert change.cls == "config.rename"
    more = diff(before, {"tokenizer_config.json": {"extra_special_tokens": ["<x>", "<y>"]}})
    assert {change.cls for change in more} == {"config.rename", "tokens.special"}


def test_added_tokens_matched_otherwise() -> None:
    before = {"added_tokens_decoder": {"3": {"content": "<x>", "special": False, "lstrip": False}}}
    after = {"added_tokens_decoder": {"3": {"content": "<x>", "special": True, "lstrip": False}}}
    [change] = diff({"tokenizer_config.json": before}, {"tokenizer_config.json": after})
    assert (change.cls, change.facts["special"]) == ("tokens.special", ["<x>"])
