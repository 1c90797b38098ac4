"""Encoders that change BERT's layers: other attention, other embeddings, other heads."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.encoder import (
    EVERY,
    HEADS,
    Encoder,
    Head,
    attention,
    encoder,
    none,
    vocabulary_head,
)
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Dims, Node, Part, block, conv, embedding, linear, norm, parameter
from tracker.estimate.towers import QKV, self_attention

BERT = Encoder()
LABELLED = ("ForSequenceClassification", "ForTokenClassification")
CAUSAL = (*HEADS, "ForCausalLM")


def _embedding_size(c: Config) -> int:
    return c["embedding_size"]


# --- ALBERT: one layer, used many times ----------------------------------------------------------


def _albert_layer(c: Config) -> Sequence[Part]:
    return [attention(c)]


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
    width=_embedding_size,
    pooler="pooler",
    mlm=_albert_mlm,
    layer_count=_albert_layers,
    cross=False,
    custom={"ForPreTraining": (True, _albert_pretraining)},
)


def _albert_map(c: Config) -> Sequence[Part]:
    """The way up from the embeddings is there even where the sizes are equal."""
    return [linear("encoder.embedding_hidden_mapping_in", c["embedding_size"], c["hidden_size"], True)]


# --- DistilBERT ------------------------------------------------------------------------------------


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


# --- DeBERTa -----------------------------------------------------------------------------------------


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

# --- MegatronBERT, BigBird, X-formers ------------------------------------------------------------------


def _final_ln(c: Config) -> Sequence[Part]:
    return [norm("encoder.ln", c["hidden_size"], True)]


def _bigbird_attention(c: Config) -> Sequence[Part]:
    hidden, heads, bias = c["hidden_size"], c["num_attention_heads"], c.flag("use_bias")
    return [
        block(
            "attention",
            *(linear(name, hidden, hidden, bias) for name in ("query", "key", "value")),
            linear("dense", hidden, hidden, True),
            kind="Attention",
            dims=Dims(hidden=hidden, query=hidden, key=hidden, heads=heads),
        )
    ]


def _bigbird_qa(c: Config) -> tuple[Node | None, Sequence[Part]]:
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    return None, [
        linear("qa_classifier.intermediate.dense", hidden, inner, True),
        linear("qa_classifier.output.dense", inner, hidden, True),
        norm("qa_classifier.output.LayerNorm", hidden, True),
        linear("qa_classifier.qa_outputs", hidden, c.labels(), True),
    ]


def _nystrom_attention(c: Config) -> Sequence[Part]:
    kernel = c.maybe("conv_kernel_size")
    extra = conv("conv", 1, c["num_attention_heads"], kernel, 1, bias=False) if kernel else None
    return [attention(c, extra)]


def _positions_and_two(c: Config) -> int:
    return c["max_position_embeddings"] + 2


def _pre_classifier(c: Config) -> tuple[Node | None, Sequence[Part]]:
    hidden = c["hidden_size"]
    return linear("classifier", hidden, 1, True, adaptable=False), [linear("pre_classifier", hidden, hidden, True)]


def _rembert_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    hidden, width = c["hidden_size"], c["output_embedding_size"]
    return [
        linear("cls.predictions.decoder", width, c["vocab_size"], True, adaptable=False),
        linear("cls.predictions.dense", hidden, width, True),
        norm("cls.predictions.LayerNorm", width, True),
    ]


def _input_embedding(c: Config) -> int:
    return c["input_embedding_size"]


def _rembert_map(c: Config) -> Sequence[Part]:
    return [linear("encoder.embedding_hidden_mapping_in", c["input_embedding_size"], c["hidden_size"], True)]


# --- documents -----------------------------------------------------------------------------------------


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


# --- encoders laid out like decoders ---------------------------------------------------------------------


def _rotary_attention(bias: bool) -> object:
    def make(c: Config) -> Sequence[Part]:
        hidden, heads = c["hidden_size"], c["num_attention_heads"]
        dim = c.value("head_dim", default=None)
        width = hidden if dim is None else c["head_dim"] * heads
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


def _conv_attention(c: Config) -> Sequence[Part]:
    """ConvBERT: half of the heads replaced by dynamic convolutions."""
    hidden, heads, ratio, kernel = (
        c["hidden_size"],
        c["num_attention_heads"],
        c["head_ratio"],
        c["conv_kernel_size"],
    )
    if c["num_groups"] != 1:
        raise ConfigError("grouped feed-forwards (num_groups) are not counted")
    kept = max(1, heads // ratio)
    if heads // ratio < 1:
        raise ConfigError("head_ratio is larger than the number of heads")
    size = (hidden // kept) // 2
    width = kept * size
    return [
        block(
            "attention.self",
            *(linear(name, hidden, width, True) for name in ("query", "key", "value")),
            conv("key_conv_attn_layer.depthwise", hidden, hidden, kernel, groups=hidden, bias=False),
            conv("key_conv_attn_layer.pointwise", hidden, width, 1, bias=False),
            parameter("key_conv_attn_layer.bias", width),
            linear("conv_kernel_layer", width, kept * kernel, True),
            linear("conv_out_layer", hidden, width, True),
            linear("output.dense", hidden, hidden, True),
            kind="Attention",
            dims=Dims(hidden=hidden, query=width, key=width, heads=kept),
        )
    ]


def _generator_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    width = d.width(c)
    return [
        vocabulary_head("generator_lm_head", c, width, twice=False),
        linear("generator_predictions.dense", c["hidden_size"], width, True),
        norm("generator_predictions.LayerNorm", width, True),
    ]


def _squeeze(c: Config) -> Sequence[Part]:
    """SqueezeBERT: grouped 1x1 convolutions in place of matrices."""
    hidden = c["hidden_size"]
    return [
        *(
            conv(f"attention.{n}", hidden, hidden, 1, groups=c[f"{n[0]}_groups"])
            for n in ("query", "key", "value")
        ),
        conv("post_attention.conv1d", hidden, hidden, 1, groups=c["post_attention_groups"]),
    ]


def _squeeze_ffn(c: Config) -> Sequence[Part]:
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    return [
        conv("intermediate.conv1d", hidden, inner, 1, groups=c["intermediate_groups"]),
        conv("output.conv1d", inner, hidden, 1, groups=c["output_groups"]),
    ]


def _fnet_projection(c: Config) -> Sequence[Part]:
    return [linear("projection", c["hidden_size"], c["hidden_size"], True)]


def _no_attention(c: Config) -> Sequence[Part]:
    """FNet mixes tokens by a Fourier transform, which has no weights."""
    return []


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
    encoder("albert", "Albert", ALBERT, has=(*HEADS, "ForPreTraining"), trunk_extra=_albert_map),
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
    encoder(
        "megatron-bert",
        "MegatronBert",
        BERT,
        has=(*CAUSAL, "ForPreTraining", "ForNextSentencePrediction"),
        embed_norm=False,
        trunk_extra=_final_ln,
    ),
    encoder(
        "big_bird",
        "BigBird",
        BERT,
        has=CAUSAL,
        attention=_bigbird_attention,
        pooler="pooler",
        pooled=EVERY,
        classify="dense",
        custom={"ForQuestionAnswering": (False, _bigbird_qa)},
    ),
    encoder(
        "nystromformer",
        "Nystromformer",
        BERT,
        cross=False,
        positions=_positions_and_two,
        attention=_nystrom_attention,
        pooler="",
        classify="dense",
        custom={"ForMultipleChoice": (False, _pre_classifier)},
    ),
    encoder(
        "yoso",
        "Yoso",
        BERT,
        cross=False,
        positions=_positions_and_two,
        pooler="",
        classify="dense",
        custom={"ForMultipleChoice": (False, _pre_classifier)},
    ),
    encoder(
        "mra",
        "Mra",
        BERT,
        cross=False,
        positions=_positions_and_two,
        pooler="",
        classify="dense",
        custom={"ForMultipleChoice": (False, _pre_classifier)},
    ),
    encoder(
        "rembert",
        "RemBert",
        BERT,
        has=CAUSAL,
        width=_input_embedding,
        mlm=_rembert_mlm,
        trunk_extra=_rembert_map,
    ),
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
    encoder("ibert", "IBert", Encoder(prefix="ibert", mlm="roberta"), has=LABELLED, classify="dense", cross=False),
    encoder(
        "convbert",
        "ConvBert",
        BERT,
        has=("ForMaskedLM", *LABELLED, "ForQuestionAnswering"),
        width=_embedding_size,
        project="embeddings_project",
        attention=_conv_attention,
        pooler="",
        mlm=_generator_mlm,
        classify="dense",
        cross=False,
    ),
    encoder(
        "squeezebert",
        "SqueezeBert",
        BERT,
        attention=_squeeze,
        feed_forward=_squeeze_ffn,
        pooled=EVERY,
        cross=False,
    ),
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
    encoder(
        "fnet",
        "FNet",
        BERT,
        has=(*HEADS, "ForPreTraining", "ForNextSentencePrediction"),
        embeddings=_fnet_projection,
        attention=_no_attention,
        pooled=EVERY,
        cross=False,
    ),
)
