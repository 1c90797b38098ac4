"""Dense decoders that follow Llama: pre-norm, rotary positions, gated feed-forward."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import mla
from tracker.estimate.decoder import (
    LLAMA,
    LM,
    NO_QA,
    Decoder,
    alternating,
    attention_layers,
    decoder,
    head_dim_of,
    heads_of,
    hidden_by_heads,
)
from tracker.estimate.reader import Config
from tracker.estimate.structure import Part, norm, parameter

BIASED = Decoder(qkv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")
ATTENTION_BIAS = Decoder(qkv_bias="attention_bias", o_bias="attention_bias")


def _apertus(d: Decoder, c: Config) -> Sequence[Part]:
    """The xIELU activation learns two scalars a layer."""
    learned = c.text("hidden_act") == "xielu"
    return [parameter("mlp.act_fn", 2, times=c["num_hidden_layers"])] if learned else []


def _bitnet(d: Decoder, c: Config) -> Sequence[Part]:
    """A norm before each way out, of attention and feed-forward."""
    total = c["num_hidden_layers"]
    return [
        norm("self_attn.attn_sub_norm", c["hidden_size"], times=total),
        norm("mlp.ffn_sub_norm", c["intermediate_size"], times=total),
    ]


def _sinks(d: Decoder, c: Config) -> Sequence[Part]:
    """A learned attention sink a head."""
    return [parameter("self_attn.sinks", c["num_attention_heads"], times=c["num_hidden_layers"])]


def _lambdas(d: Decoder, c: Config) -> Sequence[Part]:
    """Differential attention: four vectors of head_dim a layer."""
    return [parameter("self_attn.lambda", 4, head_dim_of(c), times=c["num_hidden_layers"])]


def _latent(d: Decoder, c: Config) -> Sequence[Part]:
    return [mla(c, bias=c.flag("attention_bias"), times=c["num_hidden_layers"])]


def _post_norms(d: Decoder, c: Config) -> Sequence[Part]:
    more = 2 * c["num_hidden_layers"] if c.flag("use_post_norm") else 0
    return [norm("post_norm", c["hidden_size"], times=more)]


def _qk_layernorm(d: Decoder, c: Config) -> Sequence[Part]:
    """Persimmon's norms of queries and keys, one vector pair a layer."""
    if not c.flag("qk_layernorm"):
        return attention_layers(d, c)
    width = c["hidden_size"] // heads_of(c)
    return attention_layers(d, c, norm("q_layernorm", width, True), norm("k_layernorm", width, True))


def _stablelm(d: Decoder, c: Config) -> Sequence[Part]:
    """Optional norms without bias, one for each head of queries and of keys."""
    if not c.flag("qk_layernorm"):
        return attention_layers(d, c)
    width, heads, kv = c["hidden_size"] // heads_of(c), heads_of(c), d.kv_heads(c)
    return attention_layers(d, c, norm("q_layernorm", width, times=heads), norm("k_layernorm", width, times=kv))


def windowed(c: Config) -> int:
    """Qwen2: layers from ``max_window_layers`` on, if ``use_sliding_window``."""
    if c.items("layer_types", default=None):
        return LLAMA.sliding(c)
    if not c.flag("use_sliding_window", default=False):
        return 0
    return max(0, c["num_hidden_layers"] - c.whole("max_window_layers", minimum=0))


ARCHITECTURES = (
    decoder("llama", "Llama", BIASED),
    decoder("internlm3", "Llama", BIASED),
    decoder("iquestcoder", "Llama", BIASED),
    decoder("exaone", "Llama", BIASED),
    decoder("mistral", "Mistral", LLAMA),
    decoder("ministral", "Ministral", LLAMA),
    decoder("ministral3", "Ministral3", LLAMA),
    decoder("arcee", "Arcee", BIASED, mlp="plain"),
    decoder("smollm3", "SmolLM3", BIASED),
    decoder("seed_oss", "SeedOss", BIASED, o_bias="attention_out_bias"),
    decoder("cwm", "Cwm", LLAMA, has=LM, sliding=alternating(4)),
    decoder("helium", "Helium", BIASED, has=NO_QA, o_bias=False),
    decoder("granite", "Granite", BIASED, has=LM),
    decoder("granite_swa", "GraniteSWA", BIASED, has=LM, layer_extra=_sinks),
    decoder("hyperclovax", "HyperCLOVAX", BIASED, layer_extra=_post_norms),
    decoder("ernie4_5", "Ernie4_5", Decoder(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"), has=LM),
    decoder("exaone4", "Exaone4", LLAMA, qk_norm="head", sliding=alternating(4, "sliding_window_pattern")),
    decoder("hunyuan_v1_dense", "HunYuanDenseV1", ATTENTION_BIAS, qk_norm="head"),
    decoder("apertus", "Apertus", BIASED, qk_norm="head", mlp="plain", layer_extra=_apertus, mlp_bias=False),
    decoder("nemotron", "Nemotron", BIASED, norm="layer", mlp="plain"),
    decoder("jais2", "Jais2", BIASED, norm="layer", mlp="plain", has=LM),
    decoder("nanochat", "NanoChat", ATTENTION_BIAS, norm="none", mlp="plain", mlp_names=("fc1", "fc2"), has=LM),
    decoder("bitnet", "BitNet", ATTENTION_BIAS, layer_extra=_bitnet, has=LM),
    decoder("diffllama", "DiffLlama", ATTENTION_BIAS, layer_extra=_lambdas),
    decoder("minicpm3", "MiniCPM3", LLAMA, attention=_latent),
    decoder("youtu", "Youtu", LLAMA, attention=_latent, has=LM),
    decoder(
        "persimmon",
        "Persimmon",
        Decoder(qkv_bias=True, o_bias=True, mlp_bias=True, fused_qkv="query_key_value", out_name="dense"),
        norm="layer",
        mlp="plain",
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
        last_norm="final_layernorm",
        attention=_qk_layernorm,
        kv_heads=heads_of,
        head_dim=hidden_by_heads,
    ),
    decoder("qwen2", "Qwen2", LLAMA, qkv_bias=True, sliding=windowed),
    decoder("qwen3", "Qwen3", ATTENTION_BIAS, qk_norm="head", sliding=windowed),
    decoder(
        "starcoder2",
        "Starcoder2",
        Decoder(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
        has=NO_QA,
        norm="layer",
        mlp="plain",
        mlp_names=("c_fc", "c_proj"),
        activations="starcoder2",
        outer="phi",
    ),
    decoder(
        "stablelm",
        "StableLm",
        LLAMA,
        has=NO_QA,
        qkv_bias="use_qkv_bias",
        norm="layer",
        attention=_stablelm,
        head_dim=hidden_by_heads,
    ),
)
