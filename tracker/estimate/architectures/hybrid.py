"""OLMo Hybrid and RecurrentGemma: linear recurrences with attention in between."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import gqa
from tracker.estimate.decoder import LLAMA, LM, Decoder, attention, decoder, heads_of
from tracker.estimate.reader import Config, ConfigError, every
from tracker.estimate.recurrent import BIASED, full_layers
from tracker.estimate.structure import Cache, Dims, Part, block, conv, linear, norm, parameter


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
