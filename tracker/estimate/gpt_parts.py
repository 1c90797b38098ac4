"""What the decoders before Llama share: fused queries, keys and values, LayerNorms, biases."""

from __future__ import annotations

from tracker.estimate.decoder import (
    Decoder,
    heads_of,
    hidden_by_heads,
)
from tracker.estimate.reader import Config

CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")


def four_times(c: Config) -> int:
    """The usual inner width."""
    return 4 * c["hidden_size"]


def inner(c: Config) -> int:
    """The inner width: ``n_inner``, else four hidden sizes."""
    return c.maybe("n_inner") or 4 * c["hidden_size"]


def positions(c: Config) -> int:
    """Rows of the position table."""
    return c["max_position_embeddings"]


GPT2 = Decoder(
    prefix="transformer",
    layers="h",
    embed="wte",
    positions=positions,
    fused_qkv="c_attn",
    out_name="c_proj",
    qkv_bias=True,
    o_bias=True,
    mlp_bias=True,
    norm="layer",
    last_norm="ln_f",
    mlp="plain",
    mlp_names=("c_fc", "c_proj"),
    ffn=inner,
    kv_heads=heads_of,
    head_dim=hidden_by_heads,
    token_score="classifier",
    activations="gpt2",
    outer="gpt2",
)
