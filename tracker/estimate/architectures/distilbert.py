"""DistilBERT: half of BERT, without types or pooler."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.encoder import (
    Encoder,
    Head,
    attention,
    encoder,
    none,
    vocabulary_head,
)
from tracker.estimate.reader import Config
from tracker.estimate.structure import Node, Part, linear, norm


def _distil_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    hidden = c["hidden_size"]
    return [
        vocabulary_head("vocab_projector", c, hidden, twice=False),
        linear("vocab_transform", hidden, hidden, True),
        norm("vocab_layer_norm", hidden, True),
    ]


def _distil_attention(c: Config) -> Sequence[Part]:
    return [attention(c, names="q_lin k_lin v_lin", out="out_lin")]


def _distil_classes(outputs: int | None) -> Head:
    def make(c: Config) -> tuple[Node | None, Sequence[Part]]:
        hidden = c["hidden_size"]
        last = linear("classifier", hidden, outputs or c.labels(), True, adaptable=False)
        return last, [linear("pre_classifier", hidden, hidden, True)]

    return False, make


ARCHITECTURES = (
    encoder(
        "distilbert",
        "DistilBert",
        Encoder(prefix="distilbert"),
        layers="transformer.layer",
        types=none,
        attention=_distil_attention,
        ffn=lambda c: c["hidden_dim"],
        pooler="",
        mlm=_distil_mlm,
        cross=False,
        custom={"ForSequenceClassification": _distil_classes(None), "ForMultipleChoice": _distil_classes(1)},
        activations="distilbert",
        outer="distilbert",
    ),
)
