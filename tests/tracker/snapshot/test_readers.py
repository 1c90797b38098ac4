"""Templates, tokens, code references and class defaults, wherever files keep them."""

from __future__ import annotations

from tests.tracker.diff.snapshots import snapshot_of
from tests.tracker.snapshot.make import gguf
from tracker.snapshot import card, code, config, defaults, template, tokenizer


def test_a_template_file_beats_the_inline_one() -> None:
    files = {"tokenizer_config.json": {"chat_template": "inline"}}
    assert template.templates(snapshot_of(files))["default"].pointer == "/chat_template"
    both = snapshot_of(files | {"chat_template.jinja": "file"})
    assert template.templates(both)["default"].text == "file"
    assert [(item.text, item.effective) for item in template.locations(both)] == [
        ("file", True),
        ("inline", False),
    ]


def test_named_templates_in_every_form() -> None:
    for value in (
        [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}],
        {"default": "a", "tool_use": "b"},
    ):
        found = template.templates(snapshot_of({"tokenizer_config.json": {"chat_template": value}}))
        assert {name: item.text for name, item in found.items()} == {"default": "a", "tool_use": "b"}
    files = {"chat_template.jinja": "a", "additional_chat_templates/rag.jinja": "c"}
    found = template.templates(snapshot_of(files))
    assert {name: item.text for name, item in found.items()} == {"default": "a", "rag": "c"}


def test_processor_sub_folder_loose_and_gguf_templates() -> None:
    snapshot = snapshot_of(
        {
            "chat_template.json": {"chat_template": "p"},
            "tokenizer/tokenizer_config.json": {"chat_template": "t"},
            "examples/tools.jinja": "loose",
            "q.gguf": gguf({"tokenizer.chat_template": "g"}),
        }
    )
    assert {name: item.text for name, item in template.templates(snapshot).items()} == {
        "processor": "p",
        "tokenizer/default": "t",
        "examples/tools.jinja": "loose",
        "gguf:q.gguf": "g",
    }


def test_odd_templates_are_no_templates() -> None:
    for value in (None, 3, [1, {"name": 2, "template": 3}], {"a": 1}):
        assert template.templates(snapshot_of({"tokenizer_config.json": {"chat_template": value}})) == {}


def test_special_tokens_over_all_files() -> None:
    snapshot = snapshot_of(
        {
            "tokenizer_config.json": {
                "eos_token": {"content": "<end>"},
                "pad_token": None,
                "added_tokens_decoder": {"7": {"content": "<end>"}, "x": {"content": "no"}},
            },
            "special_tokens_map.json": {"eos_token": "<old>", "bos_token": "<s>"},
            "config.json": {"eos_token_id": 2, "text_config": {"eos_token_id": [3, 4]}},
            "generation_config.json": {"eos_token_id": [2, 7], "pad_token_id": True},
            "tokenizer.json": {"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 7, "content": "<end>"}]},
        }
    )
    assert tokenizer.special_tokens(snapshot) == {"eos": "<end>", "bos": "<s>"}
    ids = {(item.path, item.pointer): item.ids for item in tokenizer.statements(snapshot) if item.ids}
    assert ids == {
        ("generation_config.json", "/eos_token_id"): (2, 7),
        ("config.json", "/eos_token_id"): (2,),
        ("config.json", "/text_config/eos_token_id"): (3, 4),
    }
    assert tokenizer.token_ids(snapshot) == {"a": 0, "<end>": 7}


def test_vocabularies_and_merges_in_every_form() -> None:
    assert tokenizer.vocabulary("a\r\nb\n") == {"a": 0, "b": 1}
    assert tokenizer.vocabulary({"a": 5, "b": "x", "c": True}) == {"a": 5}
    assert tokenizer.vocabulary({"model": {"vocab": [["a", -1.0], 3, ["b", 0.0], ["a", 1]]}}) == {"a": 0, "b": 2}
    assert tokenizer.vocabulary([1]) == {}
    assert tokenizer.merges("#version: 0.2\na b\n\n") == ["a b"]
    assert tokenizer.merges({"model": {"merges": ["a b", ["c", "d"], [1], 2]}}) == ["a b", "c d"]


def test_auto_maps_at_any_depth_and_other_repos() -> None:
    snapshot = snapshot_of(
        {
            "config.json": {
                "vision_config": [{"auto_map": {"AutoModel": "them/code--net.Net", "A": ["x.Y", None]}}]
            },
            "tokenizer_config.json": {"auto_map": {}},
            "vocab.json": {"auto_map": 3},
        }
    )
    (found,) = code.auto_maps(snapshot)
    assert (found.path, found.pointer) == ("config.json", "/vision_config/0/auto_map")
    assert found.references == (("AutoModel", "them/code--net.Net"), ("A", "x.Y"))
    assert found.repos == ("them/code",)


def test_sources_that_cannot_be_parsed_have_no_tree() -> None:
    for text in ("def (", "\0", "(" * 100_000, "-" * 50_000 + "1", "x" + ".a" * 200_000, "a" * 600_000):
        assert code.parse_source(text) is None or len(text) < 300_000


def test_cards() -> None:
    assert card.parse_card("no front matter")[0] == {"metadata": {}, "body": "no front matter"}
    assert card.parse_card("---\n- a\n---\nx") == ({"metadata": {}, "body": "x"}, ["front matter is no object"])
    snapshot = snapshot_of({"README.md": "---\nbase_model: [a/b, c, a/b]\ntags: [feature-extraction]\n---\n"})
    assert card.base_models(snapshot) == ("a/b",)
    assert card.is_embedding_model(snapshot)


def test_class_defaults_and_aliases() -> None:
    assert defaults.defaults_of("gpt2")["n_embd"] == 768
    assert defaults.effective({"model_type": "gpt2"}, "hidden_size") == 768
    assert defaults.effective({"model_type": "gpt2", "hidden_size": 5}, "n_embd") == 5
    assert defaults.effective({"torch_dtype": "float16"}, "dtype") == "float16"
    assert defaults.effective({"model_type": "nobody-knows"}, "x", 3) == 3
    assert defaults.effective([], "x") is None
    assert defaults.is_default("llama", "attention_bias", False)
    assert not defaults.is_default("llama", "attention_bias", 0)
    assert defaults.defaults_of("aimv2")["text_config"]["model_type"] == "aimv2_text_model"
    assert defaults.stored_key("gpt2", "num_hidden_layers") == "n_layer"


def test_rotary_settings_in_one_form() -> None:
    old = {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}
    new = {"model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}}
    assert defaults.rope_of(old) == defaults.rope_of(new)
    assert defaults.effective(new, "rope_theta") == 5e5
    assert defaults.rope_of({"model_type": "llama"}) == {"rope_theta": 10000.0, "rope_type": "default"}
    assert defaults.rope_of({"rope_scaling": "x"}) == {}


def test_config_look_ups() -> None:
    value = {"architectures": ["A", 1], "n": True, "text_config": {"model_type": "t", "inner_config": {}}}
    assert config.architecture(value) == "A"
    assert config.integer(value, "n") is None
    assert [pointer for pointer, _ in config.parts(value)] == ["", "/text_config", "/text_config/inner_config"]
    assert config.language_part(value)[0] == "/text_config"
