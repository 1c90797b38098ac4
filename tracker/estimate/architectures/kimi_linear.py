"""Kimi Linear: delta attention with latent attention in a few layers."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import gated, mixture, mla, routed, router
from tracker.estimate.decoder import LLAMA, LM, Decoder, decoder
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.recurrent import FULL, counted
from tracker.estimate.structure import Cache, Dims, Node, Part, block, conv, linear, norm, parameter


def kimi_delta(c: Config, times: int) -> Node:
    """Kimi Delta Attention: a decay for every channel, made by low-rank matrices."""
    linear_config = c.raw.get("linear_attn_config")
    if linear_config is not None:
        c = c.sub("linear_attn_config")
        raise ConfigError("linear_attn_config is not counted")
    hidden, heads, dim, kernel = (
        c["hidden_size"],
        c["linear_num_heads"],
        c["linear_head_dim"],
        c["linear_conv_kernel_dim"],
    )
    width = heads * dim
    return block(
        "self_attn",
        *(linear(name, hidden, width) for name in ("q_proj", "k_proj", "v_proj")),
        conv("conv1d", 3 * width, 3 * width, kernel, groups=3 * width, bias=False),
        parameter("forget_gate.dt_bias", width),
        parameter("forget_gate.A_log", heads),
        linear("forget_gate.f_a_proj", hidden, dim),
        linear("forget_gate.f_b_proj", dim, width),
        linear("b_proj", hidden, heads),
        linear("g_a_proj", hidden, dim),
        linear("g_b_proj", dim, width),
        norm("o_norm", dim),
        linear("o_proj", width, hidden),
        times=times,
        kind="LinearAttention",
        cache=Cache(state=3 * width * kernel + heads * dim * dim),
        dims=Dims(hidden=hidden, query=width, key=width, heads=heads),
        width=hidden,
    )


def _kimi_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    total, full = c["num_hidden_layers"], counted(c, "layer_types", FULL)
    if full is None:
        raise ConfigError("layer_types is not given")
    return [mla(c, times=full) if full else None, kimi_delta(c, total - full) if full < total else None]


ARCHITECTURES = (
    decoder(
        "kimi_linear",
        "KimiLinear",
        LLAMA,
        has=LM,
        attention=_kimi_mixers,
        sparse=lambda c: counted(c, "mlp_layer_types", frozenset({"sparse"})) or 0,
        moe=lambda d, c: [
            mixture(
                c["hidden_size"],
                router(c["hidden_size"], c["num_experts"]),
                routed(c["num_experts"], c["num_experts_per_token"], c["hidden_size"], c["moe_intermediate_size"]),
                gated(
                    c["hidden_size"], c["num_shared_experts"] * c["moe_intermediate_size"], name="shared_experts"
                ),
                width=c["moe_intermediate_size"],
                used=c["num_experts_per_token"],
            )
        ],
    ),
)
