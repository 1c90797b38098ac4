"""Encoders with rotary positions: Nomic, GTE, Jina v3."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.encoder import (
    HEADS,
    Encoder,
    encoder,
    none,
    vocabulary_head,
)
from tracker.estimate.encoder_parts import LABELLED
from tracker.estimate.reader import Config
from tracker.estimate.structure import Dims, Node, Part, block, linear, norm
from tracker.estimate.towers import QKV, self_attention


def _rotary_attention(bias: bool) -> object:
    def make(c: Config) -> Sequence[Part]:
        hidden, heads = c["hidden_size"], c["num_attention_heads"]
        dim = c.value("head_dim", default=None)
        width = 0 if dim is None else c["head_dim"] * heads
        flags = (bias, bias, bias, bias)
        return [self_attention(hidden, heads, QKV, "o_proj", bias=flags, width=width)]

    return make


def _gte_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    hidden = c["hidden_size"]
    return [
        vocabulary_head("lm_head.decoder", c, hidden, twice=False),
        linear("lm_head.dense", hidden, hidden, True),
        norm("lm_head.layer_norm", hidden, True),
    ]


def _gated(down_bias: bool) -> object:
    def make(c: Config) -> Sequence[Part]:
        hidden, inner = c["hidden_size"], c["intermediate_size"]
        return [
            block(
                "mlp",
                linear("gate_proj", hidden, inner),
                linear("up_proj", hidden, inner),
                linear("down_proj", inner, hidden, down_bias),
                kind="MLP",
                dims=Dims(hidden=hidden, ffn=inner),
                width=hidden,
            )
        ]

    return make


ROTARY = Encoder(
    prefix="nomic_bert",
    layers="layers",
    positions=none,
    attention=_rotary_attention(False),  # type: ignore[arg-type]
    feed_forward=_gated(False),  # type: ignore[arg-type]
    pooled=("ForSequenceClassification",),
    cross=False,
    activations="modernbert",
)


JINA = Encoder(
    prefix="roberta",
    layers="layers",
    positions=none,
    mlm="roberta",
    classify="dense",
    cross=False,
)


ARCHITECTURES = (
    encoder("nomic_bert", "NomicBert", ROTARY, has=("ForMaskedLM", *LABELLED)),
    encoder(
        "gte",
        "Gte",
        ROTARY,
        has=("ForMaskedLM", *LABELLED),
        prefix="gte",
        attention=_rotary_attention(True),
        feed_forward=_gated(True),
        mlm=_gte_mlm,
    ),
    encoder("jina_embeddings_v3", "JinaEmbeddingsV3", JINA, has=HEADS[:4]),
)
