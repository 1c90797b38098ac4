"""Dense decoders that follow Llama: pre-norm, rotary positions, gated feed-forward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tracker.estimate.blocks import gqa, mla
from tracker.estimate.decoder import (
    LLAMA,
    LM,
    NO_QA,
    Decoder,
    alternating,
    attention_layers,
    build,
    decoder,
    head_dim_of,
    heads_of,
    hidden_by_heads,
    mlp_layers,
    output_layer,
)
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Part, block, linear, norm, parameter

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


def _helium(d: Decoder, c: Config) -> Sequence[Part]:
    """Helium's way out is square, whatever the heads give."""
    hidden, heads, kv, dim = c["hidden_size"], heads_of(c), d.kv_heads(c), head_dim_of(c)
    bias = c.flag("attention_bias")
    out = linear("o_proj", hidden, hidden)
    return [gqa(hidden, heads, kv, dim, out, q_bias=bias, k_bias=bias, out="", times=c["num_hidden_layers"])]


def _post_norms(d: Decoder, c: Config) -> Sequence[Part]:
    more = 2 * c["num_hidden_layers"] if c.flag("use_post_norm") else 0
    return [norm("post_norm", c["hidden_size"], times=more)]


def _qk_layernorm(d: Decoder, c: Config) -> Sequence[Part]:
    """Persimmon's norms of queries and keys, one vector pair a layer."""
    if not c.flag("qk_layernorm"):
        return attention_layers(d, c)
    width = c["hidden_size"] // heads_of(c)
    return attention_layers(d, c, norm("q_layernorm", width, True), norm("k_layernorm", width, True))


def _parallel_norms(d: Decoder, c: Config) -> Sequence[Part]:
    """One norm where attention and feed-forward run in parallel, two where they follow each other."""
    each = 1 if c.flag("use_parallel_residual") else 2
    return [norm("layernorm", c["hidden_size"], True, times=each * c["num_hidden_layers"])]


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


def _doge_attention(d: Decoder, c: Config) -> Sequence[Part]:
    """Doge: a learned mask from the values, norms of queries and keys."""
    dim, kv = d.head_dim(c), d.kv_heads(c)
    extra = [
        parameter("A", kv),
        linear("dt_proj", kv * dim, kv, c.flag("attention_bias")),
        norm("q_norm", dim),
        norm("k_norm", dim),
    ]
    return attention_layers(d, c, *extra)


def _doge_feed(d: Decoder, c: Config) -> Sequence[Part]:
    if c.flag("is_moe"):
        raise ConfigError("Doge's mixture is not counted")
    return mlp_layers(d, c)


def _doge_residuals(d: Decoder, c: Config) -> Sequence[Part]:
    return [parameter("residual", c["hidden_size"], times=2 * c["num_hidden_layers"])]


def _eurobert(head: str, c: Config) -> Model:
    """EuroBERT: a Llama that looks both ways, with BERT's heads."""
    plain_model = build(BIASED, "", c)
    hidden, last, extra = c["hidden_size"], None, list[Part]()
    is_tied: bool | None = None
    if head == "ForMaskedLM":
        is_tied = c.flag("tie_word_embeddings")
        last = output_layer(c, hidden, bias=c.flag("mlp_bias"), is_tied=is_tied)
    elif head == "ForSequenceClassification":
        extra = [linear("dense", hidden, hidden, True)]
        last = linear("classifier", hidden, c.labels(), True, adaptable=False)
    elif head == "ForTokenClassification":
        last = linear("classifier", hidden, c.labels(), True, adaptable=False)
    root = block("", *plain_model.root.children, *extra, last, kind="Model")
    return replace(plain_model, root=root, head=last, head_tied=is_tied, generates=False)


def eurobert(model_type: str, stem: str) -> Architecture:
    """Declare an encoder that is laid out like Llama."""
    heads = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
    classes = {f"{stem}Model": partial(_eurobert, "")} | {f"{stem}{h}": partial(_eurobert, h) for h in heads}
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


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
    decoder("cwm", "Cwm", Decoder(mlp_bias="mlp_bias"), has=LM, sliding=alternating(4)),
    decoder("helium", "Helium", BIASED, has=NO_QA, attention=_helium),
    decoder("granite", "Granite", BIASED, has=LM),
    decoder("granite_swa", "GraniteSWA", BIASED, has=LM, layer_extra=_sinks),
    decoder("hyperclovax", "HyperCLOVAX", BIASED, has=LM, layer_extra=_post_norms),
    decoder("ernie4_5", "Ernie4_5", Decoder(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"), has=LM),
    decoder("exaone4", "Exaone4", LLAMA, qk_norm="head", sliding=alternating(4, "sliding_window_pattern")),
    decoder(
        "hunyuan_v1_dense",
        "HunYuanDenseV1",
        ATTENTION_BIAS,
        has=("ForCausalLM", "ForSequenceClassification"),
        qk_norm="head",
    ),
    decoder(
        "apertus",
        "Apertus",
        BIASED,
        has=("ForCausalLM", "ForTokenClassification"),
        qk_norm="head",
        mlp="plain",
        layer_extra=_apertus,
        mlp_bias=False,
    ),
    decoder("nemotron", "Nemotron", BIASED, norm="layer", mlp="plain"),
    decoder("jais2", "Jais2", BIASED, norm="layer", mlp="plain", has=LM),
    decoder("nanochat", "NanoChat", ATTENTION_BIAS, norm="none", mlp="plain", mlp_names=("fc1", "fc2"), has=LM),
    decoder("bitnet", "BitNet", ATTENTION_BIAS, layer_extra=_bitnet, has=LM),
    decoder("diffllama", "DiffLlama", ATTENTION_BIAS, layer_extra=_lambdas),
    decoder("minicpm3", "MiniCPM3", LLAMA, has=("ForCausalLM", "ForSequenceClassification"), attention=_latent),
    decoder("youtu", "Youtu", LLAMA, attention=_latent, has=LM),
    decoder(
        "persimmon",
        "Persimmon",
        Decoder(qkv_bias=True, o_bias=True, mlp_bias=True, fused_qkv="query_key_value", out_name="dense"),
        has=NO_QA,
        norm="layer",
        mlp="plain",
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
        last_norm="final_layernorm",
        attention=_qk_layernorm,
        kv_heads=heads_of,
        head_dim=hidden_by_heads,
    ),
    decoder("qwen2", "Qwen2", LLAMA, qkv_bias=True, sliding=windowed, activations="qwen2"),
    decoder("qwen3", "Qwen3", ATTENTION_BIAS, qk_norm="head", sliding=windowed, activations="qwen3"),
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
        norms=0,
        layer_extra=_parallel_norms,
    ),
    decoder(
        "doge",
        "Doge",
        BIASED,
        has=("ForCausalLM", "ForSequenceClassification"),
        attention=_doge_attention,
        feed_forward=_doge_feed,
        layer_extra=_doge_residuals,
    ),
    eurobert("eurobert", "EuroBert"),
)
