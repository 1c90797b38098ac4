"""Encoders with another attention: BigBird, ConvBERT, Nystromformer, FNet and others."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.encoder import (
    EVERY,
    HEADS,
    Encoder,
    attention,
    encoder,
    vocabulary_head,
)
from tracker.estimate.encoder_parts import BERT, LABELLED, embedding_size
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Dims, Node, Part, block, conv, linear, norm, parameter

CAUSAL = (*HEADS, "ForCausalLM")


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


ARCHITECTURES = (
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
    encoder("ibert", "IBert", Encoder(prefix="ibert", mlm="roberta"), has=LABELLED, classify="dense", cross=False),
    encoder(
        "convbert",
        "ConvBert",
        BERT,
        has=("ForMaskedLM", *LABELLED, "ForQuestionAnswering"),
        width=embedding_size,
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
