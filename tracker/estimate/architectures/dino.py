"""DINOv2 and v3: layer scales, registers, a classifier that reads two vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.blocks import gated, plain
from tracker.estimate.model import Model
from tracker.estimate.reader import Config
from tracker.estimate.structure import Part, block, conv, norm, parameter
from tracker.estimate.towers import (
    QKV,
    self_attention,
    stack,
)
from tracker.estimate.vit_parts import CLASSIFY, Vision, base, model, only, vit


def _dino_mask(c: Config) -> Sequence[Part]:
    wanted = c.flag("use_mask_token") if c.model_type == "dinov2" else True
    return [parameter("embeddings.mask_token", c["hidden_size"])] if wanted else []


DINOV2 = Vision(scale="layerscale_value", ratio=True, head_twice=True, extra=_dino_mask)


REGISTERS = Vision(
    scale="layerscale_value", ratio=True, head_twice=True, extra=_dino_mask, registers="num_register_tokens"
)


def _dinov3(c: Config) -> Model:
    """DINOv3: rotary positions, biases by config, optional gates."""
    hidden, total, inner = c["hidden_size"], c["num_hidden_layers"], c["intermediate_size"]
    bias = (c.flag("query_bias"), c.flag("key_bias"), c.flag("value_bias"), c.flag("proj_bias"))
    mlp_bias = c.flag("mlp_bias")
    feed = (
        gated(hidden, inner, mlp_bias, times=total)
        if c.flag("use_gated_mlp")
        else plain(hidden, inner, mlp_bias, names=("up_proj", "down_proj"), times=total)
    )
    root = block(
        "",
        parameter("embeddings.cls_token", hidden),
        parameter("embeddings.mask_token", hidden),
        parameter("embeddings.register_tokens", c.whole("num_register_tokens", minimum=0), hidden),
        conv("embeddings.patch_embeddings", c["num_channels"], hidden, *c.pair("patch_size")),
        stack(
            "layer.*",
            hidden,
            total,
            self_attention(
                hidden, c["num_attention_heads"], QKV, "o_proj", bias=bias, name="attention", times=total
            ),
            feed,
            norm("norm", hidden, True, times=2 * total),
            parameter("layer_scale", hidden, times=2 * total),
        ),
        norm("norm", hidden, True),
        kind="Model",
    )
    return model(c, root)


ARCHITECTURES = (
    vit("dinov2", "Dinov2", DINOV2, CLASSIFY),
    vit("dinov2_with_registers", "Dinov2WithRegisters", REGISTERS, {**CLASSIFY, "Backbone": base}),
    only("dinov3_vit", "DINOv3ViTModel", _dinov3, DINOv3ViTBackbone=_dinov3),
)
