"""Encoders of the BERT kind: one set of knobs for embeddings, layers, pooler and heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tracker.estimate.decoder import context_of
from tracker.estimate.model import Architecture, Builder, Model
from tracker.estimate.reader import Config
from tracker.estimate.structure import Dims, Node, Part, block, embedding, linear, norm, tied

Size = Callable[[Config], int]
Parts = Callable[[Config], Sequence[Part]]
# A head of a family's own: whether it takes the pooler, and its output layer with what stands before it.
Head = tuple[bool, Callable[[Config], tuple[Node | None, Sequence[Part]]]]


HEADS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
POOLED = ("", "ForPreTraining", "ForSequenceClassification", "ForMultipleChoice", "ForNextSentencePrediction")
EVERY = ("", *HEADS, "ForCausalLM", "ForPreTraining", "ForNextSentencePrediction")


def hidden_of(c: Config) -> int:
    """The hidden size."""
    return c["hidden_size"]


def positions_of(c: Config) -> int:
    """Rows of the learned position table."""
    return c["max_position_embeddings"]


def types_of(c: Config) -> int:
    """Rows of the token type table; 0 for none."""
    return c.whole("type_vocab_size", minimum=0)


def none(_: Config) -> int:
    """No such part."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """The knobs of an encoder family.

    Attributes:
        width: Size of the embeddings, where it is not the hidden size; ``project`` names the way up.
        attention: What one layer's attention is, in place of BERT's.
        layer_norms: LayerNorms a layer.
        pooler: Name of the pooler's matrix; "" if the trunk has none. ``pooled``: the heads that take it.
        mlm: How the language head is made: ``bert``, ``roberta`` or a builder of its own.
        classify: ``linear``, or ``dense`` for a matrix before it.

    """

    prefix: str = "bert"
    layers: str = "encoder.layer"
    width: Size = hidden_of
    project: str = ""
    positions: Size = positions_of
    types: Size = types_of
    embed_norm: bool = True
    norm_bias: bool = True
    embeddings: Parts | None = None
    attention: Parts | None = None
    feed_forward: Parts | None = None
    ffn: Size = lambda c: c["intermediate_size"]
    layer_norms: int = 2
    layer_count: Size = lambda c: c["num_hidden_layers"]
    trunk_extra: Parts | None = None
    pooler: str = "pooler.dense"
    pooled: tuple[str, ...] = POOLED
    mlm: str | Callable[[Encoder, Config], Sequence[Node]] = "bert"
    classify: str = "linear"
    qa_labels: bool = True
    custom: Mapping[str, Head] = field(default_factory=dict)
    cross: bool = True
    activations: str = "bert"
    outer: str = "bert"


def attention(
    c: Config, *extra: Part, names: str = "query key value", out: str = "dense", bias: bool = True
) -> Node:
    """BERT's attention: four square matrices with biases."""
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    if hidden % heads:
        c.doubt(f"{c.path}hidden size {hidden} does not divide into {heads} heads")
    return block(
        "attention",
        *(linear(name, hidden, hidden, bias) for name in names.split()),
        linear(out, hidden, hidden, bias),
        *extra,
        kind="Attention",
        dims=Dims(hidden=hidden, query=hidden, key=hidden, heads=heads),
        width=hidden,
    )


def feed_forward(c: Config, inner: int) -> Node:
    """BERT's feed-forward."""
    hidden = c["hidden_size"]
    return block(
        "",
        linear("intermediate.dense", hidden, inner, True),
        linear("output.dense", inner, hidden, True),
        kind="MLP",
        dims=Dims(hidden=hidden, ffn=inner),
        width=hidden,
    )


def crosses(d: Encoder, c: Config) -> bool:
    """Whether each layer attends to another encoder's output as well."""
    return d.cross and c.flag("add_cross_attention", default=False)


def trunk(d: Encoder, c: Config, pooled: bool) -> Node:
    """Embeddings, layers and, for some heads, the pooler."""
    hidden, width, total = c["hidden_size"], d.width(c), d.layer_count(c)
    attentions = list(d.attention(c)) if d.attention else [attention(c)]
    norms = (
        norm("LayerNorm", hidden, d.norm_bias, times=d.layer_norms, kind="LayerNorm") if d.layer_norms else None
    )
    if crosses(d, c):
        attentions += [block("crossattention", attention(c), norm("LayerNorm", hidden, True))]
    rows, types = d.positions(c), d.types(c)
    return block(
        d.prefix,
        block(
            "embeddings",
            embedding("word_embeddings", c["vocab_size"], width),
            embedding("position_embeddings", rows, width) if rows else None,
            embedding("token_type_embeddings", types, width) if types else None,
            norm("LayerNorm", width, d.norm_bias, kind="LayerNorm") if d.embed_norm else None,
            *(d.embeddings(c) if d.embeddings else ()),
            width=width,
        ),
        linear(d.project, width, hidden, True) if d.project and width != hidden else None,
        block(
            f"{d.layers}.*",
            *(_times(part, total) for part in attentions),
            *(
                _times(part, total)
                for part in (d.feed_forward(c) if d.feed_forward else [feed_forward(c, d.ffn(c))])
            ),
            _times(norms, total),
            kind="Layers",
            width=hidden,
            formula=d.activations,
        ),
        *(d.trunk_extra(c) if d.trunk_extra else ()),
        linear(d.pooler, hidden, hidden, True) if pooled and d.pooler else None,
        width=hidden,
    )


def _times(part: Part, times: int) -> Part:
    return None if part is None else replace(part, times=part.times * times)


def vocabulary_head(name: str, c: Config, width: int, *, twice: bool = True) -> Node:
    """The decoder matrix: the word embeddings again, with one bias; untied, with the bias ``twice``."""
    vocabulary = c["vocab_size"]
    if c.flag("tie_word_embeddings", default=True):
        return tied(name, width, vocabulary, True)
    own = linear(name, width, vocabulary, True, adaptable=False)
    return replace(own, own=own.own + vocabulary) if twice else own


def bert_mlm(d: Encoder, c: Config) -> Sequence[Node]:
    """BERT's language head: dense, norm, decoder with bias."""
    hidden, width = c["hidden_size"], d.width(c)
    return [
        vocabulary_head("cls.predictions.decoder", c, width),
        linear("cls.predictions.transform.dense", hidden, width, True),
        norm("cls.predictions.transform.LayerNorm", width, True),
    ]


def roberta_mlm(_: Encoder, c: Config) -> Sequence[Node]:
    """RoBERTa's language head: the same under other names."""
    hidden = c["hidden_size"]
    return [
        vocabulary_head("lm_head.decoder", c, hidden),
        linear("lm_head.dense", hidden, hidden, True),
        norm("lm_head.layer_norm", hidden, True),
    ]


MLM: Mapping[str, Callable[[Encoder, Config], Sequence[Node]]] = {"bert": bert_mlm, "roberta": roberta_mlm}


def dense_classifier(c: Config, name: str = "classifier") -> Node:
    """RoBERTa's classifier: a square matrix, then the labels. PEFT leaves it alone as a whole."""
    hidden = c["hidden_size"]
    return block(
        name,
        linear("dense", hidden, hidden, True, adaptable=False),
        linear("out_proj", hidden, c.labels(), True, adaptable=False),
    )


def sole(name: str, outputs: int | None = None, *, pooled: bool = False, adaptable: bool = False) -> Head:
    """A head that is one matrix; to the labels, or to this many outputs."""

    def make(c: Config) -> tuple[Node | None, Sequence[Part]]:
        return linear(name, c["hidden_size"], outputs or c.labels(), True, adaptable=adaptable), []

    return pooled, make


def build(d: Encoder, head: str, c: Config) -> Model:
    """One class of a family."""
    hidden = c["hidden_size"]
    pooled = head in d.pooled and not (
        head == "ForSequenceClassification" and d.classify == "dense" and d.pooled is POOLED
    )
    if head in d.custom:
        pooled = d.custom[head][0]
    last: Node | None = None
    extra: Sequence[Part] = []
    is_tied: bool | None = None
    if head in d.custom:
        last, extra = d.custom[head][1](c)
    elif head in ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForPreTraining"):
        make = MLM[d.mlm] if isinstance(d.mlm, str) else d.mlm
        last, *extra = make(d, c)
        is_tied = c.flag("tie_word_embeddings", default=True)
        if head == "ForPreTraining":
            extra = [*extra, linear("cls.seq_relationship", hidden, 2, True)]
    elif head == "ForNextSentencePrediction":
        extra = [linear("cls.seq_relationship", hidden, 2, True)]
    elif head == "ForSequenceClassification" and d.classify == "dense":
        last = dense_classifier(c)
    elif head in ("ForSequenceClassification", "ForTokenClassification"):
        last = linear("classifier", hidden, c.labels(), True, adaptable=False)
    elif head == "ForMultipleChoice":
        last = linear("classifier", hidden, 1, True, adaptable=False)
    elif head == "ForQuestionAnswering":
        extra = [linear("qa_outputs", hidden, c.labels() if d.qa_labels else 2, True)]
    return Model(
        root=block("", trunk(d, c, pooled), last, *extra, kind="Model"),
        hidden=hidden,
        layers=d.layer_count(c),
        vocabulary=c["vocab_size"],
        context=context_of(c),
        head=last,
        head_tied=is_tied,
        outer=d.outer,
    )


def encoder(
    model_type: str,
    stem: str,
    knobs: Encoder,
    *,
    has: Sequence[str] = HEADS,
    base: str | None = None,
    classes: Mapping[str, Builder] | None = None,
    **changes: Any,
) -> Architecture:
    """Declare an encoder family: model type, class stem, knobs, the heads its classes have."""
    knobs = replace(knobs, **changes)
    base = f"{stem}Model" if base is None else base
    made: dict[str, Builder] = {base: partial(build, knobs, "")}
    made |= {f"{stem}{head}": partial(build, knobs, head) for head in has}
    return Architecture(model_type=model_type, classes=made | dict(classes or {}), base=base)
