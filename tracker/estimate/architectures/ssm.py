"""State-space and hybrid decoders: Mamba 1 and 2, and their mixtures with attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tracker.estimate.blocks import gated, gqa, layer_types, mixture, mla, routed, router, shared_mlp
from tracker.estimate.decoder import HEADS, LLAMA, LM, Decoder, attention, decoder, heads_of, output_layer
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError, every, within
from tracker.estimate.structure import Cache, Dims, Node, Part, block, conv, embedding, linear, norm, parameter

LINEAR = frozenset({"linear_attention", "mamba", "recurrent", "conv"})
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


# --- pure state-space models ---------------------------------------------------------------------------


def _mamba1_of(c: Config, times: int) -> Node:
    hidden = c["hidden_size"]
    inner = (
        c["expand"] * hidden
        if c.model_type == "mamba" or not c.given("intermediate_size")
        else c["intermediate_size"]
    )
    return mamba1(
        hidden,
        inner,
        c["state_size"],
        c["conv_kernel"],
        rank_of(c, "time_step_rank"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
        times=times,
    )


def _mamba2_of(c: Config, times: int) -> Node:
    hidden = c["hidden_size"]
    inner = int(c.number("expand") * hidden)
    if c["num_heads"] * c["head_dim"] != inner:
        raise ConfigError("num_heads x head_dim is not expand x hidden_size")
    return mamba2(
        hidden,
        inner,
        c["state_size"],
        c["conv_kernel"],
        c["num_heads"],
        c["head_dim"],
        c["n_groups"],
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
        times=times,
        name="mixer",
    )


def _pure(mixer: Callable[[Config, int], Node], causal: bool, c: Config) -> Model:
    hidden, total = c["hidden_size"], c["num_hidden_layers"]
    is_tied = c.flag("tie_word_embeddings") if causal else None
    last = output_layer(c, hidden, bias=False, is_tied=bool(is_tied)) if causal else None
    backbone = block(
        "backbone",
        embedding("embeddings", c["vocab_size"], hidden),
        block(
            "layers.*",
            mixer(c, total),
            norm("norm", hidden, times=total),
            kind="Layers",
            width=hidden,
            formula="mamba",
        ),
        norm("norm_f", hidden),
        width=hidden,
    )
    return Model(
        root=block("", backbone, last, kind="Model"),
        hidden=hidden,
        layers=total,
        vocabulary=c["vocab_size"],
        head=last,
        head_tied=is_tied,
        generates=True,
    )


def _pure_architecture(model_type: str, stem: str, mixer: Callable[[Config, int], Node]) -> Architecture:
    return Architecture(
        model_type=model_type,
        classes={f"{stem}Model": partial(_pure, mixer, False), f"{stem}ForCausalLM": partial(_pure, mixer, True)},
        base=f"{stem}Model",
    )


# --- hybrids ---------------------------------------------------------------------------------------------


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


def mamba_block(
    c: Config, times: int, *, inner: int | None = None, gated_norm: bool = True, out_bias: bool | None = None
) -> Node:
    """Mamba 2 under the ``mamba_*`` keys of Bamba and Granite."""
    hidden = c["hidden_size"]
    inner = inner or c["mamba_expand"] * hidden
    heads = c["mamba_n_heads"]
    value = c.value("mamba_d_head")
    dim = inner // heads if value == "auto" or value is None else c["mamba_d_head"]
    if heads * dim != inner:
        raise ConfigError("mamba_n_heads x mamba_d_head is not the inner width")
    return mamba2(
        hidden,
        inner,
        c["mamba_d_state"],
        c["mamba_d_conv"],
        heads,
        dim,
        c["mamba_n_groups"],
        bias=c.flag("mamba_proj_bias"),
        out_bias=out_bias,
        conv_bias=c.flag("mamba_conv_bias"),
        gated_norm=gated_norm,
        times=times,
    )


def _bamba_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    total = c["num_hidden_layers"]
    full = len(within(c.items("attn_layer_indices", default=None), total))
    return [attention(d, c, times=full) if full else None, mamba_block(c, total - full) if full < total else None]


def _granite_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    total = c["num_hidden_layers"]
    full = counted(c, "layer_types", FULL) or 0
    return [attention(d, c, times=full) if full else None, mamba_block(c, total - full) if full < total else None]


def _granite_feed(d: Decoder, c: Config) -> Sequence[Part]:
    total, hidden, inner = c["num_hidden_layers"], c["hidden_size"], c["intermediate_size"]
    n = c.whole("num_local_experts", minimum=0)
    parts = [shared_mlp(c, total)]
    if n:
        k = c["num_experts_per_tok"]
        parts.append(
            mixture(
                hidden,
                router(hidden, n, "router"),
                routed(n, k, hidden, inner),
                times=total,
                name="block_sparse_moe",
                width=inner,
                used=k,
            )
        )
    return parts


def _falcon_h1(d: Decoder, c: Config) -> Sequence[Part]:
    """Attention and Mamba 2 side by side in every layer."""
    total = c["num_hidden_layers"]
    inner = c.maybe("mamba_d_ssm") or c["mamba_expand"] * c["hidden_size"]
    return [
        attention(d, c, times=total),
        mamba_block(
            c, total, inner=inner, gated_norm=c.flag("mamba_rms_norm"), out_bias=c.flag("projectors_bias")
        ),
    ]


def gated_delta(c: Config, times: int, *, fused: bool) -> Node:
    """Gated DeltaNet (Qwen3-Next): linear attention with a decay and a delta rule."""
    hidden, kernel = c["hidden_size"], c["linear_conv_kernel_dim"]
    keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
    key, value = c["linear_key_head_dim"] * keys, c["linear_value_head_dim"] * values
    wide = 2 * key + value
    inputs = (
        [linear("in_proj_qkvz", hidden, wide + value), linear("in_proj_ba", hidden, 2 * values)]
        if fused
        else [
            linear("in_proj_qkv", hidden, wide),
            linear("in_proj_z", hidden, value),
            linear("in_proj_b", hidden, values),
            linear("in_proj_a", hidden, values),
        ]
    )
    return block(
        "linear_attn",
        parameter("dt_bias", values),
        parameter("A_log", values),
        conv("conv1d", wide, wide, kernel, groups=wide, bias=False),
        *inputs,
        norm("norm", c["linear_value_head_dim"]),
        linear("out_proj", value, hidden),
        times=times,
        kind="LinearAttention",
        cache=Cache(state=wide * kernel + values * c["linear_key_head_dim"] * c["linear_value_head_dim"]),
        dims=Dims(hidden=hidden, query=value, key=key, heads=values),
        width=hidden,
    )


def full_layers(c: Config, key: str = "full_attention_interval", step: int = 4) -> int:
    """Softmax layers: by ``layer_types``, else every fourth."""
    listed = counted(c, "layer_types", FULL)
    if listed is not None:
        return listed
    step = c.maybe(key) or step
    return c["num_hidden_layers"] // step


def gated_attention(d: Decoder, c: Config, times: int) -> Node:
    """Qwen3-Next's softmax attention: the query matrix also makes a gate."""
    hidden, heads, dim, kv = c["hidden_size"], heads_of(c), d.head_dim(c), d.kv_heads(c)
    bias = c.flag("attention_bias")
    return block(
        "self_attn",
        linear("q_proj", hidden, 2 * heads * dim, bias),
        linear("k_proj", hidden, kv * dim, bias),
        linear("v_proj", hidden, kv * dim, bias),
        linear("o_proj", heads * dim, hidden, bias),
        norm("q_norm", dim),
        norm("k_norm", dim),
        times=times,
        kind="Attention",
        cache=Cache(elements=2 * kv * dim),
        dims=Dims(hidden=hidden, query=heads * dim, key=kv * dim, heads=heads),
        width=hidden,
    )


def qwen_mixers(fused: bool, d: Decoder, c: Config) -> Sequence[Part]:
    """Three gated DeltaNet layers to one of gated attention."""
    total, full = c["num_hidden_layers"], full_layers(c)
    return [
        gated_attention(d, c, full) if full else None,
        gated_delta(c, total - full, fused=fused) if full < total else None,
    ]


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


def _nemotron_layers(c: Config) -> Sequence[str]:
    """The kind of each layer, as a list or as a string of letters."""
    pattern = c.raw.get("hybrid_override_pattern")
    kinds = c.items("layers_block_type", default=None)
    if kinds:
        return [{"mamba": "linear_attention", "attention": "full_attention"}.get(str(k), str(k)) for k in kinds]
    if isinstance(pattern, str):
        names = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
        if not set(pattern) <= set(names):
            raise ConfigError("hybrid_override_pattern has a letter that is not known")
        return [names[letter] for letter in pattern]
    return ["linear_attention", "moe", "full_attention", "mlp"]


def _nemotron(head: str, c: Config) -> Model:
    """Nemotron-H: every layer is one mixer under one norm: Mamba 2, attention, feed-forward or mixture."""
    kinds = _nemotron_layers(c)
    known = {"linear_attention", "full_attention", "mlp", "moe"}
    if not set(kinds) <= known:
        raise ConfigError("layers_block_type names a kind that is not known")
    hidden, total = c["hidden_size"], len(kinds)
    heads, kv, dim = heads_of(c), c.maybe("num_key_value_heads", minimum=1) or heads_of(c), c["head_dim"]
    mlp_bias = c.flag("mlp_bias")
    inner = c["mamba_num_heads"] * c["mamba_head_dim"]
    used = {kind: sum(k == kind for k in kinds) for kind in known}
    if c.maybe("moe_latent_size"):
        raise ConfigError("a mixture in a latent space is not counted")
    mixers: list[Part] = [
        mamba2(
            hidden,
            inner,
            c["ssm_state_size"],
            c["conv_kernel"],
            c["mamba_num_heads"],
            c["mamba_head_dim"],
            c["n_groups"],
            bias=c.flag("use_bias"),
            conv_bias=c.flag("use_conv_bias"),
            times=used["linear_attention"],
            name="mixer",
        ),
        gqa(hidden, heads, kv, dim, times=used["full_attention"], name="mixer"),  # whatever attention_bias says
        block(
            "mixer",
            linear("up_proj", hidden, c["intermediate_size"], mlp_bias),
            linear("down_proj", c["intermediate_size"], hidden, mlp_bias),
            times=used["mlp"],
            kind="MLP",
            dims=Dims(hidden=hidden, ffn=c["intermediate_size"]),
        ),
    ]
    if used["moe"]:
        n, k, width, beside = (
            c["n_routed_experts"],
            c["num_experts_per_tok"],
            c["moe_intermediate_size"],
            c["moe_shared_expert_intermediate_size"],
        )
        mixers.append(
            mixture(
                hidden,
                router(hidden, n),
                routed(n, k, hidden, width, is_gated=False),
                linear("shared_experts.up_proj", hidden, beside, mlp_bias),
                linear("shared_experts.down_proj", beside, hidden, mlp_bias),
                times=used["moe"],
                name="mixer",
                width=width,
                used=k,
            )
        )
    is_tied = False if head else None  # the class ties nothing, whatever the config says
    last = output_layer(c, hidden, bias=False, is_tied=False) if head else None
    trunk = block(
        "model",
        embedding("embeddings", c["vocab_size"], hidden),
        block(
            "layers.*", *mixers, norm("norm", hidden, times=total), kind="Layers", width=hidden, formula="llama"
        ),
        norm("norm_f", hidden),
        width=hidden,
    )
    return Model(
        root=block("", trunk, last, kind="Model"),
        hidden=hidden,
        layers=total,
        vocabulary=c["vocab_size"],
        context=c.maybe("max_position_embeddings"),
        head=last,
        head_tied=is_tied,
        generates=True,
    )


BIASED = Decoder(qkv_bias="attention_bias", o_bias="attention_bias")


def _qwen_moe(gate: bool) -> Callable[[Decoder, Config], Sequence[Part]]:
    def make(d: Decoder, c: Config) -> Sequence[Part]:
        hidden, n, k = c["hidden_size"], c["num_experts"], c["num_experts_per_tok"]
        inner, beside = c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
        return [
            mixture(
                hidden,
                router(hidden, n),
                routed(n, k, hidden, inner),
                gated(hidden, beside, name="shared_expert"),
                linear("shared_expert_gate", hidden, 1) if gate else None,
                width=inner,
                used=k,
            )
        ]

    return make


def stepped(c: Config) -> int:
    """Every ``decoder_sparse_step``-th layer, but those of ``mlp_only_layers``."""
    total, step = c["num_hidden_layers"], c.whole("decoder_sparse_step", default=1)
    only = within(c.items("mlp_only_layers", default=None), total)
    return every(total, step, step - 1) - sum((i + 1) % step == 0 for i in only)


def all_layers(c: Config) -> int:
    """Every layer."""
    return c["num_hidden_layers"]


def kimi_delta(c: Config, times: int) -> Node:
    """Kimi Delta Attention: a decay for every channel, made by low-rank matrices."""
    linear_config = c.raw.get("linear_attn_config")
    if linear_config is not None:
        c = c.sub("linear_attn_config")
        raise ConfigError("linear_attn_config is not counted")
    hidden, heads, dim, kernel = (
        c["hidden_size"],
        c["linear_num_heads"],
        c["linear_head_dim"],
        c["linear_conv_kernel_dim"],
    )
    width = heads * dim
    return block(
        "self_attn",
        *(linear(name, hidden, width) for name in ("q_proj", "k_proj", "v_proj")),
        conv("conv1d", 3 * width, 3 * width, kernel, groups=3 * width, bias=False),
        parameter("forget_gate.dt_bias", width),
        parameter("forget_gate.A_log", heads),
        linear("forget_gate.f_a_proj", hidden, dim),
        linear("forget_gate.f_b_proj", dim, width),
        linear("b_proj", hidden, heads),
        linear("g_a_proj", hidden, dim),
        linear("g_b_proj", dim, width),
        norm("o_norm", dim),
        linear("o_proj", width, hidden),
        times=times,
        kind="LinearAttention",
        cache=Cache(state=3 * width * kernel + heads * dim * dim),
        dims=Dims(hidden=hidden, query=width, key=width, heads=heads),
        width=hidden,
    )


def _kimi_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    total, full = c["num_hidden_layers"], counted(c, "layer_types", FULL)
    if full is None:
        raise ConfigError("layer_types is not given")
    return [mla(c, times=full) if full else None, kimi_delta(c, total - full) if full < total else None]


def _olmo_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    """OLMo Hybrid: three gated DeltaNet layers, then one of attention. Two norms in either."""
    hidden, total, full = c["hidden_size"], c["num_hidden_layers"], full_layers(c)
    keys, values, kernel = c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_conv_kernel_dim"]
    dim = c["linear_value_head_dim"]
    key, value = c["linear_key_head_dim"] * keys, dim * values
    wide = 2 * key + value
    delta = block(
        "linear_attn",
        parameter("A_log", values),
        parameter("dt_bias", values),
        linear("q_proj", hidden, key),
        linear("k_proj", hidden, key),
        linear("v_proj", hidden, value),
        linear("a_proj", hidden, values),
        linear("b_proj", hidden, values),
        linear("g_proj", hidden, value),
        linear("o_proj", value, hidden),
        conv("conv1d", wide, wide, kernel, groups=wide, bias=False),
        norm("o_norm", dim),
        times=total - full,
        kind="LinearAttention",
        cache=Cache(state=wide * kernel + values * c["linear_key_head_dim"] * dim),
        dims=Dims(hidden=hidden, query=value, key=key, heads=values),
        width=hidden,
    )
    return [attention(d, c, times=full) if full else None, delta if full < total else None]


def _half_width(c: Config) -> int:
    return c["intermediate_size"] // 2


def _griffin_mixers(d: Decoder, c: Config) -> Sequence[Part]:
    """RecurrentGemma: gated linear recurrences, and local attention every third layer."""
    hidden, total, heads = c["hidden_size"], c["num_hidden_layers"], heads_of(c)
    pattern = c.items("block_types")
    if not pattern or not set(map(str, pattern)) <= {"recurrent", "attention"}:
        raise ConfigError("block_types names a kind that is not known")
    full = sum(every(total, len(pattern), i) for i, kind in enumerate(pattern) if kind == "attention")
    width, kernel, bias = c.maybe("lru_width") or hidden, c["conv1d_width"], c.flag("attention_bias")
    gate = width // heads
    recurrent = block(
        "temporal_block",
        linear("linear_y", hidden, width, True),
        linear("linear_x", hidden, width, True),
        linear("linear_out", width, hidden, True),
        conv("conv_1d", width, width, kernel, groups=width),
        parameter("rg_lru.recurrent_param", width),
        parameter("rg_lru.gate_weight", 2 * heads, gate, gate),
        parameter("rg_lru.gate_bias", 2 * heads, gate),
        times=total - full,
        kind="Recurrent",
        dims=Dims(hidden=hidden, query=width),
        width=hidden,
    )
    kv, dim = d.kv_heads(c), d.head_dim(c)
    local = gqa(
        hidden,
        heads,
        kv,
        dim,
        q_bias=bias,
        k_bias=bias,
        o_bias=True,
        window=c["attention_window_size"],
        times=full,
        name="temporal_block",
    )
    return [local if full else None, recurrent if full < total else None]


ARCHITECTURES = (
    _pure_architecture("mamba", "Mamba", _mamba1_of),
    _pure_architecture("falcon_mamba", "FalconMamba", _mamba1_of),
    _pure_architecture("mamba2", "Mamba2", _mamba2_of),
    decoder(
        "jamba",
        "Jamba",
        LLAMA,
        has=HEADS[:2],
        attention=_jamba_mixers,
        feed_forward=_jamba_feed,
        last_norm="final_layernorm",
    ),
    decoder(
        "bamba",
        "Bamba",
        BIASED,
        has=LM,
        mlp_bias="mlp_bias",
        attention=_bamba_mixers,
        last_norm="final_layernorm",
    ),
    decoder(
        "granitemoehybrid",
        "GraniteMoeHybrid",
        BIASED,
        has=LM,
        attention=_granite_mixers,
        feed_forward=_granite_feed,
    ),
    decoder(
        "falcon_h1",
        "FalconH1",
        BIASED,
        has=LM,
        mlp_bias="mlp_bias",
        attention=_falcon_h1,
        last_norm="final_layernorm",
    ),
    decoder(
        "qwen3_next",
        "Qwen3Next",
        BIASED,
        attention=partial(qwen_mixers, True),
        sparse=stepped,
        moe=_qwen_moe(True),
        activations="qwen3_moe",
    ),
    decoder(
        "qwen3_5_text",
        "Qwen3_5Text",
        BIASED,
        has=("ForCausalLM", "ForSequenceClassification"),
        causal="Qwen3_5ForCausalLM",
        attention=partial(qwen_mixers, False),
        activations="qwen3",
    ),
    decoder(
        "qwen3_5_moe_text",
        "Qwen3_5MoeText",
        BIASED,
        has=LM,
        causal="Qwen3_5MoeForCausalLM",
        attention=partial(qwen_mixers, False),
        sparse=all_layers,
        moe=_qwen_moe(True),
        activations="qwen3_moe",
    ),
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
    decoder(
        "kimi_linear",
        "KimiLinear",
        LLAMA,
        has=LM,
        attention=_kimi_mixers,
        sparse=lambda c: counted(c, "mlp_layer_types", frozenset({"sparse"})) or 0,
        moe=lambda d, c: [
            mixture(
                c["hidden_size"],
                router(c["hidden_size"], c["num_experts"]),
                routed(c["num_experts"], c["num_experts_per_token"], c["hidden_size"], c["moe_intermediate_size"]),
                gated(
                    c["hidden_size"], c["num_shared_experts"] * c["moe_intermediate_size"], name="shared_experts"
                ),
                width=c["moe_intermediate_size"],
                used=c["num_experts_per_token"],
            )
        ],
    ),
    Architecture(
        model_type="nemotron_h",
        classes={
            "NemotronHModel": partial(_nemotron, ""),
            "NemotronHForCausalLM": partial(_nemotron, "ForCausalLM"),
        },
        base="NemotronHModel",
    ),
    decoder(
        "olmo_hybrid",
        "OlmoHybrid",
        BIASED,
        has=LM,
        attention=_olmo_mixers,
        qk_norm="full",
        activations="olmo2",
    ),
    decoder(
        "recurrent_gemma",
        "RecurrentGemma",
        LLAMA,
        has=LM,
        attention=_griffin_mixers,
        ffn=_half_width,
        mlp_bias=True,
        last_norm="final_norm",
        activations="gemma",
        outer="gemma",
    ),
)
