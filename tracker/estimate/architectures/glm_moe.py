"""GLM-4.5 and Solar: sigmoid-routed experts with a shared one."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.decoder import (
    LLAMA,
    LM,
    Decoder,
    attention_layers,
    decoder,
)
from tracker.estimate.mixtures import MOE, after_first, all_layers, experts, times_shared
from tracker.estimate.reader import Config
from tracker.estimate.structure import Part, norm


def _qk_norm(d: Decoder, c: Config) -> Sequence[Part]:
    """GLM-4.5: norms of queries and keys, if the config wants them."""
    dim = d.head_dim(c)
    norms = [norm("q_norm", dim), norm("k_norm", dim)] if c.flag("use_qk_norm") else []
    return attention_layers(d, c, *norms)


ARCHITECTURES = (
    decoder(
        "glm4_moe",
        "Glm4Moe",
        LLAMA,
        has=LM,
        qkv_bias="attention_bias",
        attention=_qk_norm,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="qwen3_moe",
    ),
    decoder(
        "glm4v_moe_text",
        "Glm4vMoeText",
        LLAMA,
        has=(),
        qkv_bias="attention_bias",
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="qwen3_moe",
    ),
    decoder(
        "solar_open",
        "SolarOpen",
        LLAMA,
        has=LM,
        qkv_bias="attention_bias",
        sparse=all_layers,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations=MOE,
    ),
    decoder(
        "sarvam_moe",
        "Glm4Moe",
        LLAMA,
        has=LM,
        qkv_bias="attention_bias",
        attention=_qk_norm,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="qwen3_moe",
    ),
)
