"""Granite mixtures, with and without a shared feed-forward."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import shared_mlp
from tracker.estimate.decoder import (
    LM,
    Decoder,
    decoder,
)
from tracker.estimate.mixtures import ATTENTION_BIAS, MOE, all_layers, experts, sinks
from tracker.estimate.reader import Config
from tracker.estimate.structure import Part


def _shared(d: Decoder, c: Config) -> Sequence[Part]:
    return [shared_mlp(c, c["num_hidden_layers"])]


def _sinks_and_shared(d: Decoder, c: Config) -> Sequence[Part]:
    return [*sinks(d, c), *_shared(d, c)]


ARCHITECTURES = (
    decoder(
        "granitemoe",
        "GraniteMoe",
        ATTENTION_BIAS,
        has=LM,
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size", gate="router"),
        activations=MOE,
    ),
    decoder(
        "granitemoeshared",
        "GraniteMoeShared",
        ATTENTION_BIAS,
        has=LM,
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size", gate="router"),
        layer_extra=_shared,
        activations=MOE,
    ),
    decoder(
        "granitemoe_swa",
        "GraniteMoeSWA",
        ATTENTION_BIAS,
        has=LM,
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size", gate="router"),
        layer_extra=_sinks_and_shared,
        activations=MOE,
    ),
)
