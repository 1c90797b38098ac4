"""Mixture-of-experts decoders: fused experts, a router, sometimes a shared expert beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracker.estimate.blocks import gated, gqa, layer_types, mixture, mla, routed, router, shared_mlp
from tracker.estimate.decoder import (
    HEADS,
    LLAMA,
    LM,
    Decoder,
    Parts,
    Size,
    alternating,
    attention_layers,
    decoder,
    heads_of,
)
from tracker.estimate.reader import Config, ConfigError, every, within
from tracker.estimate.structure import Dims, Part, block, linear, norm, parameter
from tracker.estimate.structure import experts as experts_of

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

    def make(d: Decoder, c: Config) -> Sequence[Part]:
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


def times_shared(count: str, width: str = "moe_intermediate_size") -> Size:
    """A shared expert as wide as ``count`` routed ones."""

    def size(c: Config) -> int:
        return (c.maybe(count, minimum=0) or 0) * c[width]

    return size


def latent(d: Decoder, c: Config) -> Sequence[Part]:
    """Latent attention in every layer."""
    return [mla(c, bias=c.flag("attention_bias", default=False), times=c["num_hidden_layers"])]


def indexed(d: Decoder, c: Config) -> Sequence[Part]:
    """Latent attention with the small index that picks the tokens to attend to (DeepSeek-V3.2)."""
    hidden, rank = c["hidden_size"], c["q_lora_rank"]
    heads, dim = c["index_n_heads"], c["index_head_dim"]
    index = block(
        "indexer",
        linear("wq_b", rank, heads * dim),
        linear("wk", hidden, dim),
        norm("k_norm", dim, True),
        linear("weights_proj", hidden, heads),
    )
    return [mla(c, index, bias=c.flag("attention_bias", default=False), times=c["num_hidden_layers"])]


def _sinks(d: Decoder, c: Config) -> Sequence[Part]:
    return [parameter("self_attn.sinks", c["num_attention_heads"], times=c["num_hidden_layers"])]


def _shared(d: Decoder, c: Config) -> Sequence[Part]:
    return [shared_mlp(c, c["num_hidden_layers"])]


def _sinks_and_shared(d: Decoder, c: Config) -> Sequence[Part]:
    return [*_sinks(d, c), *_shared(d, c)]


def _qk_norm(d: Decoder, c: Config) -> Sequence[Part]:
    """GLM-4.5: norms of queries and keys, if the config wants them."""
    dim = d.head_dim(c)
    norms = [norm("q_norm", dim), norm("k_norm", dim)] if c.flag("use_qk_norm") else []
    return attention_layers(d, c, *norms)


def _afmoe(d: Decoder, c: Config) -> Sequence[Part]:
    """A gate on what attention gives out, as wide as the queries."""
    hidden, query = c["hidden_size"], heads_of(c) * d.head_dim(c)
    return attention_layers(d, c, linear("gate_proj", hidden, query))


def _dense_first(c: Config) -> int:
    return max(0, c["num_hidden_layers"] - c.whole("num_dense_layers", minimum=0))


def _expert_bias(c: Config, n: int) -> Sequence[Part]:
    return [parameter("expert_bias", n)]


def _statics(c: Config, n: int) -> Sequence[Part]:
    return [parameter("gate.moe_statics.e_score_correction_bias", n)]


def _correction(c: Config, n: int) -> Sequence[Part]:
    return [parameter("gate.e_score_correction_bias", n)]


def _post_mlp_norm(c: Config, n: int) -> Sequence[Part]:
    return [norm("post_mlp_layernorm", c["hidden_size"])]


def _ernie_layers(c: Config) -> int:
    """Mixtures from ``moe_layer_start_index`` to ``moe_layer_end_index``, every ``moe_layer_interval``-th."""
    total, start = c["num_hidden_layers"], c.whole("moe_layer_start_index", minimum=0)
    end, step = c.value("moe_layer_end_index"), c["moe_layer_interval"]
    if type(end) is not int:
        raise ConfigError("moe_layer_end_index is not a whole number")
    last = total if end == -1 else min(end + 1, total)
    return max(0, every(last, step, step - 1) - every(min(start, last), step, step - 1))


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


def _mimo(d: Decoder, c: Config) -> Sequence[Part]:
    """MiMo-V2: sliding layers have their own number of key-value heads, and sinks."""
    hidden, heads, dim, value = c["hidden_size"], heads_of(c), c["head_dim"], c["v_head_dim"]
    types = layer_types(c)
    if not types:
        raise ConfigError("layer_types is not given")
    total, window = len(types), c.maybe("sliding_window")
    narrow = sum(kind == "sliding_attention" for kind in types)
    bias, kv = c.flag("attention_bias", default=False), c["num_key_value_heads"]
    both = {"q_bias": bias, "k_bias": bias, "value_dim": value}
    return [
        gqa(hidden, heads, kv, dim, times=total - narrow, **both) if narrow < total else None,  # type: ignore[arg-type]
        gqa(hidden, heads, 2 * kv, dim, parameter("sinks", heads), times=narrow, window=window, **both)  # type: ignore[arg-type]
        if narrow
        else None,
    ]


def _laguna(d: Decoder, c: Config) -> Sequence[Part]:
    """A gate of one scalar a head on what attention gives out; layers may have their own head counts."""
    total, hidden = c["num_hidden_layers"], c["hidden_size"]
    each = c.items("num_attention_heads_per_layer", default=None)
    if each and (len(each) != total or len(set(map(str, each))) > 1):
        raise ConfigError("layers with different numbers of heads are not counted")
    if c.value("gating", default=True) is not True:
        raise ConfigError("a gate of another shape (gating) is not counted")
    return attention_layers(d, c, linear("g_proj", hidden, heads_of(c)))


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


def _linear_attention(d: Decoder, c: Config) -> Sequence[Part]:
    """MiniMax: lightning attention in most layers, softmax attention in the others."""
    types, total, hidden = layer_types(c), c["num_hidden_layers"], c["hidden_size"]
    full = sum(kind == "full_attention" for kind in types) if types else (total + 1) // 2
    width, heads, dim = heads_of(c) * d.head_dim(c), heads_of(c), d.head_dim(c)
    lightning = block(
        "self_attn",
        linear("qkv_proj", hidden, 3 * width),
        linear("out_proj", width, hidden),
        linear("output_gate", hidden, width),
        norm("norm", width),
        times=total - full,
        kind="LinearAttention",
        # its running state is no part of the cache object, and is left out
        dims=Dims(hidden=hidden, query=width, key=width, heads=heads),
        width=hidden,
    )
    softmax = gqa(hidden, heads, d.kv_heads(c), dim, times=full)
    return [softmax if full else None, lightning if full < total else None]


MOE = "mixtral"
ARCHITECTURES = (
    decoder(
        "mixtral",
        "Mixtral",
        LLAMA,
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size"),
        activations=MOE,
    ),
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
        "olmoe",
        "Olmoe",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="full",
        sparse=all_layers,
        moe=experts(width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "flex_olmo",
        "FlexOlmo",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="full",
        sparse=all_layers,
        moe=experts(width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "phimoe",
        "Phimoe",
        ATTENTION_BIAS,
        has=HEADS[:2],
        norm="layer",
        head_bias="lm_head_bias",
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size", gate="router", plain_router=True),
        activations=MOE,
    ),
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
    decoder(
        "gpt_oss",
        "GptOss",
        ATTENTION_BIAS,
        has=HEADS[:3],
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size", gate="router", bias=True),
        layer_extra=_sinks,
        sliding=alternating(2),
        activations=MOE,
    ),
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
    decoder(
        "afmoe",
        "Afmoe",
        ATTENTION_BIAS,
        has=LM,
        norms=4,
        qk_norm="head",
        attention=_afmoe,
        sparse=_dense_first,
        moe=experts(
            shared=times_shared("num_shared_experts"), gate="router.gate", plain_router=True, extra=_expert_bias
        ),
        sliding=alternating(4, "global_attn_every_n_layers"),
        activations=MOE,
    ),
    decoder(
        "aria_text",
        "AriaText",
        ATTENTION_BIAS,
        has=LM,
        sparse=all_layers,
        moe=experts(
            "moe_num_experts",
            "moe_topk",
            "intermediate_size",
            shared=times_shared("moe_num_shared_experts", "intermediate_size"),
            shared_bias=lambda c: c.flag("mlp_bias"),
            gate="router",
        ),
        activations=MOE,
    ),
    decoder(
        "cohere2_moe",
        "Cohere2Moe",
        ATTENTION_BIAS,
        has=LM,
        norm="scale",
        norms=1,
        sparse=by_type(0),
        moe=experts(width="intermediate_size", shared=times_shared("num_shared_experts", "intermediate_size")),
        sliding=alternating(4, "sliding_window_pattern"),
        activations=MOE,
    ),
    decoder(
        "ernie4_5_moe",
        "Ernie4_5_Moe",
        Decoder(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
        has=LM,
        sparse=_ernie_layers,
        moe=experts("moe_num_experts", "moe_k", shared=times_shared("moe_num_shared_experts"), extra=_statics),
        activations=MOE,
    ),
    decoder(
        "exaone_moe",
        "ExaoneMoe",
        LLAMA,
        has=LM,
        qk_norm="head",
        sparse=after_first,
        moe=experts(shared=times_shared("num_shared_experts")),
        sliding=alternating(4, "sliding_window_pattern"),
        activations=MOE,
    ),
    decoder(
        "hy_v3",
        "HYV3",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="head",
        mlp_bias="mlp_bias",
        sparse=by_type(1),
        moe=experts(
            shared=lambda c: c["num_shared_experts"] * c["moe_intermediate_size"],
            shared_bias=lambda c: c.flag("mlp_bias"),
        ),
        activations=MOE,
    ),
    decoder(
        "laguna",
        "Laguna",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="head",
        attention=_laguna,
        sparse=by_type(1),
        moe=experts(shared=lambda c: c["shared_expert_intermediate_size"], extra=_correction),
        activations=MOE,
    ),
    decoder(
        "mellum",
        "Mellum",
        ATTENTION_BIAS,
        has=LM,
        qk_norm="head",
        sparse=by_type(0),
        moe=experts("num_local_experts"),
        activations=MOE,
    ),
    decoder(
        "minimax_m2",
        "MiniMaxM2",
        LLAMA,
        has=LM,
        qk_norm="full",
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "minimax",
        "MiniMax",
        LLAMA,
        attention=_linear_attention,
        sparse=all_layers,
        moe=experts("num_local_experts", width="intermediate_size"),
        activations=MOE,
    ),
    decoder(
        "mimo_v2_flash",
        "MiMoV2Flash",
        LLAMA,
        has=LM,
        attention=_mimo,
        sparse=by_type(1),
        moe=experts("n_routed_experts"),
        activations=MOE,
    ),
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
)
