"""DeepSeek-V2 to V3.2 and what follows them: latent attention, many small experts, a shared one."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import gated, layer_types, mla
from tracker.estimate.decoder import (
    HEADS,
    LLAMA,
    LM,
    Decoder,
    decoder,
)
from tracker.estimate.mixtures import after_first, by_type, experts, times_shared
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Part, block, linear, norm
from tracker.estimate.structure import experts as experts_of


def latent(d: Decoder, c: Config) -> Sequence[Part]:
    """Latent attention in every layer."""
    return [mla(c, bias=c.flag("attention_bias", default=False), times=c["num_hidden_layers"])]


def own_indexers(c: Config) -> int:
    """Layers that run an index of their own; the others take over the choice of the layer before (GLM-5.2)."""
    total, types = c["num_hidden_layers"], layer_types(c, "indexer_types")
    if types:
        return sum(kind != "shared" for kind in types)
    pattern = c.value("index_topk_pattern", default=None)
    if pattern is not None:
        raise ConfigError("index_topk_pattern without indexer_types is not counted")
    step, first = c.whole("index_topk_freq", default=1), c.whole("index_skip_topk_offset", default=2)
    return min(total, first) + max(0, total - first) // step


def indexed(d: Decoder, c: Config) -> Sequence[Part]:
    """Latent attention with the small index that picks the tokens to attend to (DeepSeek-V3.2)."""
    hidden, rank = c["hidden_size"], c["q_lora_rank"]
    heads, dim = c["index_n_heads"], c["index_head_dim"]
    index = block(
        "self_attn.indexer",
        linear("wq_b", rank, heads * dim),
        linear("wk", hidden, dim),
        norm("k_norm", dim, True),
        linear("weights_proj", hidden, heads),
        times=own_indexers(c),
    )
    return [mla(c, bias=c.flag("attention_bias", default=False), times=c["num_hidden_layers"]), index]


def _post_mlp_norm(c: Config, n: int) -> Sequence[Part]:
    return [norm("post_mlp_layernorm", c["hidden_size"])]


def _longcat(d: Decoder, c: Config) -> Sequence[Part]:
    """Two latent attentions and two feed-forwards a layer, beside one mixture with empty experts."""
    hidden, total, inner = c["hidden_size"], c["num_layers"], c["ffn_hidden_size"]
    real, empty, k, width = (
        c["n_routed_experts"],
        c.whole("zero_expert_num", minimum=0, default=0),
        c["moe_topk"],
        c["expert_ffn_hidden_size"],
    )
    up = experts_of("experts", real + empty, k, ((hidden, 2 * width),), ranks=(2,))
    down = experts_of("experts", real, k, ((width, hidden),))
    return [
        gated(hidden, inner, c.flag("mlp_bias", default=False), name="mlps", times=2 * total),
        block("mlp", up, down, linear("router.classifier", hidden, real + empty), times=total, kind="MoE"),
    ]


ARCHITECTURES = (
    decoder(
        "deepseek_v2",
        "DeepseekV2",
        LLAMA,
        has=HEADS[:2],
        mlp_bias="mlp_bias",
        attention=latent,
        sparse=after_first,
        moe=experts(
            "n_routed_experts", shared=times_shared("n_shared_experts"), shared_bias=lambda c: c.flag("mlp_bias")
        ),
        activations="deepseek_v3",
    ),
    decoder(
        "deepseek_v3",
        "DeepseekV3",
        LLAMA,
        has=HEADS[:3],
        attention=latent,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="deepseek_v3",
    ),
    decoder(
        "deepseek_v32",
        "DeepseekV32",
        LLAMA,
        has=LM,
        attention=indexed,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="deepseek_v3",
    ),
    decoder(
        "kimi_k2",
        "DeepseekV3",
        LLAMA,
        has=LM,
        attention=latent,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="deepseek_v3",
    ),
    decoder(
        "sarvam_mla",
        "DeepseekV3",
        LLAMA,
        has=LM,
        attention=latent,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="deepseek_v3",
    ),
    decoder(
        "mistral4",
        "Mistral4",
        LLAMA,
        has=HEADS[:3],
        attention=latent,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="deepseek_v3",
    ),
    decoder(
        "axk1",
        "AXK1",
        LLAMA,
        has=HEADS[:3],
        attention=latent,
        sparse=by_type(1),
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts"), extra=_post_mlp_norm),
        activations="deepseek_v3",
    ),
    decoder(
        "glm4_moe_lite",
        "Glm4MoeLite",
        LLAMA,
        has=LM,
        attention=latent,
        sparse=by_type(1),
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="deepseek_v3",
    ),
    decoder(
        "glm_moe_dsa",
        "GlmMoeDsa",
        LLAMA,
        has=LM,
        attention=indexed,
        sparse=after_first,
        moe=experts("n_routed_experts", shared=times_shared("n_shared_experts")),
        activations="deepseek_v3",
    ),
    decoder(
        "longcat_flash",
        "LongcatFlash",
        LLAMA,
        has=LM,
        attention=lambda d, c: [mla(c, bias=c.flag("attention_bias"), times=2 * c["num_layers"])],
        feed_forward=_longcat,
        norms=4,
        layer_count="num_layers",
        activations="deepseek_v3",
    ),
)
