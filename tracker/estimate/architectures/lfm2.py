"""LFM2: gated short convolutions with a few attention layers."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.decoder import LLAMA, LM, Decoder, attention, decoder
from tracker.estimate.reader import Config, within
from tracker.estimate.recurrent import FULL, counted
from tracker.estimate.structure import Cache, Dims, Node, Part, block, conv, linear


def short_conv(c: Config, times: int) -> Node:
    """LFM2's gated short convolution."""
    hidden, kernel, bias = c["hidden_size"], c["conv_L_cache"], c.flag("conv_bias")
    return block(
        "conv",
        conv("conv", hidden, hidden, kernel, groups=hidden, bias=bias),
        linear("in_proj", hidden, 3 * hidden, bias),
        linear("out_proj", hidden, hidden, bias),
        times=times,
        kind="Convolution",
        cache=Cache(state=hidden * kernel),
        dims=Dims(hidden=hidden),
        width=hidden,
    )


def _lfm2_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    total = c["num_hidden_layers"]
    full = counted(c, "layer_types", FULL)
    if full is None:
        listed = c.value("full_attn_idxs", default=None)
        full = total if listed is None else len(within(c.items("full_attn_idxs"), total))
    return [attention(d, c, times=full) if full else None, short_conv(c, total - full) if full < total else None]


def _lfm2_width(c: Config) -> int:
    """Two thirds of the stated width, times a factor, rounded up to a multiple."""
    inner = c["intermediate_size"]
    if c.flag("block_auto_adjust_ff_dim"):
        inner = int(2 * inner / 3)
        if c.value("block_ffn_dim_multiplier") is not None:
            multiple = c["block_multiple_of"]
            inner = int(c.number("block_ffn_dim_multiplier") * inner)
            inner = multiple * -(-inner // multiple)
    return inner


ARCHITECTURES = (
    decoder(
        "lfm2",
        "Lfm2",
        LLAMA,
        has=LM,
        attention=_lfm2_mixers,
        ffn=_lfm2_width,
        mlp_names=("w1", "w3", "w2"),
        qk_norm="head",
        out_name="out_proj",
        last_norm="embedding_norm",
    ),
)
