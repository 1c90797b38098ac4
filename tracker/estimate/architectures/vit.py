"""ViT, DeiT, MAE, BEiT, I-JEPA, ViViT: patches under learned positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tracker.estimate.model import Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Part, block, conv, linear, norm, parameter
from tracker.estimate.towers import (
    patches,
)
from tracker.estimate.vit_parts import CLASSIFY, Vision, layers, model, only, trunk, vit


def _with_teacher(d: Vision, c: Config) -> Model:
    hidden, labels = c["hidden_size"], c.labels()
    if not labels:
        raise ConfigError("no labels")
    parts = [
        linear("cls_classifier", hidden, labels, True),
        linear("distillation_classifier", hidden, labels, True),
    ]
    return model(c, block("", trunk(d, c), *parts, kind="Model"))


def _masked_image(d: Vision, c: Config) -> Model:
    hidden, stride = c["hidden_size"], c["encoder_stride"]
    decoder = conv("decoder.0", hidden, stride * stride * c["num_channels"], 1, 1)
    return model(c, block("", trunk(d, c, masked=True), decoder, kind="Model"))


def _mae_pretraining(d: Vision, c: Config) -> Model:
    """MAE's decoder: narrower, over all patches, back to pixels."""
    hidden, narrow, total = c["hidden_size"], c["decoder_hidden_size"], c["decoder_num_hidden_layers"]
    high, wide = c.pair("patch_size")
    decoder = block(
        "decoder",
        parameter("mask_token", narrow),
        parameter("decoder_pos_embed", patches(c) + 1, narrow),
        linear("decoder_embed", hidden, narrow, True),
        layers(d, c, total, narrow, c["decoder_intermediate_size"], c["decoder_num_attention_heads"]),
        norm("decoder_norm", narrow, True),
        linear("decoder_pred", narrow, high * wide * c["num_channels"], True),
    )
    return model(c, block("", trunk(d, c), decoder, kind="Model"))


def _beit_extras(c: Config) -> Sequence[Part]:
    """BEiT's options: positions, a mask token, relative position tables."""
    hidden, heads, total = c["hidden_size"], c["num_attention_heads"], c["num_hidden_layers"]
    high, wide = (size // patch for size, patch in zip(c.pair("image_size"), c.pair("patch_size"), strict=True))
    table = (2 * high - 1) * (2 * wide - 1) + 3
    return [
        parameter("embeddings.mask_token", hidden) if c.flag("use_mask_token") else None,
        parameter("embeddings.position_embeddings", patches(c) + 1, hidden)
        if c.flag("use_absolute_position_embeddings")
        else None,
        parameter("relative_position_bias", table, heads) if c.flag("use_shared_relative_position_bias") else None,
        parameter("relative_position_bias", table, heads, times=total)
        if c.flag("use_relative_position_bias")
        else None,
        norm("pooler.layernorm", hidden, True),  # after the mean of the patches, or at the end of the layers
    ]


VIT = Vision(pooler=True)


MAE = Vision()


DEIT = Vision(tokens=2, placed=2, pooler=True)


BEIT = Vision(positions=False, last_norm=False, scale="layer_scale_init_value", k_bias=False, extra=_beit_extras)


def _vivit(classify: bool, c: Config) -> Model:
    """ViViT: a ViT over tubes of a clip."""
    hidden, total = c["hidden_size"], c["num_hidden_layers"]
    tube = c.ints("tubelet_size", minimum=1)
    if len(tube) != 3:
        raise ConfigError("tubelet_size is not a list of three")
    high, wide = c.pair("image_size")
    tokens = (c["num_frames"] // tube[0]) * (high // tube[1]) * (wide // tube[2])
    body = block(
        "vivit",
        parameter("embeddings.cls_token", hidden),
        parameter("embeddings.position_embeddings", tokens + 1, hidden),
        conv("embeddings.patch_embeddings.projection", c["num_channels"], hidden, *tube),
        layers(MAE, c, total, hidden, c["intermediate_size"], c["num_attention_heads"]),
        norm("layernorm", hidden, True),
        None if classify else linear("pooler.dense", hidden, c.maybe("pooler_output_size") or hidden, True),
        width=hidden,
    )
    labels = c.labels()
    last = linear("classifier", hidden, labels, True, adaptable=False) if classify and labels else None
    return model(c, block("", body, last, kind="Model"), last, context=tokens + 1)


ARCHITECTURES = (
    vit("vit", "ViT", VIT, {**CLASSIFY, "ForMaskedImageModeling": _masked_image}),
    vit("vit_msn", "ViTMSN", MAE, CLASSIFY),
    vit("vit_mae", "ViTMAE", MAE, {"ForPreTraining": _mae_pretraining}),
    vit(
        "deit",
        "DeiT",
        DEIT,
        {**CLASSIFY, "ForImageClassificationWithTeacher": _with_teacher, "ForMaskedImageModeling": _masked_image},
    ),
    vit("ijepa", "IJepa", Vision(tokens=0, placed=0, pooler=False), CLASSIFY),
    vit("beit", "Beit", BEIT, CLASSIFY),
    only("vivit", "VivitModel", partial(_vivit, False), VivitForVideoClassification=partial(_vivit, True)),
)
