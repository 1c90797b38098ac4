"""DeBERTa 1 to 3: disentangled attention."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.encoder import (
    HEADS,
    Encoder,
    Head,
    attention,
    encoder,
    vocabulary_head,
)
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Dims, Node, Part, block, conv, embedding, linear, norm, parameter


def _relative(c: Config, span: int) -> int:
    return span if c.flag("relative_attention") else 0


def _max_relative(c: Config) -> int:
    """Relative positions reach as far as the config says; below 1, as far as absolute ones."""
    reach = c.value("max_relative_positions", default=-1)
    if type(reach) is not int:
        raise ConfigError("max_relative_positions is not a whole number")
    return reach if reach >= 1 else c["max_position_embeddings"]


def _attention_kinds(c: Config) -> frozenset[str]:
    kinds = c.value("pos_att_type", default=None)
    if isinstance(kinds, str):
        kinds = kinds.lower().split("|")
    if kinds is not None and not isinstance(kinds, list):
        raise ConfigError("pos_att_type is not a list")
    return frozenset(kind.strip().lower() for kind in kinds or () if isinstance(kind, str))


def _positions(c: Config) -> int:
    return c["max_position_embeddings"] if c.flag("position_biased_input") else 0


def _embed_width(c: Config) -> int:
    return c.maybe("embedding_size") or c["hidden_size"]


def _deberta_attention(c: Config) -> Sequence[Part]:
    """Disentangled attention, first version: one fused matrix, two bias vectors, position matrices."""
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    kinds, parts = _attention_kinds(c), list[Part]()
    if c.flag("relative_attention"):
        if "c2p" in kinds:
            parts.append(linear("pos_proj", hidden, hidden))
        if "p2c" in kinds:
            parts.append(linear("pos_q_proj", hidden, hidden, True))
    talking = c.flag("talking_head", default=False)
    return [
        block(
            "attention.self",
            linear("in_proj", hidden, 3 * hidden),
            parameter("q_bias", hidden),
            parameter("v_bias", hidden),
            linear("dense", hidden, hidden, True),
            linear("head_logits_proj", heads, heads) if talking else None,
            linear("head_weights_proj", heads, heads) if talking else None,
            *parts,
            kind="Attention",
            dims=Dims(hidden=hidden, query=hidden, key=hidden, heads=heads),
        )
    ]


def _deberta_v2_attention(c: Config) -> Sequence[Part]:
    """Disentangled attention, second version; position matrices only where they are not shared."""
    hidden, parts = c["hidden_size"], list[Part]()
    if c.flag("relative_attention") and not c.flag("share_att_key", default=False):
        kinds = _attention_kinds(c)
        parts += [linear("pos_key_proj", hidden, hidden, True)] if "c2p" in kinds else []
        parts += [linear("pos_query_proj", hidden, hidden, True)] if "p2c" in kinds else []
    return [attention(c, *parts, names="query_proj key_proj value_proj")]


def _embed_proj(c: Config) -> Sequence[Part]:
    width, hidden = _embed_width(c), c["hidden_size"]
    return [linear("embed_proj", width, hidden)] if width != hidden else []


def _deberta_relative(c: Config) -> Sequence[Part]:
    reach = _relative(c, 2 * _max_relative(c))
    return [embedding("encoder.rel_embeddings", reach, c["hidden_size"])] if reach else []


def _deberta_v2_relative(c: Config) -> Sequence[Part]:
    """Relative embeddings by bucket, their norm, and the convolution after the first layer."""
    hidden, parts = c["hidden_size"], list[Part]()
    if c.flag("relative_attention"):
        buckets = c.value("position_buckets", default=-1)
        rows = 2 * (buckets if type(buckets) is int and buckets > 0 else _max_relative(c))
        parts.append(embedding("encoder.rel_embeddings", rows, hidden))
    names = c.value("norm_rel_ebd", default="none")
    if isinstance(names, str) and "layer_norm" in [part.strip() for part in names.lower().split("|")]:
        parts.append(norm("encoder.LayerNorm", hidden, True))
    kernel = c.whole("conv_kernel_size", minimum=0, default=0)
    if kernel > 0:
        groups = c.whole("conv_groups", default=1)
        parts += [
            conv("encoder.conv.conv", hidden, hidden, kernel, groups=groups),
            norm("encoder.conv.LayerNorm", hidden, True),
        ]
    return parts


def _deberta_classes(outputs: int | None) -> Head:
    def make(c: Config) -> tuple[Node | None, Sequence[Part]]:
        hidden, width = c["hidden_size"], c.maybe("pooler_hidden_size") or c["hidden_size"]
        last = linear("classifier", hidden, outputs or c.labels(), True, adaptable=False)
        return last, [linear("pooler.dense", width, width, True)]

    return False, make


def _deberta_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    """The old language head is BERT's; the new one keeps a bias and reads the embeddings directly."""
    hidden, width = c["hidden_size"], d.width(c)
    if not c.flag("legacy", default=True):
        raise ConfigError("the new DeBERTa language head (legacy: false) is not counted")
    return [
        vocabulary_head("cls.predictions.decoder", c, width),
        linear("cls.predictions.transform.dense", hidden, width, True),
        norm("cls.predictions.transform.LayerNorm", width, True),
    ]


DEBERTA = Encoder(
    prefix="deberta",
    width=_embed_width,
    positions=_positions,
    embeddings=_embed_proj,
    pooler="",
    mlm=_deberta_mlm,
    cross=False,
    activations="deberta-v2",
    custom={
        "ForSequenceClassification": _deberta_classes(None),
        "ForMultipleChoice": _deberta_classes(1),
    },
)


ARCHITECTURES = (
    encoder(
        "deberta",
        "Deberta",
        DEBERTA,
        has=HEADS[:4],
        attention=_deberta_attention,
        trunk_extra=_deberta_relative,
    ),
    encoder(
        "deberta-v2",
        "DebertaV2",
        DEBERTA,
        attention=_deberta_v2_attention,
        trunk_extra=_deberta_v2_relative,
    ),
)
