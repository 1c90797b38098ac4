"""OPT, XGLM and BioGPT: decoders with positions shifted by two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tracker.estimate.blocks import gqa, plain
from tracker.estimate.decoder import (
    Decoder,
    context_of,
    decoder,
    heads_of,
    hidden_by_heads,
)
from tracker.estimate.gpt_parts import CLASSIFIERS, GPT2
from tracker.estimate.model import Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, Part, block, embedding, linear, norm, tied


def _offset_positions(c: Config) -> int:
    """Two rows more: the first two are for padding."""
    return c["max_position_embeddings"] + 2


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


ARCHITECTURES = (
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
)
