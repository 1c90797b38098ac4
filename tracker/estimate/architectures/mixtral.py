"""Mixtral and its kin: every layer a mixture of a few experts. MiniMax, OLMoE, Phi-3.5-MoE, gpt-oss."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import gqa, layer_types
from tracker.estimate.decoder import (
    HEADS,
    LLAMA,
    LM,
    Decoder,
    alternating,
    decoder,
    heads_of,
)
from tracker.estimate.mixtures import ATTENTION_BIAS, MOE, all_layers, experts, sinks
from tracker.estimate.reader import Config
from tracker.estimate.structure import Dims, Part, block, linear, norm


def _linear_attention(d: Decoder, c: Config) -> Sequence[Part]:
    """MiniMax: lightning attention in most layers, softmax attention in the others."""
    types, total, hidden = layer_types(c), c["num_hidden_layers"], c["hidden_size"]
    full = sum(kind == "full_attention" for kind in types) if types else (total + 1) // 2
    width, heads, dim = heads_of(c) * d.head_dim(c), heads_of(c), d.head_dim(c)
    lightning = block(
        "self_attn",
        linear("qkv_proj", hidden, 3 * width),
        linear("out_proj", width, hidden),
        linear("output_gate", hidden, width),
        norm("norm", width),
        times=total - full,
        kind="LinearAttention",
        # its running state is no part of the cache object, and is left out
        dims=Dims(hidden=hidden, query=width, key=width, heads=heads),
        width=hidden,
    )
    softmax = gqa(hidden, heads, d.kv_heads(c), dim, times=full)
    return [softmax if full else None, lightning if full < total else None]


ARCHITECTURES = (
    decoder(
        "mixtral",
        "Mixtral",
        LLAMA,
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "minimax",
        "MiniMax",
        LLAMA,
        attention=_linear_attention,
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "minimax_m2",
        "MiniMaxM2",
        LLAMA,
        has=LM,
        qk_norm="full",
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "phimoe",
        "Phimoe",
        ATTENTION_BIAS,
        has=HEADS[:2],
        norm="layer",
        head_bias="lm_head_bias",
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size", gate="router", plain_router=True),
        activations=MOE,
    ),
    decoder(
        "olmoe",
        "Olmoe",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="full",
        sparse=all_layers,
        moe=experts(width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "flex_olmo",
        "FlexOlmo",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="full",
        sparse=all_layers,
        moe=experts(width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "gpt_oss",
        "GptOss",
        ATTENTION_BIAS,
        has=HEADS[:3],
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size", gate="router", bias=True),
        layer_extra=sinks,
        sliding=alternating(2),
        activations=MOE,
    ),
)
