"""Networks in stages: ResNet, ConvNeXt, Swin. Each stage halves the picture and widens the channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tracker.estimate.blocks import plain
from tracker.estimate.model import Architecture, Builder, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, Part, block, conv, linear, norm, parameter
from tracker.estimate.towers import QKV, self_attention, stack

STAGES = 64


def _stages(c: Config) -> list[tuple[int, int]]:
    """Width and depth of each stage."""
    widths, depths = c.ints("hidden_sizes", minimum=1), c.ints("depths", minimum=1)
    if not widths or len(widths) != len(depths) or len(widths) > STAGES:
        raise ConfigError("hidden_sizes and depths do not fit together")
    if c.maybe("num_stages") not in (None, len(widths)):
        raise ConfigError("num_stages and hidden_sizes do not fit together")
    return list(zip(widths, depths, strict=True))


def _classifier(c: Config, width: int) -> Node | None:
    labels = c.labels()
    return linear("classifier", width, labels, True, adaptable=False) if labels else None


def _finish(c: Config, body: Node, width: int, layers: int, classify: bool) -> Model:
    last = _classifier(c, width) if classify else None
    return Model(
        root=block("", body, last, kind="Model"),
        hidden=width,
        layers=layers,
        context=1,
        head=last,
        head_adapted=last is not None,
        outer="bert",
    )


# --- ResNet --------------------------------------------------------------------------------------------


def _convolution(name: str, inputs: int, outputs: int, kernel: int, times: int = 1) -> Node:
    """A convolution without bias, then batch norm."""
    return block(
        name,
        conv("convolution", inputs, outputs, kernel, kernel, bias=False),
        norm("normalization", outputs, True, kind="BatchNorm2d"),
        times=times,
    )


def _resnet(classify: bool, c: Config) -> Model:
    """ResNet with basic or bottleneck blocks."""
    kind, stem = c.text("layer_type"), c["embedding_size"]
    if kind not in ("basic", "bottleneck"):
        raise ConfigError(f"layer_type {kind[:40]!r} is not known")
    parts: list[Part] = [_convolution("embedder.embedder", c["num_channels"], stem, 7)]
    inputs = stem
    for i, (width, depth) in enumerate(_stages(c)):
        first_stride = 2 if i or c.flag("downsample_in_first_stage") else 1
        shortcut = inputs != width or first_stride != 1
        narrow = width // 4

        def block_of(wide_in: int, width: int = width, narrow: int = narrow) -> Sequence[Part]:
            if kind == "bottleneck":
                return [
                    _convolution("layer.0", wide_in, narrow, 1),
                    _convolution("layer.1", narrow, narrow, 3),
                    _convolution("layer.2", narrow, width, 1),
                ]
            return [_convolution("layer.0", wide_in, width, 3), _convolution("layer.1", width, width, 3)]

        parts.append(
            block(
                f"encoder.stages.{i}",
                block(
                    "layers.0", *block_of(inputs), _convolution("shortcut", inputs, width, 1) if shortcut else None
                ),
                block("layers.*", *block_of(width), times=depth - 1) if depth > 1 else None,
            )
        )
        inputs = width
    return _finish(
        c, block("resnet", *parts, width=inputs), inputs, sum(depth for _, depth in _stages(c)), classify
    )


# --- ConvNeXt ------------------------------------------------------------------------------------------


def _convnext(second: bool, classify: bool, c: Config) -> Model:
    """ConvNeXt: depthwise convolutions, then a wide feed-forward; version 2 normalises its responses."""
    scale = not second and c.number("layer_scale_init_value") > 0
    stages = _stages(c)
    first, size = stages[0][0], c["patch_size"]
    parts: list[Part] = [
        conv("embeddings.patch_embeddings", c["num_channels"], first, size, size),
        norm("embeddings.layernorm", first, True),
    ]
    inputs = first
    for i, (width, depth) in enumerate(stages):
        if i:
            parts += [
                norm(f"encoder.stages.{i}.downsampling_layer.0", inputs, True),
                conv(f"encoder.stages.{i}.downsampling_layer.1", inputs, width, 2, 2),
            ]
        parts.append(
            block(
                f"encoder.stages.{i}.layers.*",
                conv("dwconv", width, width, 7, 7, groups=width),
                norm("layernorm", width, True),
                linear("pwconv1", width, 4 * width, True),
                norm("grn", 4 * width, True) if second else None,
                linear("pwconv2", 4 * width, width, True),
                parameter("layer_scale_parameter", width) if scale else None,
                times=depth,
            )
        )
        inputs = width
    parts.append(norm("layernorm", inputs, True))
    return _finish(c, block("convnext", *parts, width=inputs), inputs, sum(depth for _, depth in stages), classify)


# --- Swin ------------------------------------------------------------------------------------------------


def _swin_attention(second: bool, c: Config, width: int, heads: int, times: int) -> Node:
    """Attention in windows; positions by a table, or (second version) by a small network."""
    high, bias = c.pair("window_size"), c.flag("qkv_bias")
    if second:
        extra: list[Part] = [
            parameter("logit_scale", heads),
            linear("continuous_position_bias_mlp.0", 2, 512, True),
            linear("continuous_position_bias_mlp.2", 512, heads),
        ]
    else:
        extra = [parameter("relative_position_bias_table", (2 * high[0] - 1) * (2 * high[1] - 1), heads)]
    return self_attention(
        width,
        heads,
        QKV,
        "o_proj",
        *extra,
        bias=(bias, bias and not second, bias, True),
        name="attention",
        times=times,
    )


def _output_norms(second: bool, c: Config, stages: int) -> list[Part]:
    """A norm for each stage that a backbone gives out (first version only); the last stage by default."""
    if c.given("out_indices") and not c.given("out_features"):
        raise ConfigError("out_indices without out_features is not counted")
    names = c.items("out_features", default=None) or [f"stage{stages}"]
    known = {f"stage{i + 1}": c["embed_dim"] << i for i in range(stages)} | {"stem": c["embed_dim"]}
    if not all(isinstance(name, str) and name in known for name in names):
        raise ConfigError("out_features names a stage that there is not")
    return [] if second else [norm(f"hidden_states_norms.{name}", known[name], True) for name in names]


def _swin(second: bool, head: str, c: Config) -> Model:
    width, depths = c["embed_dim"], c.ints("depths", minimum=1)
    heads, ratio = c.ints("num_heads", minimum=1), c.number("mlp_ratio")
    if not depths or len(depths) != len(heads) or len(depths) > STAGES:
        raise ConfigError("depths and num_heads do not fit together")
    if c.given("num_layers") and c["num_layers"] != len(depths):
        raise ConfigError("num_layers and depths do not fit together")
    (high, wide), (down, across) = c.pair("image_size"), c.pair("patch_size")
    absolute = c.flag("use_absolute_embeddings")
    parts: list[Part] = [
        conv("embeddings.patch_embeddings.projection", c["num_channels"], width, down, across),
        norm("embeddings.norm", width, True),
        parameter("embeddings.position_embeddings", (high // down) * (wide // across) + second, width)
        if absolute
        else None,
        parameter("embeddings.mask_token", width) if head == "ForMaskedImageModeling" else None,
    ]
    for i, (depth, n) in enumerate(zip(depths, heads, strict=True)):
        parts.append(
            stack(
                f"encoder.layers.{i}.blocks.*",
                width,
                depth,
                _swin_attention(second, c, width, n, depth),
                plain(width, int(ratio * width), times=depth),
                norm("layernorm", width, True, times=2 * depth),
            )
        )
        if i < len(depths) - 1:
            parts += [
                linear(f"encoder.layers.{i}.downsample.reduction", 4 * width, 2 * width),
                norm(f"encoder.layers.{i}.downsample.norm", (2 if second else 4) * width, True),
            ]
            width *= 2
    if not (second and head == "Backbone"):
        parts.append(norm("layernorm", width, True))
    if head == "Backbone":
        parts += _output_norms(second, c, len(depths))
    body = block("swin", *parts, width=width)
    if head == "ForMaskedImageModeling":
        stride = c["encoder_stride"]
        decoder = conv("decoder.0", width, stride * stride * c["num_channels"], 1, 1)
        return Model(
            root=block("", body, decoder, kind="Model"), hidden=width, layers=sum(depths), context=1, outer="bert"
        )
    return _finish(c, body, width, sum(depths), head == "ForImageClassification")


def _pair(
    model_type: str, stem: str, make: Callable[[bool, Config], Model], *, backbone: bool = False
) -> Architecture:
    classes: dict[str, Builder] = {
        f"{stem}Model": partial(make, False),
        f"{stem}ForImageClassification": partial(make, True),
    }
    if backbone:
        classes[f"{stem}Backbone"] = partial(make, False)
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


def _swin_architecture(model_type: str, stem: str, second: bool) -> Architecture:
    heads = ("ForImageClassification", "ForMaskedImageModeling", "Backbone")
    classes: dict[str, Builder] = {f"{stem}Model": partial(_swin, second, "")}
    classes |= {f"{stem}{head}": partial(_swin, second, head) for head in heads}
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


ARCHITECTURES = (
    _pair("resnet", "ResNet", _resnet, backbone=True),
    _pair("convnext", "ConvNext", partial(_convnext, False)),
    _pair("convnextv2", "ConvNextV2", partial(_convnext, True)),
    _swin_architecture("swin", "Swin", False),
    _swin_architecture("swinv2", "Swinv2", True),
)
