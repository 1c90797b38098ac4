"""A repo whose vectors people store: every change of tokenizer or weights says that they no longer compare."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command import Hubwatch
from tests.support.models import llama, weights
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content

CARD = "---\npipeline_tag: sentence-similarity\n---\n# Vectors\n"
RERANKER = "---\npipeline_tag: text-ranking\n---\n# Ranks\n"


def tokenizer(lower: bool) -> str:
    vocab = {"[UNK]": 0, "a": 1, "hello": 2}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": {"type": "Lowercase"} if lower else None,
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
        }
    )


def said(hubwatch: Hubwatch, repo: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for document in hubwatch.json("advisories", repo)["advisories"]:
        found.setdefault(document["database_specific"]["change_class"], []).append(document)
    return found


@pytest.mark.parametrize("card", [CARD, RERANKER])
def test_tokenizer_and_weights_move_the_space(hub: LoopbackHub, hubwatch: Hubwatch, card: str) -> None:
    repo = hub.create("acme/vectors")
    files: dict[str, Content] = {
        "config.json": llama(),
        "tokenizer.json": tokenizer(False),
        "model.safetensors": weights(),
    }
    repo.commit({**files, "README.md": card}, title="Upload")
    by_tokenizer = repo.commit({"tokenizer.json": tokenizer(True)}, title="Lower")
    by_weights = repo.commit({"model.safetensors": weights(salt="new")}, title="Retrained")
    repo.commit({"README.md": card + "More words.\n"}, title="Card")
    assert hubwatch("watch", "add", "acme/vectors").code == 0
    assert hubwatch("poll").code == 0
    found = said(hubwatch, "acme/vectors")
    introduced = {
        document["affected"][0]["ranges"][0]["events"][0]["introduced"]: document
        for document in found["embedding.space_changed"]
    }
    assert set(introduced) == {by_tokenizer, by_weights}
    for document in introduced.values():
        assert "no longer comparable" in document["summary"]
        assert "embed the whole index again" in document["database_specific"]["advice"]
    (normalizer,) = found["tokenizer.normalizer"]
    assert "of 45 probe texts encode otherwise" in normalizer["summary"]
    assert normalizer["database_specific"]["probes"][0]["outcome"] == "different"


def test_a_model_that_makes_no_vectors_says_nothing_of_them(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create("acme/words")
    repo.commit({"config.json": llama(), "tokenizer.json": tokenizer(False), "README.md": "# Words\n"})
    repo.commit({"tokenizer.json": tokenizer(True)})
    assert hubwatch("watch", "add", "acme/words").code == 0
    assert hubwatch("poll").code == 0
    assert "embedding.space_changed" not in said(hubwatch, "acme/words")
