"""XLM and FlauBERT: BERT-like layers kept in four lists, a head that reads a summary."""

from __future__ import annotations

from functools import partial

from tracker.estimate.encoder import vocabulary_head
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, block, embedding, linear, norm
from tracker.estimate.towers import self_attention, stack


def _summary(c: Config) -> Node | None:
    hidden = c["hidden_size"]
    if not c.flag("summary_use_proj"):
        return None
    return linear(
        "sequence_summary.summary", hidden, c.labels() if c.flag("summary_proj_to_labels") else hidden, True
    )


def _build(head: str, c: Config) -> Model:
    hidden, total, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    languages = c.whole("n_langs", minimum=0)
    if c.flag("asm") and head == "WithLMHeadModel":
        raise ConfigError("an adaptive softmax (asm) is not counted")
    if not c.flag("is_encoder"):
        raise ConfigError("a decoder (is_encoder: false) is not counted")
    body = block(
        "transformer",
        embedding("position_embeddings", c["max_position_embeddings"], hidden),
        embedding("lang_embeddings", languages, hidden) if languages > 1 and c.flag("use_lang_emb") else None,
        embedding("embeddings", c["vocab_size"], hidden),
        norm("layer_norm_emb", hidden, True),
        stack(
            "layers.*",
            hidden,
            total,
            self_attention(hidden, heads, ("q_lin", "k_lin", "v_lin"), "out_lin", name="attentions", times=total),
            linear("ffns.lin1", hidden, 4 * hidden, True, times=total),
            linear("ffns.lin2", 4 * hidden, hidden, True, times=total),
            norm("layer_norm", hidden, True, times=2 * total),
        ),
        width=hidden,
    )
    last: Node | None = None
    parts: list[Node | None] = []
    is_tied: bool | None = None
    if head == "WithLMHeadModel":
        is_tied = c.flag("tie_word_embeddings", default=True)
        last = vocabulary_head("pred_layer.proj", c, hidden, twice=False)
    elif head == "ForSequenceClassification":
        parts = [_summary(c)]
    elif head == "ForTokenClassification":
        last = linear("classifier", hidden, c.labels(), True, adaptable=False)
    elif head == "ForQuestionAnsweringSimple":
        parts = [linear("qa_outputs", hidden, c.labels(), True)]
    elif head == "ForMultipleChoice":
        parts = [_summary(c), linear("logits_proj", c.labels(), 1, True)]
    return Model(
        root=block("", body, *parts, last, kind="Model"),
        hidden=hidden,
        layers=total,
        vocabulary=c["vocab_size"],
        context=c["max_position_embeddings"],
        head=last,
        head_tied=is_tied,
        outer="bert",
    )


HEADS = (
    "WithLMHeadModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnsweringSimple",
    "ForMultipleChoice",
)


def _architecture(model_type: str, stem: str) -> Architecture:
    classes = {f"{stem}Model": partial(_build, "")} | {f"{stem}{head}": partial(_build, head) for head in HEADS}
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


ARCHITECTURES = (_architecture("xlm", "XLM"), _architecture("flaubert", "Flaubert"))
