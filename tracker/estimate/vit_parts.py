"""What vision transformers share: patches, learned tokens, layers, classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tracker.estimate.blocks import plain
from tracker.estimate.model import Architecture, Builder, Model
from tracker.estimate.reader import Config
from tracker.estimate.structure import Node, Part, block, conv, linear, norm, parameter
from tracker.estimate.towers import (
    QKV,
    patches,
    self_attention,
    stack,
)

Parts = Callable[[Config], Sequence[Part]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vision:
    """The knobs of a ViT.

    Attributes:
        tokens: Learned tokens before the patches; ``placed`` of them have positions.
        masked: A mask token.
        scale: The config key of the layer scales; "" for none.
        ratio: The feed-forward is ``mlp_ratio`` times the hidden size.
        last_norm: A norm at the end; ``pooler``: a matrix after it.
        head_twice: The classifier reads the class token and the mean of the patches.

    """

    tokens: int = 1
    placed: int = 1
    positions: bool = True
    masked: bool = False
    registers: str = ""
    scale: str = ""
    ratio: bool = False
    last_norm: bool = True
    pooler: bool = False
    head_twice: bool = False
    k_bias: bool = True
    extra: Parts | None = None


def layers(d: Vision, c: Config, total: int, hidden: int, inner: int, heads: int) -> Node:
    """The layers: attention, a plain (or SwiGLU) feed-forward, two norms, layer scales."""
    bias = c.flag("qkv_bias", default=True)
    scales = bool(d.scale) and (c.value(d.scale) is not None and c.number(d.scale) > 0)
    swiglu = d.ratio and c.flag("use_swiglu_ffn")
    if swiglu:
        wide = (int(inner * 2 / 3) + 7) // 8 * 8
        feed = block(
            "mlp",
            linear("weights_in", hidden, 2 * wide, True),
            linear("weights_out", wide, hidden, True),
            times=total,
            kind="MLP",
        )
    else:
        feed = plain(hidden, inner, times=total)
    return stack(
        "layers.*",
        hidden,
        total,
        self_attention(
            hidden, heads, QKV, "o_proj", bias=(bias, bias and d.k_bias, bias, True), name="attention", times=total
        ),
        feed,
        norm("layernorm", hidden, True, times=2 * total),
        parameter("layer_scale", hidden, times=2 * total) if scales else None,
    )


def trunk(d: Vision, c: Config, *, masked: bool = False, pooled: bool = False) -> Node:
    """Tokens, patches, layers and, for some classes, the pooler."""
    hidden, total = c["hidden_size"], c["num_hidden_layers"]
    inner = int(hidden * c.number("mlp_ratio")) if d.ratio else c["intermediate_size"]
    registers = c.whole(d.registers, minimum=0) if d.registers else 0
    return block(
        "model",
        parameter("embeddings.tokens", hidden, times=d.tokens) if d.tokens else None,
        parameter("embeddings.mask_token", hidden) if masked or d.masked else None,
        parameter("embeddings.register_tokens", registers, hidden) if registers else None,
        parameter("embeddings.position_embeddings", patches(c) + d.placed, hidden) if d.positions else None,
        conv("embeddings.patch_embeddings.projection", c["num_channels"], hidden, *c.pair("patch_size")),
        *(d.extra(c) if d.extra else ()),
        layers(d, c, total, hidden, inner, c["num_attention_heads"]),
        norm("layernorm", hidden, True) if d.last_norm else None,
        linear("pooler.dense", hidden, c.maybe("pooler_output_size") or hidden, True)
        if pooled and d.pooler
        else None,
        width=hidden,
    )


def model(c: Config, root: Node, last: Node | None = None, context: int | None = None) -> Model:
    """A vision model around this tree; ``context`` counts its tokens."""
    return Model(
        root=root,
        hidden=c["hidden_size"],
        layers=c["num_hidden_layers"],
        context=context if context is not None else patches(c) + 1,
        head=last,
        head_adapted=last is not None,
        outer="bert",
    )


def base(d: Vision, c: Config) -> Model:
    """The class without a head."""
    return model(c, block("", trunk(d, c, pooled=True), kind="Model"))


def classify(d: Vision, c: Config) -> Model:
    """The class with a classifier; no labels, no classifier."""
    hidden, labels = c["hidden_size"], c.labels()
    last = (
        linear("classifier", hidden * (2 if d.head_twice else 1), labels, True, adaptable=False)
        if labels
        else None
    )
    return model(c, block("", trunk(d, c), last, kind="Model"), last)


def vit(
    model_type: str, stem: str, d: Vision, more: Mapping[str, Callable[[Vision, Config], Model]]
) -> Architecture:
    """Declare a ViT family: its trunk class and its heads."""
    classes: dict[str, Builder] = {f"{stem}Model": partial(base, d)}
    classes |= {f"{stem}{name}": partial(make, d) for name, make in more.items()}
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


def only(model_type: str, name: str, make: Builder, **more: Builder) -> Architecture:
    """Declare a model type with the classes given."""
    return Architecture(model_type=model_type, classes={name: make, **more}, base=name)


CLASSIFY = {"ForImageClassification": classify}
