"""GPT-2 and its line: learned positions, one fused matrix for queries, keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracker.estimate.decoder import (
    Decoder,
    attention_layers,
    build,
    decoder,
    heads_of,
)
from tracker.estimate.gpt_parts import CLASSIFIERS, GPT2, four_times
from tracker.estimate.model import Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Part, block, linear, norm


def _cross(d: Decoder, c: Config) -> Sequence[Part]:
    """Cross-attention of a decoder that reads another encoder."""
    if not c.flag("add_cross_attention", default=False):
        return []
    hidden, total = c["hidden_size"], c["num_hidden_layers"]
    return [
        block(
            "crossattention",
            linear("c_attn", hidden, 2 * hidden, True),
            linear("q_attn", hidden, hidden, True),
            linear("c_proj", hidden, hidden, True),
            norm("ln_cross_attn", hidden, True),
            times=total,
        )
    ]


def _double_heads(c: Config) -> Model:
    """GPT-2's language head with a multiple-choice summary beside it."""
    model = build(replace(GPT2, layer_extra=_cross), "ForCausalLM", c)
    hidden = c["hidden_size"]
    choice = 1 if c.flag("summary_proj_to_labels") else hidden
    summary = linear("multiple_choice_head.summary", hidden, choice, True) if c.flag("summary_use_proj") else None
    return replace(model, root=block("", *model.root.children, summary, kind="Model"))


def _openai_double(c: Config) -> Model:
    model = build(OPENAI, "ForCausalLM", c)
    hidden = c["hidden_size"]
    choice = 1 if c.flag("summary_proj_to_labels") else hidden
    summary = linear("multiple_choice_head.summary", hidden, choice, True) if c.flag("summary_use_proj") else None
    return replace(model, root=block("", *model.root.children, summary, kind="Model"))


OPENAI = replace(GPT2, embed="tokens_embed", last_norm="", ffn=four_times)


def _bigcode_kv(c: Config) -> int:
    """Multi-query attention by a boolean: one key-value head, or as many as heads."""
    return 1 if c.flag("multi_query") else heads_of(c)


def _neo_local(c: Config) -> int:
    """Local layers of GPT-Neo's ``attention_types`` ([[["global", "local"], 12]])."""
    local = count = 0
    for item in c.items("attention_types")[:4096]:
        if not (isinstance(item, list) and len(item) == 2 and isinstance(item[0], list) and type(item[1]) is int):
            raise ConfigError("attention_types is not a list of [kinds, repeats]")
        count += len(item[0]) * item[1]
        local += sum(kind == "local" for kind in item[0]) * item[1]
    if count != c["num_hidden_layers"]:
        raise ConfigError(f"attention_types names {count} layers, num_layers is {c['num_hidden_layers']}")
    return local


def _neo_inner(c: Config) -> int:
    return c.maybe("intermediate_size") or 4 * c["hidden_size"]


def _neo(d: Decoder, c: Config) -> Sequence[Part]:
    _neo_local(c)  # a list that does not fit the layers is refused, as the class does; its cache keeps all tokens
    return attention_layers(d, c)


def _ctrl(d: Decoder, c: Config) -> Sequence[Part]:
    """Square matrices, whatever the heads: sizes that do not divide are not counted."""
    if c["hidden_size"] % heads_of(c):
        raise ConfigError("n_embd does not divide into n_head heads")
    return attention_layers(d, c)


CTRL = replace(
    GPT2,
    embed="w",
    positions=None,
    fused_qkv="",
    out_name="dense",
    attention=_ctrl,
    last_norm="layernorm",
    ffn=lambda c: c["dff"],
    head_bias=True,
)


ARCHITECTURES = (
    decoder(
        "gpt2",
        "GPT2",
        GPT2,
        has=CLASSIFIERS,
        causal="GPT2LMHeadModel",
        classes={"GPT2DoubleHeadsModel": _double_heads},
        layer_extra=_cross,
    ),
    decoder(
        "gpt-sw3",
        "GPT2",
        GPT2,
        has=CLASSIFIERS,
        causal="GPT2LMHeadModel",
        classes={"GPT2DoubleHeadsModel": _double_heads},
        layer_extra=_cross,
    ),
    decoder(
        "openai-gpt",
        "OpenAIGPT",
        OPENAI,
        has=CLASSIFIERS[:1],
        causal="OpenAIGPTLMHeadModel",
        classes={"OpenAIGPTDoubleHeadsModel": _openai_double},
    ),
    decoder(
        "gpt_bigcode",
        "GPTBigCode",
        GPT2,
        has=("ForCausalLM", *CLASSIFIERS[:2]),
        kv_heads=_bigcode_kv,
        layer_extra=_cross,
    ),
    decoder(
        "gpt_neo",
        "GPTNeo",
        GPT2,
        has=("ForCausalLM", *CLASSIFIERS),
        fused_qkv="",
        qkv_bias=False,
        out_name="out_proj",
        ffn=_neo_inner,
        attention=_neo,
    ),
    decoder("ctrl", "CTRL", CTRL, has=CLASSIFIERS[:1], causal="CTRLLMHeadModel", score="classifier"),
)
