"""Mamba 2 beside attention: Bamba, Granite 4, Falcon-H1."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import mixture, routed, router, shared_mlp
from tracker.estimate.decoder import LM, Decoder, attention, decoder
from tracker.estimate.reader import Config, ConfigError, within
from tracker.estimate.recurrent import BIASED, FULL, counted, mamba2
from tracker.estimate.structure import Node, Part


def mamba_block(
    c: Config, times: int, *, inner: int | None = None, gated_norm: bool = True, out_bias: bool | None = None
) -> Node:
    """Mamba 2 under the ``mamba_*`` keys of Bamba and Granite."""
    hidden = c["hidden_size"]
    inner = inner or c["mamba_expand"] * hidden
    heads = c["mamba_n_heads"]
    value = c.value("mamba_d_head")
    dim = inner // heads if value == "auto" or value is None else c["mamba_d_head"]
    if heads * dim != inner:
        raise ConfigError("mamba_n_heads x mamba_d_head is not the inner width")
    return mamba2(
        hidden,
        inner,
        c["mamba_d_state"],
        c["mamba_d_conv"],
        heads,
        dim,
        c["mamba_n_groups"],
        bias=c.flag("mamba_proj_bias"),
        out_bias=out_bias,
        conv_bias=c.flag("mamba_conv_bias"),
        gated_norm=gated_norm,
        times=times,
    )


def _bamba_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    total = c["num_hidden_layers"]
    full = len(within(c.items("attn_layer_indices", default=None), total))
    return [attention(d, c, times=full) if full else None, mamba_block(c, total - full) if full < total else None]


def _granite_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    total = c["num_hidden_layers"]
    full = counted(c, "layer_types", FULL) or 0
    return [attention(d, c, times=full) if full else None, mamba_block(c, total - full) if full < total else None]


def _granite_feed(d: Decoder, c: Config) -> Sequence[Part]:
    total, hidden, inner = c["num_hidden_layers"], c["hidden_size"], c["intermediate_size"]
    n = c.whole("num_local_experts", minimum=0)
    parts = [shared_mlp(c, total)]
    if n:
        k = c["num_experts_per_tok"]
        parts.append(
            mixture(
                hidden,
                router(hidden, n, "router"),
                routed(n, k, hidden, inner),
                times=total,
                name="block_sparse_moe",
                width=inner,
                used=k,
            )
        )
    return parts


def _falcon_h1(d: Decoder, c: Config) -> Sequence[Part]:
    """Attention and Mamba 2 side by side in every layer."""
    total = c["num_hidden_layers"]
    inner = c.maybe("mamba_d_ssm") or c["mamba_expand"] * c["hidden_size"]
    return [
        attention(d, c, times=total),
        mamba_block(
            c, total, inner=inner, gated_norm=c.flag("mamba_rms_norm"), out_bias=c.flag("projectors_bias")
        ),
    ]


ARCHITECTURES = (
    decoder(
        "bamba",
        "Bamba",
        BIASED,
        has=LM,
        mlp_bias="mlp_bias",
        attention=_bamba_mixers,
        last_norm="final_layernorm",
    ),
    decoder(
        "falcon_h1",
        "FalconH1",
        BIASED,
        has=LM,
        mlp_bias="mlp_bias",
        attention=_falcon_h1,
        last_norm="final_layernorm",
    ),
    decoder(
        "granitemoehybrid",
        "GraniteMoeHybrid",
        BIASED,
        has=LM,
        attention=_granite_mixers,
        feed_forward=_granite_feed,
    ),
)
