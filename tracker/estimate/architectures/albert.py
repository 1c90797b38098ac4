"""ALBERT: one layer, used many times, under narrow embeddings."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.encoder import (
    HEADS,
    Encoder,
    encoder,
    vocabulary_head,
)
from tracker.estimate.encoder_parts import embedding_size
from tracker.estimate.reader import Config
from tracker.estimate.structure import Node, Part, linear, norm


def _albert_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    width = d.width(c)
    return [
        vocabulary_head("predictions.decoder", c, width),
        linear("predictions.dense", c["hidden_size"], width, True),
        norm("predictions.LayerNorm", width, True),
    ]


def _albert_pretraining(c: Config) -> tuple[Node | None, Sequence[Part]]:
    last, *rest = _albert_mlm(ALBERT, c)
    return last, [*rest, linear("sop_classifier.classifier", c["hidden_size"], c.labels(), True)]


def _albert_layers(c: Config) -> int:
    """Layers that have weights of their own: groups x inner layers."""
    return c["num_hidden_groups"] * c["inner_group_num"]


ALBERT = Encoder(
    prefix="albert",
    layers="encoder.albert_layer_groups.*.albert_layers",
    width=embedding_size,
    pooler="pooler",
    mlm=_albert_mlm,
    layer_count=_albert_layers,
    cross=False,
    custom={"ForPreTraining": (True, _albert_pretraining)},
)


def _albert_map(c: Config) -> Sequence[Part]:
    """The way up from the embeddings is there even where the sizes are equal."""
    return [linear("encoder.embedding_hidden_mapping_in", c["embedding_size"], c["hidden_size"], True)]


ARCHITECTURES = (encoder("albert", "Albert", ALBERT, has=(*HEADS, "ForPreTraining"), trunk_extra=_albert_map),)
