"""T5 and its line: relative positions by bucket, no biases, one shared embedding (always tied)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tracker.estimate.blocks import gated, gqa, plain
from tracker.estimate.decoder import context_of
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, Part, block, embedding, linear, norm, tied


@dataclass(frozen=True, slots=True, kw_only=True)
class T5:
    """The knobs: ``every`` layer has its own position table (UMT5); ``attention`` names the encoder's."""

    every: bool = False
    local: bool = False
    tie: bool = True


def _gated(c: Config) -> bool:
    """``feed_forward_proj`` says gated-...; it decides, whatever ``is_gated_act`` says."""
    kind = c.text("feed_forward_proj")
    if not kind:
        raise ConfigError("feed_forward_proj is empty")
    is_gated = kind.split("-")[0] == "gated" and len(kind.split("-")) > 1
    if c.raw.get("is_gated_act", is_gated) is not is_gated:
        c.doubt("feed_forward_proj and is_gated_act disagree")
    return is_gated


def _stack(d: T5, c: Config, side: str) -> Node:
    hidden, heads, dim, inner = c["d_model"], c["num_heads"], c["d_kv"], c["d_ff"]
    cross = side == "decoder"
    layers = (c.maybe("num_decoder_layers", minimum=1) or c["num_layers"]) if cross else c["num_layers"]
    is_gated, buckets = _gated(c), c["relative_attention_num_buckets"]
    tables = layers if d.every else 1
    kind = c.text("encoder_attention_type", default="") if d.local and not cross else ""
    extra: list[Part] = [embedding("relative_attention_bias", buckets, heads, times=tables)]
    if kind == "transient-global":
        extra += [
            embedding("global_relative_attention_bias", buckets, heads, times=tables),
            norm("global_input_layer_norm", hidden, times=layers),
        ]
    elif kind not in ("", "local"):
        raise ConfigError(f"encoder_attention_type {kind[:40]!r} is not known")
    feed = (
        gated(hidden, inner, names=("wi_0", "wi_1", "wo"), name="DenseReluDense", times=layers)
        if is_gated
        else plain(hidden, inner, False, names=("wi", "wo"), name="DenseReluDense", times=layers)
    )
    family = "t5_gated" if is_gated else "t5"
    return block(
        side,
        block(
            "block.*",
            gqa(hidden, heads, heads, dim, query="q", out="o", name="SelfAttention", times=layers, cached=cross),
            gqa(hidden, heads, heads, dim, query="q", out="o", name="EncDecAttention", times=layers, cross=True)
            if cross
            else None,
            feed,
            norm("layer_norm", hidden, times=layers * (3 if cross else 2)),
            kind="Layers",
            width=hidden,
            formula=f"{family}_decoder" if cross else family,
        ),
        *extra,
        norm("final_layer_norm", hidden),
        width=hidden,
    )


def _build(d: T5, head: str, c: Config) -> Model:
    hidden, vocabulary = c["d_model"], c["vocab_size"]
    encoder_only = head in ("EncoderModel", "ForTokenClassification")
    parts: list[Part] = [embedding("shared", vocabulary, hidden), _stack(d, c, "encoder")]
    if not encoder_only:
        parts.append(_stack(d, c, "decoder"))
    last: Node | None = None
    is_tied: bool | None = None
    if head == "ForConditionalGeneration":
        is_tied = d.tie or c.flag("tie_word_embeddings", default=True)
        last = (
            tied("lm_head", hidden, vocabulary)
            if is_tied
            else linear("lm_head", hidden, vocabulary, adaptable=False)
        )
    elif head == "ForSequenceClassification":
        parts.append(
            block(
                "classification_head",
                linear("dense", hidden, hidden, True),
                linear("out_proj", hidden, c.labels(), True),
            )
        )
    elif head == "ForTokenClassification":
        last = linear("classifier", hidden, c.labels(), True, adaptable=False)
    elif head == "ForQuestionAnswering":
        parts.append(linear("qa_outputs", hidden, c.labels(), True))
    return Model(
        root=block("", *parts, last, kind="Model"),
        hidden=hidden,
        layers=c["num_layers"] + (0 if encoder_only else (c.maybe("num_decoder_layers") or c["num_layers"])),
        vocabulary=vocabulary,
        context=context_of(c) or c.maybe("n_positions"),
        head=last,
        head_tied=is_tied,
        generates=not encoder_only,
        outer="t5",
        encoder_decoder=not encoder_only,
    )


def _architecture(model_type: str, stem: str, d: T5, has: Sequence[str], also: str = "") -> Architecture:
    stems = (stem, also) if also else (stem,)
    classes = {f"{name}{head or 'Model'}": partial(_build, d, head) for name in stems for head in ("", *has)}
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


ALL = (
    "ForConditionalGeneration",
    "EncoderModel",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
ARCHITECTURES = (
    _architecture("t5", "T5", T5(), ALL),
    _architecture("mt5", "MT5", T5(), ALL, also="T5"),  # the mT5 checkpoints name T5's classes
    _architecture("umt5", "UMT5", T5(every=True), ALL),
    _architecture("longt5", "LongT5", T5(local=True), ALL[:2]),
)
