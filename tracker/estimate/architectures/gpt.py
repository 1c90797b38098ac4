"""Decoders before Llama: GPT-2 and its line, GPT-J, GPT-NeoX, OPT, BLOOM, Falcon, MPT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tracker.estimate.blocks import gqa, plain
from tracker.estimate.decoder import (
    Decoder,
    attention_layers,
    build,
    context_of,
    decoder,
    heads_of,
    hidden_by_heads,
)
from tracker.estimate.model import Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Cache, Node, Part, block, embedding, linear, norm, tied

CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")


def four_times(c: Config) -> int:
    """The usual inner width."""
    return 4 * c["hidden_size"]


def _inner(c: Config) -> int:
    return c.maybe("n_inner") or 4 * c["hidden_size"]


def _positions(c: Config) -> int:
    return c["max_position_embeddings"]


def _offset_positions(c: Config) -> int:
    """Two rows more: the first two are for padding."""
    return c["max_position_embeddings"] + 2


GPT2 = Decoder(
    prefix="transformer",
    layers="h",
    embed="wte",
    positions=_positions,
    fused_qkv="c_attn",
    out_name="c_proj",
    qkv_bias=True,
    o_bias=True,
    mlp_bias=True,
    norm="layer",
    last_norm="ln_f",
    mlp="plain",
    mlp_names=("c_fc", "c_proj"),
    ffn=_inner,
    kv_heads=heads_of,
    head_dim=hidden_by_heads,
    token_score="classifier",
    activations="gpt2",
    outer="gpt2",
)


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


# --- GPT-Neo, GPT-J, CodeGen ------------------------------------------------------------------------


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


GPTJ = replace(
    GPT2,
    positions=None,
    fused_qkv="",
    out_name="out_proj",
    qkv_bias=False,
    o_bias=False,
    norms=1,
    mlp_names=("fc_in", "fc_out"),
    head_bias=True,
    token_score="",
    activations="phi",
    outer="phi",
)

# --- GPT-NeoX ----------------------------------------------------------------------------------------

NEOX = Decoder(
    prefix="gpt_neox",
    embed="embed_in",
    fused_qkv="query_key_value",
    out_name="dense",
    qkv_bias="attention_bias",
    o_bias="attention_bias",
    mlp_bias=True,
    norm="layer",
    last_norm="final_layer_norm",
    mlp="plain",
    mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
    kv_heads=heads_of,
    head_dim=hidden_by_heads,
    token_score="classifier",
    activations="gpt_neox",
    outer="phi",
)

# --- OPT, XGLM, BioGPT ----------------------------------------------------------------------------------


def _opt(head: str, c: Config) -> Model:
    """OPT: the embedding may be narrower than the layers, with matrices in and out."""
    hidden, total = c["hidden_size"], c["num_hidden_layers"]
    narrow, bias = c.maybe("word_embed_proj_dim") or hidden, c.flag("enable_bias")
    affine, last_norm = c.flag("layer_norm_elementwise_affine"), c.flag("do_layer_norm_before")
    heads = heads_of(c)
    ends = last_norm and not c.flag("_remove_final_layer_norm", default=False)
    decoder_ = block(
        "model.decoder",
        embedding("embed_tokens", c["vocab_size"], narrow),
        embedding("embed_positions", c["max_position_embeddings"] + 2, hidden),
        linear("project_in", narrow, hidden) if narrow != hidden else None,
        linear("project_out", hidden, narrow) if narrow != hidden else None,
        norm("final_layer_norm", hidden, True) if ends and affine else None,
        block(
            "layers.*",
            gqa(
                hidden,
                heads,
                heads,
                hidden // heads,
                q_bias=bias,
                k_bias=bias,
                o_bias=bias,
                out="out_proj",
                times=total,
            ),
            plain(hidden, c["ffn_dim"], bias, name="", times=total),
            norm("norm", hidden, True, times=2 * total) if affine else None,
            kind="Layers",
            width=hidden,
            formula="opt",
        ),
        width=hidden,
    )
    last: Node | None = None
    task: Node | None = None
    is_tied: bool | None = None
    if head == "ForCausalLM":
        is_tied = c.flag("tie_word_embeddings")
        last = (
            tied("lm_head", narrow, c["vocab_size"])
            if is_tied
            else linear("lm_head", narrow, c["vocab_size"], adaptable=False)
        )
    elif head == "ForSequenceClassification":
        last = linear("score", narrow, c.labels(), adaptable=False)
    elif head == "ForQuestionAnswering":
        task = linear("qa_outputs", narrow, 2, True)
    return Model(
        root=block("", decoder_, last, task, kind="Model"),
        hidden=hidden,
        layers=total,
        vocabulary=c["vocab_size"],
        context=context_of(c),
        head=last,
        head_tied=is_tied,
        generates=True,
        outer="opt",
    )


XGLM = Decoder(
    qkv_bias=True,
    o_bias=True,
    mlp_bias=True,
    out_name="out_proj",
    norm="layer",
    last_norm="layer_norm",
    mlp="plain",
    mlp_names=("fc1", "fc2"),
    kv_heads=heads_of,
    head_dim=hidden_by_heads,
    activations="opt",
    outer="opt",
)


def _xglm_cross(d: Decoder, c: Config) -> Sequence[Part]:
    if c.flag("add_cross_attention", default=False):
        raise ConfigError("XGLM with cross-attention is not counted")
    return []


# --- BLOOM, Falcon, MPT, CTRL ------------------------------------------------------------------------------


def _bloom_norm(d: Decoder, c: Config) -> Sequence[Part]:
    return [norm("word_embeddings_layernorm", c["hidden_size"], True)]


BLOOM = replace(
    GPT2,
    embed="word_embeddings",
    positions=None,
    fused_qkv="query_key_value",
    out_name="dense",
    mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
    ffn=four_times,
    extra=_bloom_norm,
    activations="bloom",
)


def _falcon_kv(c: Config) -> int:
    if c.flag("new_decoder_architecture"):
        return c.maybe("num_kv_heads", minimum=1) or heads_of(c)
    return 1 if c.flag("multi_query") else heads_of(c)


def _falcon_attention(d: Decoder, c: Config) -> Sequence[Part]:
    """The new decoder repeats its keys and values for every head before it caches them."""
    parts = attention_layers(d, c)
    if not c.flag("new_decoder_architecture"):
        return parts
    width = heads_of(c) * d.head_dim(c)
    return [replace(part, cache=Cache(elements=2 * width)) for part in parts if part is not None]


def _falcon_inner(c: Config) -> int:
    return c.maybe("ffn_hidden_size") or 4 * c["hidden_size"]


def _falcon_norms(d: Decoder, c: Config) -> Sequence[Part]:
    """One norm for parallel layers; two in the new decoder (unless told one) and for serial layers."""
    new, parallel = c.flag("new_decoder_architecture"), c.flag("parallel_attn")
    count = c.maybe("num_ln_in_parallel_attn")
    if count is None and new:
        count = 2
    each = 2 if count == 2 or not parallel else 1
    return [norm("norm", c["hidden_size"], True, times=each * c["num_hidden_layers"])]


FALCON = replace(
    BLOOM,
    extra=None,
    qkv_bias="bias",
    o_bias="bias",
    mlp_bias="bias",
    kv_heads=_falcon_kv,
    ffn=_falcon_inner,
    norms=0,
    attention=_falcon_attention,
    layer_extra=_falcon_norms,
    activations="falcon",
    outer="phi",
)


MPT = replace(
    GPT2,
    layers="blocks",
    positions=None,
    fused_qkv="Wqkv",
    out_name="out_proj",
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    norm="scale",
    last_norm="norm_f",
    mlp_names=("up_proj", "down_proj"),
    ffn=four_times,  # whatever expansion_ratio says
    activations="gpt_neox",
    outer="gpt2",
)


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
    decoder("gptj", "GPTJ", GPTJ, has=("ForCausalLM", CLASSIFIERS[0], CLASSIFIERS[2])),
    decoder("codegen", "CodeGen", GPTJ, has=("ForCausalLM",), fused_qkv="qkv_proj"),
    decoder("gpt_neox", "GPTNeoX", NEOX, has=("ForCausalLM", *CLASSIFIERS)),
    decoder("bloom", "Bloom", BLOOM, has=("ForCausalLM", *CLASSIFIERS)),
    decoder("falcon", "Falcon", FALCON, has=("ForCausalLM", *CLASSIFIERS)),
    decoder("mpt", "Mpt", MPT, has=("ForCausalLM", *CLASSIFIERS)),
    decoder("ctrl", "CTRL", CTRL, has=CLASSIFIERS[:1], causal="CTRLLMHeadModel", score="classifier"),
    decoder("xglm", "XGLM", XGLM, has=("ForCausalLM",), ffn=lambda c: c["ffn_dim"], extra=_xglm_cross),
    decoder(
        "biogpt",
        "BioGpt",
        XGLM,
        has=("ForCausalLM", *CLASSIFIERS[:2]),
        prefix="biogpt",
        positions=_offset_positions,
        token_score="classifier",
    ),
    replace(
        decoder("opt", "OPT", GPT2, has=()),
        classes={
            "OPTModel": partial(_opt, ""),
            **{
                f"OPT{h}": partial(_opt, h)
                for h in ("ForCausalLM", "ForSequenceClassification", "ForQuestionAnswering")
            },
        },
    ),
)
