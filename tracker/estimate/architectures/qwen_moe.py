"""Qwen mixtures: experts in every so-many-th layer."""

from __future__ import annotations

from tracker.estimate.decoder import (
    LLAMA,
    decoder,
)
from tracker.estimate.mixtures import ATTENTION_BIAS, MOE, experts
from tracker.estimate.reader import Config, every, within


def stepped(c: Config) -> int:
    """Every ``decoder_sparse_step``-th layer, but those of ``mlp_only_layers``; none without experts."""
    total, step = c["num_hidden_layers"], c.whole("decoder_sparse_step", default=1)
    only = within(c.items("mlp_only_layers", default=None), total)
    if c.whole("num_experts", minimum=0) == 0:
        return 0
    return every(total, step, step - 1) - sum((i + 1) % step == 0 for i in only)


def stepped_local(c: Config) -> int:
    """The same, with experts under another key."""
    total, step = c["num_hidden_layers"], c.whole("decoder_sparse_step", default=1)
    only = within(c.items("mlp_only_layers", default=None), total)
    return every(total, step, step - 1) - sum((i + 1) % step == 0 for i in only)


ARCHITECTURES = (
    decoder(
        "qwen2_moe",
        "Qwen2Moe",
        LLAMA,
        qkv_bias="qkv_bias",
        sparse=stepped,
        moe=experts(shared=lambda c: c["shared_expert_intermediate_size"], shared_gate=True),
        activations=MOE,
    ),
    decoder(
        "qwen3_moe",
        "Qwen3Moe",
        ATTENTION_BIAS,
        qk_norm="head",
        sparse=stepped,
        moe=experts(),
        activations="qwen3_moe",
    ),
    decoder(
        "qwen3_vl_moe_text",
        "Qwen3VLMoeText",
        ATTENTION_BIAS,
        has=(),
        qk_norm="head",
        sparse=stepped_local,
        moe=experts("num_local_experts"),
        activations="qwen3_moe",
    ),
)
