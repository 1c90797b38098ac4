"""Llama 4: one routed expert and a shared one, chunked attention."""

from __future__ import annotations

from tracker.estimate.blocks import layer_types
from tracker.estimate.decoder import (
    LM,
    decoder,
)
from tracker.estimate.mixtures import ATTENTION_BIAS, MOE, experts
from tracker.estimate.reader import Config, every, within


def _llama4_layers(c: Config) -> int:
    listed = c.items("moe_layers", default=None)
    total = c["num_hidden_layers"]
    if listed:
        return len(within(listed, total))
    step = c["interleave_moe_layer_step"]
    return every(total, step, step - 1)


def _llama4_wide(c: Config) -> int:
    return c["intermediate_size_mlp"]


def _llama4_chunked(c: Config) -> int:
    types = layer_types(c)
    if types:
        return sum(kind == "chunked_attention" for kind in types)
    total = c["num_hidden_layers"]
    listed = c.items("no_rope_layers", default=None)
    if listed:
        return sum(bool(item) for item in listed[:total])
    step = c["no_rope_layer_interval"]
    return total - total // step


def _llama4_window(c: Config) -> int | None:
    return c.maybe("attention_chunk_size") or None


ARCHITECTURES = (
    decoder(
        "llama4_text",
        "Llama4",
        ATTENTION_BIAS,
        has=LM,
        base="Llama4TextModel",
        sparse=_llama4_layers,
        ffn=_llama4_wide,
        moe=experts(
            "num_local_experts",
            width="intermediate_size",
            shared=lambda c: c["intermediate_size"],
            gate="router",
            plain_router=True,
        ),
        sliding=_llama4_chunked,
        window=_llama4_window,
        activations=MOE,
    ),
)
