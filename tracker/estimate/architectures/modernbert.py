"""ModernBERT: rotary positions, gated feed-forward, two local layers to each global one."""

from __future__ import annotations

from functools import partial

from tracker.estimate.blocks import layer_types
from tracker.estimate.decoder import context_of
from tracker.estimate.encoder import vocabulary_head
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Dims, Node, block, embedding, linear, norm


def _global_layers(c: Config) -> int:
    total, types = c["num_hidden_layers"], layer_types(c)
    if types:
        return sum(kind == "full_attention" for kind in types)
    step = c.maybe("global_attn_every_n_layers", minimum=1) or 3
    return -(-total // step)


def _attention(c: Config, times: int, window: int | None) -> Node | None:
    hidden, heads, bias = c["hidden_size"], c["num_attention_heads"], c.flag("attention_bias")
    if not times:
        return None
    return block(
        "attn",
        linear("Wqkv", hidden, 3 * hidden, bias),
        linear("Wo", hidden, hidden, bias),
        times=times,
        kind="Attention",
        dims=Dims(hidden=hidden, query=hidden, key=hidden, heads=heads, window=window),
        width=hidden,
    )


def _trunk(c: Config) -> Node:
    hidden, inner, total = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"]
    norm_bias, bias = c.flag("norm_bias"), c.flag("mlp_bias")
    wide = _global_layers(c)
    return block(
        "model",
        block(
            "embeddings",
            embedding("tok_embeddings", c["vocab_size"], hidden),
            norm("norm", hidden, norm_bias, kind="LayerNorm"),
        ),
        block(
            "layers.*",
            _attention(c, wide, None),
            _attention(c, total - wide, c["local_attention"]),
            block(
                "mlp",
                linear("Wi", hidden, 2 * inner, bias),
                linear("Wo", inner, hidden, bias),
                times=total,
                kind="MLP",
                dims=Dims(hidden=hidden, ffn=inner),
                width=hidden,
            ),
            norm("attn_norm", hidden, norm_bias, times=total - 1, kind="LayerNorm"),  # the first layer has none
            norm("mlp_norm", hidden, norm_bias, times=total, kind="LayerNorm"),
            kind="Layers",
            width=hidden,
            formula="modernbert",
        ),
        norm("final_norm", hidden, norm_bias, kind="LayerNorm"),
        width=hidden,
    )


def _build(head: str, c: Config) -> Model:
    hidden = c["hidden_size"]
    last: Node | None = None
    is_tied: bool | None = None
    prediction = block(
        "head",
        linear("dense", hidden, hidden, c.flag("classifier_bias")),
        norm("norm", hidden, c.flag("norm_bias"), kind="LayerNorm"),
    )
    if head == "ForMaskedLM":
        is_tied = c.flag("tie_word_embeddings", default=True)
        if not c.flag("decoder_bias"):
            raise ConfigError("a ModernBERT language head without a bias is not counted")
        last = vocabulary_head("decoder", c, hidden, twice=False)
    elif head:
        last = linear(
            "classifier", hidden, 1 if head == "ForMultipleChoice" else c.labels(), True, adaptable=False
        )
    return Model(
        root=block("", _trunk(c), last, prediction if head else None, kind="Model"),
        hidden=hidden,
        layers=c["num_hidden_layers"],
        vocabulary=c["vocab_size"],
        context=context_of(c),
        head=last,
        head_tied=is_tied,
        outer="modernbert",
    )


_HEADS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
ARCHITECTURES = (
    Architecture(
        model_type="modernbert",
        classes={"ModernBertModel": partial(_build, "")} | {f"ModernBert{h}": partial(_build, h) for h in _HEADS},
        base="ModernBertModel",
    ),
)
