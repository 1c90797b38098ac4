"""Encoders of documents, tables and pictures: layouts and types beside the words."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.encoder import (
    EVERY,
    encoder,
    none,
)
from tracker.estimate.encoder_parts import BERT, LABELLED
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, Part, block, embedding, linear, norm


def _layoutlm(c: Config) -> Sequence[Part]:
    rows, hidden = c["max_2d_position_embeddings"], c["hidden_size"]
    return [embedding(f"{axis}_position_embeddings", rows, hidden) for axis in "xyhw"]


def _lilt_layout(c: Config) -> Sequence[Part]:
    """LiLT's layout embeddings, a fraction of the hidden size wide."""
    hidden, shrink, rows = c["hidden_size"], c["channel_shrink_ratio"], c["max_2d_position_embeddings"]
    narrow = hidden // shrink
    return [
        *(embedding(f"layout_embeddings.{axis}_position_embeddings", rows, hidden // 6) for axis in "xyhw"),
        embedding("layout_embeddings.box_position_embeddings", c["max_position_embeddings"], narrow),
        linear("layout_embeddings.box_linear_embeddings", hidden, narrow, True),
        norm("layout_embeddings.LayerNorm", narrow, True),
        block("encoder.layer.*.layout", *_lilt_layer(c, narrow), times=c["num_hidden_layers"]),
    ]


def _lilt_layer(c: Config, narrow: int) -> Sequence[Part]:
    inner = c["intermediate_size"] // c["channel_shrink_ratio"]
    return [
        *(linear(name, narrow, narrow, True) for name in ("layout_query", "layout_key", "layout_value", "output")),
        linear("layout_intermediate", narrow, inner, True),
        linear("layout_output", inner, narrow, True),
        norm("LayerNorm", narrow, True, times=2),
    ]


def _tapas_types(c: Config) -> Sequence[Part]:
    hidden = c["hidden_size"]
    return [
        embedding(f"token_type_embeddings_{i}", rows, hidden)
        for i, rows in enumerate(c.ints("type_vocab_sizes", minimum=1)[:64])
    ]


def _splinter_qass(c: Config) -> tuple[Node | None, Sequence[Part]]:
    hidden = c["hidden_size"]
    return None, [
        block(
            "splinter_qass",
            *(linear(f"{name}.dense", hidden, hidden, True, times=2) for name in ("query_transform", "transform")),
            norm("LayerNorm", hidden, True, times=4),
            linear("start_classifier", hidden, hidden),
            linear("end_classifier", hidden, hidden),
        )
    ]


def _visual(c: Config) -> Sequence[Part]:
    if c.flag("bypass_transformer"):
        raise ConfigError("an extra layer (bypass_transformer) is not counted")
    hidden = c["hidden_size"]
    return [
        embedding("visual_token_type_embeddings", c["type_vocab_size"], hidden),
        embedding("visual_position_embeddings", c["max_position_embeddings"], hidden),
        linear("visual_projection", c["visual_embedding_dim"], hidden, True),
    ]


ARCHITECTURES = (
    encoder(
        "layoutlm",
        "LayoutLM",
        BERT,
        has=("ForMaskedLM", *LABELLED, "ForQuestionAnswering"),
        embeddings=_layoutlm,
        pooled=EVERY,
        cross=False,
    ),
    encoder(
        "lilt",
        "Lilt",
        BERT,
        has=(*LABELLED, "ForQuestionAnswering"),
        trunk_extra=_lilt_layout,
        classify="dense",
        cross=False,
    ),
    encoder(
        "tapas",
        "Tapas",
        BERT,
        has=("ForMaskedLM", "ForSequenceClassification"),
        types=none,
        embeddings=_tapas_types,
    ),
    encoder(
        "splinter",
        "Splinter",
        BERT,
        has=("ForPreTraining", "ForQuestionAnswering"),
        pooler="",
        cross=False,
        custom={"ForPreTraining": (False, _splinter_qass), "ForQuestionAnswering": (False, _splinter_qass)},
    ),
    encoder("visual_bert", "VisualBert", BERT, has=("ForPreTraining",), embeddings=_visual, cross=False),
)
