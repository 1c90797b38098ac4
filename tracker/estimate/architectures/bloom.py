"""BLOOM, Falcon and MPT: positions by attention bias or rotation, fused matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracker.estimate.decoder import (
    Decoder,
    attention_layers,
    decoder,
    heads_of,
)
from tracker.estimate.gpt_parts import CLASSIFIERS, GPT2, four_times
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Cache, Part, norm


def _bloom_norm(d: Decoder, c: Config) -> Sequence[Part]:
    return [norm("word_embeddings_layernorm", c["hidden_size"], True)]


BLOOM = replace(
    GPT2,
    embed="word_embeddings",
    positions=None,
    fused_qkv="query_key_value",
    out_name="dense",
    mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
    ffn=four_times,
    extra=_bloom_norm,
    activations="bloom",
)


def _falcon_kv(c: Config) -> int:
    if c.flag("new_decoder_architecture"):
        return c.maybe("num_kv_heads", minimum=1) or heads_of(c)
    return 1 if c.flag("multi_query") else heads_of(c)


def _falcon_attention(d: Decoder, c: Config) -> Sequence[Part]:
    """The new decoder repeats its keys and values for every head before it caches them."""
    parts = attention_layers(d, c)
    if not c.flag("new_decoder_architecture"):
        return parts
    width = heads_of(c) * d.head_dim(c)
    return [replace(part, cache=Cache(elements=2 * width)) for part in parts if part is not None]


def _falcon_inner(c: Config) -> int:
    return c.maybe("ffn_hidden_size") or 4 * c["hidden_size"]


def _falcon_norms(d: Decoder, c: Config) -> Sequence[Part]:
    """One norm for parallel layers; two in the new decoder (unless told one) and for serial layers."""
    new, parallel = c.flag("new_decoder_architecture"), c.flag("parallel_attn")
    count = c.maybe("num_ln_in_parallel_attn")
    if count is None and new:
        count = 2
    each = 2 if count == 2 or not parallel else 1
    return [norm("norm", c["hidden_size"], True, times=each * c["num_hidden_layers"])]


FALCON = replace(
    BLOOM,
    extra=None,
    qkv_bias="bias",
    o_bias="bias",
    mlp_bias="bias",
    kv_heads=_falcon_kv,
    ffn=_falcon_inner,
    norms=0,
    attention=_falcon_attention,
    layer_extra=_falcon_norms,
    activations="falcon",
    outer="phi",
)


def _mpt(d: Decoder, c: Config) -> Sequence[Part]:
    """Square matrices, whatever the heads: sizes that do not divide are not counted."""
    if c["hidden_size"] % heads_of(c):
        raise ConfigError("d_model does not divide into n_heads heads")
    return attention_layers(d, c)


MPT = replace(
    GPT2,
    layers="blocks",
    attention=_mpt,
    positions=None,
    fused_qkv="Wqkv",
    out_name="out_proj",
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    norm="scale",
    last_norm="norm_f",
    mlp_names=("up_proj", "down_proj"),
    ffn=four_times,  # whatever expansion_ratio says
    activations="gpt_neox",
    outer="gpt2",
)


ARCHITECTURES = (
    decoder("bloom", "Bloom", BLOOM, has=("ForCausalLM", *CLASSIFIERS)),
    decoder("falcon", "Falcon", FALCON, has=("ForCausalLM", *CLASSIFIERS)),
    decoder("mpt", "Mpt", MPT, has=("ForCausalLM", *CLASSIFIERS)),
)
