"""Decoder-only language models: one set of knobs that covers the llama-like families."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tracker.estimate.blocks import gated, gqa, layer_types, plain, sliding, window_of
from tracker.estimate.model import Architecture, Builder, Model
from tracker.estimate.reader import LARGEST, Config, ConfigError
from tracker.estimate.structure import Node, Part, block, embedding, linear, norm, tied

Flag = bool | str  # fixed, or the config key that says
Size = Callable[[Config], int]
Parts = Callable[["Decoder", Config], Sequence[Part]]

HEADS = ("ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
NO_QA = HEADS[:3]
LM = HEADS[:1]


def flag(c: Config, value: Flag) -> bool:
    """A knob's value: itself, or what the config says under that key (absent: False)."""
    return value if isinstance(value, bool) else c.flag(value, default=False)


def heads_of(c: Config) -> int:
    """Attention heads."""
    return c["num_attention_heads"]


def kv_heads_of(c: Config) -> int:
    """Key-value heads; as many as heads where the config leaves it open."""
    return c.maybe("num_key_value_heads", minimum=1) or heads_of(c)


def head_dim_of(c: Config) -> int:
    """The config's ``head_dim``, else hidden / heads, as the classes compute it."""
    return c.maybe("head_dim") or c["hidden_size"] // heads_of(c)


def hidden_by_heads(c: Config) -> int:
    """Hidden / heads, where the class looks at no ``head_dim``."""
    return c["hidden_size"] // heads_of(c)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """The knobs of a decoder family. A `Flag` is a bool or the config key that holds it.

    Attributes:
        norm: ``rms`` (weight), ``layer`` (weight and bias), ``scale`` (LayerNorm without bias) or ``none``.
        norms: How many norms of the hidden size a layer has.
        qk_norm: None, ``head`` (a vector of head_dim, shared by all heads) or ``full`` (over all heads).
        mlp: ``gated``, ``fused`` (gate and up in one matrix) or ``plain`` (two matrices).
        sparse: How many layers have ``moe`` instead of the feed-forward.
        sliding: How many layers attend within ``window`` only.
        attention, feed_forward, moe, layer_extra, extra: Parts that knobs cannot say: of all layers'
            attention, all layers' feed-forward, one mixture, all layers, the trunk.

    """

    prefix: str = "model"
    layers: str = "layers"
    layer_count: str = "num_hidden_layers"
    embed: str = "embed_tokens"
    qkv_bias: Flag = False
    k_bias: Flag | None = None
    o_bias: Flag = False
    mlp_bias: Flag = False
    fused_qkv: str = ""
    query_name: str = "q_proj"
    out_name: str = "o_proj"
    norm: str = "rms"
    norm_bias: Flag | None = None
    norms: int = 2
    last_norm: str = "norm"
    qk_norm: str | None = None
    qk_norm_bias: bool = False
    mlp: str = "gated"
    mlp_names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    ffn: Size = lambda c: c["intermediate_size"]
    heads: Size = heads_of
    kv_heads: Size = kv_heads_of
    head_dim: Size = head_dim_of
    head_bias: Flag = False
    tie: Flag = "tie_word_embeddings"
    attention: Parts | None = None
    feed_forward: Parts | None = None
    sparse: Size = lambda _: 0
    moe: Parts | None = None
    sliding: Size = sliding
    window: Callable[[Config], int | None] = window_of
    layer_extra: Parts | None = None
    extra: Parts | None = None
    outer: str = "llama"
    activations: str = "llama"
    score: str = "score"
    token_score: str = ""
    token_bias: bool = True
    positions: Size | None = None
    generates: bool = True


def norm_of(d: Decoder, c: Config, name: str, width: int, times: int = 1) -> Part:
    """A norm of the family's kind."""
    if d.norm == "none" or not times:
        return None
    bias = d.norm == "layer" if d.norm_bias is None else flag(c, d.norm_bias)
    return norm(name, width, bias, times=times, kind="RMSNorm" if d.norm == "rms" else "LayerNorm")


def attention(d: Decoder, c: Config, *extra: Part, window: int | None = None, times: int = 1) -> Node:
    """Attention by the family's knobs."""
    heads, kv, dim = d.heads(c), d.kv_heads(c), d.head_dim(c)
    norms: list[Part] = []
    if d.qk_norm == "full" and c["hidden_size"] % heads:
        c.doubt(f"{c.path}the norm of all queries may be as wide as them, or as the hidden size")
    if d.qk_norm:
        q, k = (dim, dim) if d.qk_norm == "head" else (heads * dim, kv * dim)
        norms = [norm("q_norm", q, d.qk_norm_bias), norm("k_norm", k, d.qk_norm_bias)]
    return gqa(
        c["hidden_size"],
        heads,
        kv,
        dim,
        *norms,
        *extra,
        q_bias=flag(c, d.qkv_bias),
        k_bias=flag(c, d.qkv_bias if d.k_bias is None else d.k_bias),
        o_bias=flag(c, d.o_bias),
        fused=d.fused_qkv,
        query=d.query_name,
        out=d.out_name,
        window=window,
        times=times,
    )


def attention_layers(d: Decoder, c: Config, *extra: Part) -> Sequence[Part]:
    """Attention of every layer: those with a window and those without."""
    total = c[d.layer_count]
    window = d.window(c)
    narrow = min(d.sliding(c), total) if window else 0
    wide = attention(d, c, *extra, times=total - narrow) if narrow < total else None
    return [wide, attention(d, c, *extra, window=window, times=narrow) if narrow else None]


def mlp(d: Decoder, c: Config, width: int, *extra: Part, times: int = 1, name: str = "mlp") -> Node:
    """The family's feed-forward of this inner width."""
    hidden, bias = c["hidden_size"], flag(c, d.mlp_bias)
    if d.mlp == "plain":
        return plain(hidden, width, bias, *extra, names=d.mlp_names[-2:], times=times, name=name)
    fused = d.mlp == "fused"
    return gated(hidden, width, bias, *extra, fused=fused, names=d.mlp_names, times=times, name=name)


def mlp_layers(d: Decoder, c: Config) -> Sequence[Part]:
    """Feed-forward of every layer: dense ones and mixtures."""
    total = c[d.layer_count]
    sparse = min(d.sparse(c), total) if d.moe else 0
    dense = mlp(d, c, d.ffn(c), times=total - sparse) if sparse < total else None
    mixed = block("", *d.moe(d, c), times=sparse) if sparse and d.moe else None
    return [dense, mixed]


def trunk(d: Decoder, c: Config) -> Node:
    """Embedding, layers, final norm."""
    hidden, total = c["hidden_size"], c[d.layer_count]
    return block(
        d.prefix,
        embedding(d.embed, c["vocab_size"], hidden),
        embedding("position_embeddings", d.positions(c), hidden) if d.positions else None,
        *(d.extra(d, c) if d.extra else ()),
        block(
            f"{d.layers}.*",
            *(d.attention or attention_layers)(d, c),
            *(d.feed_forward or mlp_layers)(d, c),
            norm_of(d, c, "norm", hidden, total * d.norms),
            *(d.layer_extra(d, c) if d.layer_extra else ()),
            kind="Layers",
            width=hidden,
            formula=d.activations,
        ),
        norm_of(d, c, d.last_norm, hidden) if d.last_norm else None,
        kind="Decoder",
        width=hidden,
    )


def context_of(c: Config) -> int | None:
    """The longest input the config allows, in tokens; None where it does not say."""
    value = c.value("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", default=None)
    return value if type(value) is int and 0 < value <= LARGEST else None


def output_layer(c: Config, hidden: int, *, bias: bool, is_tied: bool, name: str = "lm_head") -> Node:
    """The projection to the vocabulary: the embedding again, or a matrix of its own."""
    if is_tied:
        return tied(name, hidden, c["vocab_size"], bias)
    return linear(name, hidden, c["vocab_size"], bias, adaptable=False)


def build(d: Decoder, head: str, c: Config) -> Model:
    """One class of a family: the trunk and its head."""
    hidden = c["hidden_size"]
    last: Node | None = None
    task: Node | None = None
    is_tied: bool | None = None
    if head == "ForCausalLM":
        is_tied = flag(c, d.tie)
        last = output_layer(c, hidden, bias=flag(c, d.head_bias), is_tied=is_tied)
    elif head == "ForSequenceClassification":
        last = linear(d.score, hidden, c.labels(), adaptable=False)
    elif head == "ForTokenClassification":
        last = linear(d.token_score or d.score, hidden, c.labels(), d.token_bias, adaptable=False)
    elif head == "ForQuestionAnswering":
        task = linear("qa_outputs", hidden, 2, True)
    elif head:
        raise ConfigError(f"no head called {head}")
    return Model(
        root=block("", trunk(d, c), last, task, kind="Model"),
        hidden=hidden,
        layers=c[d.layer_count],
        vocabulary=c["vocab_size"],
        context=context_of(c),
        head=last,
        head_tied=is_tied,
        generates=d.generates,
        outer=d.outer,
    )


def decoder(
    model_type: str,
    stem: str,
    knobs: Decoder,
    *,
    has: Sequence[str] = HEADS,
    base: str | None = None,
    causal: str | None = None,
    classes: Mapping[str, Builder] | None = None,
    **changes: Any,
) -> Architecture:
    """Declare a decoder family.

    Of the arguments:
        model_type: As in config.json.
        stem: What its class names start with.
        knobs: Its knobs, with ``changes`` on top.
        has: The heads its classes have.
        base: The trunk's class, if it is not the stem and ``Model``; "" for none.
        causal: The language model's class, if it is not the stem and ``ForCausalLM``.
        classes: More classes, by name.

    """
    knobs = replace(knobs, **changes)
    base = f"{stem}Model" if base is None else base
    made: dict[str, Builder] = {base: partial(build, knobs, "")} if base else {}
    made |= {
        f"{stem}{head}": partial(build, knobs, head) for head in has if not (causal and head == "ForCausalLM")
    }
    if causal:
        made[causal] = partial(build, knobs, "ForCausalLM")
    made |= classes or {}
    return Architecture(model_type=model_type, classes=made, base=base or next(iter(made)))


LLAMA = Decoder()


def alternating(step: int, *keys: str) -> Size:
    """Every ``step``-th layer is global, the others slide, unless ``layer_types`` says otherwise.

    ``keys`` are where a config may give another step.
    """

    def count(c: Config) -> int:
        types = layer_types(c)
        if types:
            return sum(kind == "sliding_attention" for kind in types)
        total, n = c["num_hidden_layers"], c.maybe(*keys) if keys else None
        return total - total // (n or step)

    return count
