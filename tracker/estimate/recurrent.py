"""State-space and linear-attention blocks, and the counting of layers by kind."""

from __future__ import annotations

from tracker.estimate.blocks import layer_types
from tracker.estimate.decoder import Decoder
from tracker.estimate.reader import Config
from tracker.estimate.structure import Cache, Dims, Node, Part, block, conv, linear, norm, parameter

FULL = frozenset({"full_attention", "attention"})


def counted(c: Config, key: str, kinds: frozenset[str]) -> int | None:
    """How many layers a list calls one of these kinds; None where there is no list."""
    types = layer_types(c, key)
    return sum(kind in kinds for kind in types) if types else None


def rank_of(c: Config, key: str) -> int:
    """The rank of the time step; ``auto`` is a sixteenth of the hidden size, rounded up."""
    value = c.value(key)
    return -(-c["hidden_size"] // 16) if value == "auto" else c.whole(key)


def mamba1(
    hidden: int,
    inner: int,
    state: int,
    kernel: int,
    rank: int,
    *extra: Part,
    bias: bool = False,
    conv_bias: bool = True,
    times: int = 1,
    name: str = "mixer",
) -> Node:
    """A selective state space (Mamba): in, convolution, data-dependent step, scan, out."""
    return block(
        name,
        parameter("A_log", inner, state),
        parameter("D", inner),
        conv("conv1d", inner, inner, kernel, groups=inner, bias=conv_bias),
        linear("in_proj", hidden, 2 * inner, bias),
        linear("x_proj", inner, rank + 2 * state),
        linear("dt_proj", rank, inner, True),
        linear("out_proj", inner, hidden, bias),
        *extra,
        times=times,
        kind="Mamba",
        cache=Cache(state=inner * (state + kernel)),
        dims=Dims(hidden=hidden, query=inner),
        width=hidden,
    )


def mamba2(
    hidden: int,
    inner: int,
    state: int,
    kernel: int,
    heads: int,
    dim: int,
    groups: int,
    *,
    bias: bool = False,
    out_bias: bool | None = None,
    conv_bias: bool = True,
    gated_norm: bool = True,
    times: int = 1,
    name: str = "mamba",
) -> Node:
    """Mamba 2: the step, B and C come from the way in; heads share one scalar decay each."""
    wide = inner + 2 * groups * state
    return block(
        name,
        parameter("dt_bias", heads),
        parameter("A_log", heads),
        parameter("D", heads),
        conv("conv1d", wide, wide, kernel, groups=wide, bias=conv_bias),
        linear("in_proj", hidden, inner + wide + heads, bias),
        norm("norm", inner) if gated_norm else None,
        linear("out_proj", inner, hidden, bias if out_bias is None else out_bias),
        times=times,
        kind="Mamba",
        cache=Cache(state=wide * kernel + heads * dim * state),
        dims=Dims(hidden=hidden, query=inner, heads=heads),
        width=hidden,
    )


def full_layers(c: Config, key: str = "full_attention_interval", step: int = 4) -> int:
    """Softmax layers: by ``layer_types``, else every fourth."""
    listed = counted(c, "layer_types", FULL)
    if listed is not None:
        return listed
    step = c.maybe(key) or step
    return c["num_hidden_layers"] // step


BIASED = Decoder(qkv_bias="attention_bias", o_bias="attention_bias")
