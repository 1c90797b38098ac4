"""Jamba: one attention layer in eight, mixtures in every other layer."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import gated, mixture, routed, router
from tracker.estimate.decoder import HEADS, LLAMA, Decoder, attention, decoder
from tracker.estimate.reader import Config, every
from tracker.estimate.recurrent import mamba1, rank_of
from tracker.estimate.structure import Part, norm


def _jamba_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    """One attention layer in ``attn_layer_period``, Mamba with inner norms in the others."""
    total, hidden = c["num_hidden_layers"], c["hidden_size"]
    full = every(total, c["attn_layer_period"], c.whole("attn_layer_offset", minimum=0))
    rank, state = rank_of(c, "mamba_dt_rank"), c["mamba_d_state"]
    norms = [norm("dt_layernorm", rank), norm("b_layernorm", state), norm("c_layernorm", state)]
    mamba = mamba1(
        hidden,
        c["mamba_expand"] * hidden,
        state,
        c["mamba_d_conv"],
        rank,
        *norms,
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
        times=total - full,
        name="mamba",
    )
    return [attention(d, c, times=full) if full else None, mamba if full < total else None]


def _jamba_feed(d: Decoder, c: Config) -> Sequence[Part]:
    total, hidden, inner = c["num_hidden_layers"], c["hidden_size"], c["intermediate_size"]
    n, k = c["num_experts"], c["num_experts_per_tok"]
    sparse = every(total, c["expert_layer_period"], c.whole("expert_layer_offset", minimum=0)) if n > 1 else 0
    mixed = mixture(
        hidden, router(hidden, n, "router"), routed(n, k, hidden, inner), times=sparse, width=inner, used=k
    )
    dense = gated(hidden, inner, name="feed_forward", times=total - sparse)
    return [dense if sparse < total else None, mixed if sparse else None]


ARCHITECTURES = (
    decoder(
        "jamba",
        "Jamba",
        LLAMA,
        has=HEADS[:2],
        attention=_jamba_mixers,
        feed_forward=_jamba_feed,
        last_norm="final_layernorm",
    ),
)
