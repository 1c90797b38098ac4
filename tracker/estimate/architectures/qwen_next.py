"""Qwen3-Next and Qwen3.5: gated DeltaNet with a softmax layer in four."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tracker.estimate.blocks import gated, mixture, routed, router
from tracker.estimate.decoder import LM, Decoder, decoder, heads_of
from tracker.estimate.reader import Config, every, within
from tracker.estimate.recurrent import BIASED, full_layers
from tracker.estimate.structure import Cache, Dims, Node, Part, block, conv, linear, norm, parameter


def gated_delta(c: Config, times: int, *, fused: bool) -> Node:
    """Gated DeltaNet (Qwen3-Next): linear attention with a decay and a delta rule."""
    hidden, kernel = c["hidden_size"], c["linear_conv_kernel_dim"]
    keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
    key, value = c["linear_key_head_dim"] * keys, c["linear_value_head_dim"] * values
    wide = 2 * key + value
    inputs = (
        [linear("in_proj_qkvz", hidden, wide + value), linear("in_proj_ba", hidden, 2 * values)]
        if fused
        else [
            linear("in_proj_qkv", hidden, wide),
            linear("in_proj_z", hidden, value),
            linear("in_proj_b", hidden, values),
            linear("in_proj_a", hidden, values),
        ]
    )
    return block(
        "linear_attn",
        parameter("dt_bias", values),
        parameter("A_log", values),
        conv("conv1d", wide, wide, kernel, groups=wide, bias=False),
        *inputs,
        norm("norm", c["linear_value_head_dim"]),
        linear("out_proj", value, hidden),
        times=times,
        kind="LinearAttention",
        cache=Cache(state=wide * kernel + values * c["linear_key_head_dim"] * c["linear_value_head_dim"]),
        dims=Dims(hidden=hidden, query=value, key=key, heads=values),
        width=hidden,
    )


def gated_attention(d: Decoder, c: Config, times: int) -> Node:
    """Qwen3-Next's softmax attention: the query matrix also makes a gate."""
    hidden, heads, dim, kv = c["hidden_size"], heads_of(c), d.head_dim(c), d.kv_heads(c)
    bias = c.flag("attention_bias")
    return block(
        "self_attn",
        linear("q_proj", hidden, 2 * heads * dim, bias),
        linear("k_proj", hidden, kv * dim, bias),
        linear("v_proj", hidden, kv * dim, bias),
        linear("o_proj", heads * dim, hidden, bias),
        norm("q_norm", dim),
        norm("k_norm", dim),
        times=times,
        kind="Attention",
        cache=Cache(elements=2 * kv * dim),
        dims=Dims(hidden=hidden, query=heads * dim, key=kv * dim, heads=heads),
        width=hidden,
    )


def qwen_mixers(fused: bool, d: Decoder, c: Config) -> Sequence[Part]:
    """Three gated DeltaNet layers to one of gated attention."""
    total, full = c["num_hidden_layers"], full_layers(c)
    return [
        gated_attention(d, c, full) if full else None,
        gated_delta(c, total - full, fused=fused) if full < total else None,
    ]


def _qwen_moe(gate: bool) -> Callable[[Decoder, Config], Sequence[Part]]:
    def make(d: Decoder, c: Config) -> Sequence[Part]:
        hidden, n, k = c["hidden_size"], c["num_experts"], c["num_experts_per_tok"]
        inner, beside = c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
        return [
            mixture(
                hidden,
                router(hidden, n),
                routed(n, k, hidden, inner),
                gated(hidden, beside, name="shared_expert"),
                linear("shared_expert_gate", hidden, 1) if gate else None,
                width=inner,
                used=k,
            )
        ]

    return make


def stepped(c: Config) -> int:
    """Every ``decoder_sparse_step``-th layer, but those of ``mlp_only_layers``."""
    total, step = c["num_hidden_layers"], c.whole("decoder_sparse_step", default=1)
    only = within(c.items("mlp_only_layers", default=None), total)
    return every(total, step, step - 1) - sum((i + 1) % step == 0 for i in only)


def all_layers(c: Config) -> int:
    """Every layer."""
    return c["num_hidden_layers"]


ARCHITECTURES = (
    decoder(
        "qwen3_next",
        "Qwen3Next",
        BIASED,
        attention=partial(qwen_mixers, True),
        sparse=stepped,
        moe=_qwen_moe(True),
        activations="qwen3_moe",
    ),
    decoder(
        "qwen3_5_text",
        "Qwen3_5Text",
        BIASED,
        has=("ForCausalLM", "ForSequenceClassification"),
        causal="Qwen3_5ForCausalLM",
        attention=partial(qwen_mixers, False),
        activations="qwen3",
    ),
    decoder(
        "qwen3_5_moe_text",
        "Qwen3_5MoeText",
        BIASED,
        has=LM,
        causal="Qwen3_5MoeForCausalLM",
        attention=partial(qwen_mixers, False),
        sparse=all_layers,
        moe=_qwen_moe(True),
        activations="qwen3_moe",
    ),
)
