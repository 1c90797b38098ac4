"""Which layers are mixtures, and what one mixture holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracker.estimate.blocks import gated, layer_types, mixture, routed, router
from tracker.estimate.decoder import (
    Decoder,
    Parts,
    Size,
)
from tracker.estimate.reader import Config
from tracker.estimate.structure import Part, linear, parameter

ATTENTION_BIAS = Decoder(qkv_bias="attention_bias", o_bias="attention_bias")


def experts(
    count: str = "num_experts",
    used: str = "num_experts_per_tok",
    width: str = "moe_intermediate_size",
    *,
    shared: Size | None = None,
    shared_gate: bool = False,
    shared_bias: Callable[[Config], bool] | None = None,
    gate: str = "gate",
    bias: bool = False,
    plain_router: bool = False,
    extra: Callable[[Config, int], Sequence[Part]] | None = None,
) -> Parts:
    """One mixture layer.

    Of the arguments:
        count, used, width: The config keys for experts, experts a token, and their inner width.
        shared: Inner width of the shared expert; 0 for none.
        shared_gate: Whether a scalar gate weighs the shared expert.
        shared_bias: Whether the shared expert has biases.
        gate: The router's name.
        bias: Whether experts and router have biases.
        plain_router: The router is an ``nn.Linear``, which every LoRA adapts.
        extra: More parts, from the config and the number of experts.

    """

    def make(_: Decoder, c: Config) -> Sequence[Part]:
        hidden, n, inner = c["hidden_size"], c[count], c[width]
        k = c.maybe(used, minimum=1) or n
        beside = shared(c) if shared else 0
        return [
            mixture(
                hidden,
                linear(gate, hidden, n, bias) if plain_router else router(hidden, n, gate, bias=bias),
                routed(n, k, hidden, inner, bias=bias),
                gated(hidden, beside, shared_bias(c) if shared_bias else False, name="shared_experts")
                if beside
                else None,
                linear("shared_expert_gate", hidden, 1) if beside and shared_gate else None,
                *(extra(c, n) if extra else ()),
                width=inner,
                used=k,
            )
        ]

    return make


def all_layers(c: Config) -> int:
    """Every layer is a mixture."""
    return c["num_hidden_layers"]


def after_first(c: Config) -> int:
    """All but the first ``first_k_dense_replace``; ``mlp_layer_types`` decides where it is given."""
    types = layer_types(c, "mlp_layer_types")
    if types:
        return sum(kind != "dense" for kind in types)
    return max(0, c["num_hidden_layers"] - c.whole("first_k_dense_replace", minimum=0))


def by_type(dense: int) -> Size:
    """By ``mlp_layer_types``; without it the first ``dense`` layers are dense."""

    def count(c: Config) -> int:
        types = layer_types(c, "mlp_layer_types")
        if types:
            return sum(kind != "dense" for kind in types)
        return max(0, c["num_hidden_layers"] - dense)

    return count


def times_shared(count: str, width: str = "moe_intermediate_size") -> Size:
    """A shared expert as wide as ``count`` routed ones."""

    def size(c: Config) -> int:
        return (c.maybe(count, minimum=0) or 0) * c[width]

    return size


def sinks(_: Decoder, c: Config) -> Sequence[Part]:
    """A learned attention sink a head, in every layer."""
    return [parameter("self_attn.sinks", c["num_attention_heads"], times=c["num_hidden_layers"])]


MOE = "mixtral"
