"""Mixtures that keep to no other family: gates, sinks and statistics of their own."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import gqa, layer_types
from tracker.estimate.decoder import (
    LLAMA,
    LM,
    Decoder,
    alternating,
    attention_layers,
    decoder,
    heads_of,
)
from tracker.estimate.mixtures import ATTENTION_BIAS, MOE, after_first, all_layers, by_type, experts, times_shared
from tracker.estimate.reader import Config, ConfigError, every
from tracker.estimate.structure import Part, linear, parameter


def _afmoe(d: Decoder, c: Config) -> Sequence[Part]:
    """A gate on what attention gives out, as wide as the queries."""
    hidden, query = c["hidden_size"], heads_of(c) * d.head_dim(c)
    return attention_layers(d, c, linear("gate_proj", hidden, query))


def _dense_first(c: Config) -> int:
    return max(0, c["num_hidden_layers"] - c.whole("num_dense_layers", minimum=0))


def _expert_bias(c: Config, n: int) -> Sequence[Part]:
    return [parameter("expert_bias", n)]


def _statics(c: Config, n: int) -> Sequence[Part]:
    return [parameter("gate.moe_statics.e_score_correction_bias", n)]


def _correction(c: Config, n: int) -> Sequence[Part]:
    return [parameter("gate.e_score_correction_bias", n)]


def _ernie_layers(c: Config) -> int:
    """Mixtures from ``moe_layer_start_index`` to ``moe_layer_end_index``, every ``moe_layer_interval``-th."""
    total, start = c["num_hidden_layers"], c.whole("moe_layer_start_index", minimum=0)
    end, step = c.value("moe_layer_end_index"), c["moe_layer_interval"]
    if type(end) is not int:
        raise ConfigError("moe_layer_end_index is not a whole number")
    last = total if end == -1 else min(end + 1, total)
    return max(0, every(last, step, step - 1) - every(min(start, last), step, step - 1))


def _mimo(d: Decoder, c: Config) -> Sequence[Part]:
    """MiMo-V2: sliding layers have their own number of key-value heads, and sinks."""
    hidden, heads, dim, value = c["hidden_size"], heads_of(c), c["head_dim"], c["v_head_dim"]
    types = layer_types(c)
    if not types:
        raise ConfigError("layer_types is not given")
    total, window = len(types), c.maybe("sliding_window")
    narrow = sum(kind == "sliding_attention" for kind in types)
    bias, kv = c.flag("attention_bias", default=False), c["num_key_value_heads"]
    both = {"q_bias": bias, "k_bias": bias, "value_dim": value}
    return [
        gqa(hidden, heads, kv, dim, times=total - narrow, **both) if narrow < total else None,  # type: ignore[arg-type]
        gqa(hidden, heads, 2 * kv, dim, parameter("sinks", heads), times=narrow, window=window, **both)  # type: ignore[arg-type]
        if narrow
        else None,
    ]


def _laguna(d: Decoder, c: Config) -> Sequence[Part]:
    """A gate of one scalar a head on what attention gives out; layers may have their own head counts."""
    total, hidden = c["num_hidden_layers"], c["hidden_size"]
    each = c.items("num_attention_heads_per_layer", default=None)
    if each and (len(each) != total or len(set(map(str, each))) > 1):
        raise ConfigError("layers with different numbers of heads are not counted")
    if c.value("gating", default=True) is not True:
        raise ConfigError("a gate of another shape (gating) is not counted")
    return attention_layers(d, c, linear("g_proj", hidden, heads_of(c)))


ARCHITECTURES = (
    decoder(
        "afmoe",
        "Afmoe",
        ATTENTION_BIAS,
        has=LM,
        norms=4,
        qk_norm="head",
        attention=_afmoe,
        sparse=_dense_first,
        moe=experts(
            shared=times_shared("num_shared_experts"), gate="router.gate", plain_router=True, extra=_expert_bias
        ),
        sliding=alternating(4, "global_attn_every_n_layers"),
        activations=MOE,
    ),
    decoder(
        "aria_text",
        "AriaText",
        ATTENTION_BIAS,
        has=LM,
        sparse=all_layers,
        moe=experts(
            "moe_num_experts",
            "moe_topk",
            "intermediate_size",
            shared=times_shared("moe_num_shared_experts", "intermediate_size"),
            shared_bias=lambda c: c.flag("mlp_bias"),
            gate="router",
        ),
        activations=MOE,
    ),
    decoder(
        "cohere2_moe",
        "Cohere2Moe",
        ATTENTION_BIAS,
        has=LM,
        norm="scale",
        norms=1,
        sparse=by_type(0),
        moe=experts(width="intermediate_size", shared=times_shared("num_shared_experts", "intermediate_size")),
        sliding=alternating(4, "sliding_window_pattern"),
        activations=MOE,
    ),
    decoder(
        "ernie4_5_moe",
        "Ernie4_5_Moe",
        Decoder(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
        has=LM,
        sparse=_ernie_layers,
        moe=experts("moe_num_experts", "moe_k", shared=times_shared("moe_num_shared_experts"), extra=_statics),
        activations=MOE,
    ),
    decoder(
        "exaone_moe",
        "ExaoneMoe",
        LLAMA,
        has=LM,
        qk_norm="head",
        sparse=after_first,
        moe=experts(shared=times_shared("num_shared_experts")),
        sliding=alternating(4, "sliding_window_pattern"),
        activations=MOE,
    ),
    decoder(
        "hy_v3",
        "HYV3",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="head",
        mlp_bias="mlp_bias",
        sparse=by_type(1),
        moe=experts(
            shared=lambda c: c["num_shared_experts"] * c["moe_intermediate_size"],
            shared_bias=lambda c: c.flag("mlp_bias"),
        ),
        activations=MOE,
    ),
    decoder(
        "laguna",
        "Laguna",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="head",
        attention=_laguna,
        sparse=by_type(1),
        moe=experts(shared=lambda c: c["shared_expert_intermediate_size"], extra=_correction),
        activations=MOE,
    ),
    decoder(
        "mellum",
        "Mellum",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="head",
        sparse=by_type(0),
        moe=experts("num_local_experts"),
        activations=MOE,
    ),
    decoder(
        "mimo_v2_flash",
        "MiMoV2Flash",
        LLAMA,
        has=LM,
        attention=_mimo,
        sparse=by_type(1),
        moe=experts("n_routed_experts"),
        activations=MOE,
    ),
)
