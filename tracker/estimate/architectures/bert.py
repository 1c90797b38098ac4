"""BERT, RoBERTa and the encoders that keep their layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tracker.estimate.encoder import (
    HEADS,
    Encoder,
    attention,
    bert_mlm,
    build,
    encoder,
    none,
    vocabulary_head,
)
from tracker.estimate.reader import Config
from tracker.estimate.structure import Node, Part, block, embedding, linear, norm

BERT = Encoder()
ROBERTA = Encoder(prefix="roberta", mlm="roberta", classify="dense", activations="roberta", outer="roberta")
CAUSAL = (*HEADS, "ForCausalLM")


def _xmod_adapters(c: Config) -> Sequence[Part]:
    """X-MOD: a bottleneck for every language in every layer."""
    hidden, languages, total = c["hidden_size"], len(c.items("languages")), c["num_hidden_layers"]
    inner = int(hidden // c.number("adapter_reduction_factor"))
    own_norm = c.flag("adapter_layer_norm")
    return [
        block(
            "encoder.layer.*.output.adapter_modules.*",
            linear("dense1", hidden, inner, True),
            linear("dense2", inner, hidden, True),
            times=total * languages,
        ),
        norm("encoder.layer.*.output.adapter_layer_norm", hidden, True, times=total) if own_norm else None,
        norm("encoder.LayerNorm", hidden, True) if c.flag("pre_norm") else None,
    ]


def _final_norm(c: Config) -> Sequence[Part]:
    return [norm("encoder.LayerNorm", c["hidden_size"], True)]


def _electra_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    width = d.width(c)
    return [
        vocabulary_head("generator_lm_head", c, width, twice=False),
        linear("generator_predictions.dense", c["hidden_size"], width, True),
        norm("generator_predictions.LayerNorm", width, True),
    ]


def _electra_discriminator(c: Config) -> tuple[Node | None, Sequence[Part]]:
    hidden = c["hidden_size"]
    return None, [
        linear("discriminator_predictions.dense", hidden, hidden, True),
        linear("discriminator_predictions.dense_prediction", hidden, 1, True),
    ]


def _electra_choice(c: Config) -> tuple[Node | None, Sequence[Part]]:
    hidden = c["hidden_size"]
    summary = c.labels() if c.flag("summary_proj_to_labels", default=False) and c.labels() > 0 else hidden
    if not c.flag("summary_use_proj"):
        return linear("classifier", hidden, 1, True, adaptable=False), []
    return linear("classifier", hidden, 1, True, adaptable=False), [
        linear("sequence_summary.summary", hidden, summary, True)
    ]


def _task_embeddings(c: Config) -> Sequence[Part]:
    """ERNIE 3: one more table, for tasks."""
    if not c.flag("use_task_id"):
        return []
    return [embedding("task_type_embeddings", c["task_type_vocab_size"], c["hidden_size"])]


def _sounds_and_shapes(c: Config) -> Sequence[Part]:
    """RoCBert: what a character sounds and looks like, mapped onto the hidden size."""
    hidden = inputs = c["hidden_size"]
    sound, shape = c.flag("enable_pronunciation"), c.flag("enable_shape")
    parts: list[Part] = [
        embedding("pronunciation_embed", c["pronunciation_vocab_size"], c["pronunciation_embed_dim"]),
        embedding("shape_embed", c["shape_vocab_size"], c["shape_embed_dim"]),
    ]
    if sound:
        inputs += c["pronunciation_embed_dim"]
    if shape:
        inputs += c["shape_embed_dim"]
    if c.flag("concat_input"):
        parts.append(linear("map_inputs_layer", inputs, hidden, True))
    return parts


def _roc_pretraining(c: Config) -> tuple[Node | None, Sequence[Part]]:
    """RoCBert's pretraining class has no sentence head."""
    last, *rest = bert_mlm(BERT, c)
    return last, rest


def _mpnet_attention(c: Config) -> Sequence[Part]:
    return [attention(c, names="q k v", out="o")]


def _mpnet_bias(c: Config) -> Sequence[Part]:
    """One table of relative positions for all layers."""
    return [
        embedding("encoder.relative_attention_bias", c["relative_attention_num_buckets"], c["num_attention_heads"])
    ]


def _longformer_attention(c: Config) -> Sequence[Part]:
    """A second set of matrices for the tokens that see everything."""
    return [attention(c, names="query key value query_global key_global value_global")]


def _sinusoids(c: Config) -> Sequence[Part]:
    """RoFormer registers its fixed rotary table as a parameter."""
    return [
        embedding(
            "encoder.embed_positions", c["max_position_embeddings"], c["hidden_size"] // c["num_attention_heads"]
        )
    ]


def _fused_heads(c: Config) -> int:
    return c["embedding_size"]


def _bare_head(d: Encoder, c: Config) -> Sequence[Node]:
    """The decoder matrix alone."""
    return [vocabulary_head("lm_head.decoder", c, c["hidden_size"])]


GENERATION = Encoder(types=none, pooler="", mlm=_bare_head)

ARCHITECTURES = (
    encoder("bert", "Bert", BERT, has=(*HEADS, "ForPreTraining", "ForNextSentencePrediction", "LMHeadModel")),
    encoder("roberta", "Roberta", ROBERTA, has=CAUSAL),
    encoder("xlm-roberta", "XLMRoberta", ROBERTA, has=CAUSAL),
    encoder("camembert", "Camembert", ROBERTA, has=CAUSAL),
    encoder("data2vec-text", "Data2VecText", ROBERTA, has=CAUSAL),
    encoder("roberta-prelayernorm", "RobertaPreLayerNorm", ROBERTA, has=CAUSAL, trunk_extra=_final_norm),
    encoder("xlm-roberta-xl", "XLMRobertaXL", ROBERTA, has=CAUSAL, embed_norm=False, trunk_extra=_final_norm),
    encoder("xmod", "Xmod", ROBERTA, has=CAUSAL, trunk_extra=_xmod_adapters),
    encoder("longformer", "Longformer", ROBERTA, attention=_longformer_attention, cross=False),
    encoder(
        "electra",
        "Electra",
        BERT,
        has=(*HEADS, "ForPreTraining"),
        classify="dense",
        custom={"ForPreTraining": (False, _electra_discriminator), "ForMultipleChoice": (False, _electra_choice)},
        width=_fused_heads,
        project="embeddings_project",
        pooler="",
        mlm=_electra_mlm,
    ),
    encoder(
        "ernie",
        "Ernie",
        BERT,
        has=(*CAUSAL, "ForPreTraining", "ForNextSentencePrediction"),
        embeddings=_task_embeddings,
    ),
    encoder(
        "roc_bert",
        "RoCBert",
        BERT,
        has=(*CAUSAL, "ForPreTraining"),
        custom={"ForPreTraining": (True, _roc_pretraining)},
        embeddings=_sounds_and_shapes,
    ),
    encoder(
        "mpnet", "MPNet", ROBERTA, types=none, attention=_mpnet_attention, trunk_extra=_mpnet_bias, cross=False
    ),
    encoder(
        "roformer",
        "RoFormer",
        BERT,
        has=CAUSAL,
        width=_fused_heads,
        project="embeddings_project",
        positions=none,
        pooler="",
        classify="dense",
        trunk_extra=_sinusoids,
    ),
    replace(
        encoder("bert-generation", "BertGeneration", BERT, has=(), base="BertGenerationEncoder"),
        classes={
            "BertGenerationEncoder": partial(build, GENERATION, ""),
            "BertGenerationDecoder": partial(build, GENERATION, "ForCausalLM"),
        },
    ),
)
