"""Vision transformers and CLIP: ViT, DeiT, BEiT, DINOv2, MAE, CLIP, SigLIP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tracker.estimate.blocks import gated, plain
from tracker.estimate.model import Architecture, Builder, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, Part, block, conv, linear, norm, parameter
from tracker.estimate.towers import (
    QKV,
    TOWERS,
    clip_text,
    clip_vision,
    patches,
    self_attention,
    siglip_text,
    siglip_vision,
    stack,
)

Parts = Callable[[Config], Sequence[Part]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeing:
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


def _layers(d: Seeing, c: Config, total: int, hidden: int, inner: int, heads: int) -> Node:
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


def _trunk(d: Seeing, c: Config, *, masked: bool = False, pooled: bool = False) -> Node:
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
        _layers(d, c, total, hidden, inner, c["num_attention_heads"]),
        norm("layernorm", hidden, True) if d.last_norm else None,
        linear("pooler.dense", hidden, c.maybe("pooler_output_size") or hidden, True)
        if pooled and d.pooler
        else None,
        width=hidden,
    )


def _model(c: Config, root: Node, last: Node | None = None, context: int | None = None) -> Model:
    return Model(
        root=root,
        hidden=c["hidden_size"],
        layers=c["num_hidden_layers"],
        context=context if context is not None else patches(c) + 1,
        head=last,
        head_adapted=last is not None,
        outer="bert",
    )


def _base(d: Seeing, c: Config) -> Model:
    return _model(c, block("", _trunk(d, c, pooled=True), kind="Model"))


def _classify(d: Seeing, c: Config) -> Model:
    hidden, labels = c["hidden_size"], c.labels()
    last = (
        linear("classifier", hidden * (2 if d.head_twice else 1), labels, True, adaptable=False)
        if labels
        else None
    )
    return _model(c, block("", _trunk(d, c), last, kind="Model"), last)


def _with_teacher(d: Seeing, c: Config) -> Model:
    hidden, labels = c["hidden_size"], c.labels()
    if not labels:
        raise ConfigError("no labels")
    parts = [
        linear("cls_classifier", hidden, labels, True),
        linear("distillation_classifier", hidden, labels, True),
    ]
    return _model(c, block("", _trunk(d, c), *parts, kind="Model"))


def _masked_image(d: Seeing, c: Config) -> Model:
    hidden, stride = c["hidden_size"], c["encoder_stride"]
    decoder = conv("decoder.0", hidden, stride * stride * c["num_channels"], 1, 1)
    return _model(c, block("", _trunk(d, c, masked=True), decoder, kind="Model"))


def _mae_pretraining(d: Seeing, c: Config) -> Model:
    """MAE's decoder: narrower, over all patches, back to pixels."""
    hidden, narrow, total = c["hidden_size"], c["decoder_hidden_size"], c["decoder_num_hidden_layers"]
    high, wide = c.pair("patch_size")
    decoder = block(
        "decoder",
        parameter("mask_token", narrow),
        parameter("decoder_pos_embed", patches(c) + 1, narrow),
        linear("decoder_embed", hidden, narrow, True),
        _layers(d, c, total, narrow, c["decoder_intermediate_size"], c["decoder_num_attention_heads"]),
        norm("decoder_norm", narrow, True),
        linear("decoder_pred", narrow, high * wide * c["num_channels"], True),
    )
    return _model(c, block("", _trunk(d, c), decoder, kind="Model"))


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


VIT = Seeing(pooler=True)
MAE = Seeing()
DEIT = Seeing(tokens=2, placed=2, pooler=True)
BEIT = Seeing(positions=False, last_norm=False, scale="layer_scale_init_value", k_bias=False, extra=_beit_extras)
DINO = Seeing(masked=False, scale="layerscale_value", ratio=True, head_twice=True)


def _dino_mask(c: Config) -> Sequence[Part]:
    wanted = c.flag("use_mask_token") if c.model_type == "dinov2" else True
    return [parameter("embeddings.mask_token", c["hidden_size"])] if wanted else []


DINOV2 = Seeing(scale="layerscale_value", ratio=True, head_twice=True, extra=_dino_mask)
REGISTERS = Seeing(
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
    return _model(c, root)


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
        _layers(MAE, c, total, hidden, c["intermediate_size"], c["num_attention_heads"]),
        norm("layernorm", hidden, True),
        None if classify else linear("pooler.dense", hidden, c.maybe("pooler_output_size") or hidden, True),
        width=hidden,
    )
    labels = c.labels()
    last = linear("classifier", hidden, labels, True, adaptable=False) if classify and labels else None
    return _model(c, block("", body, last, kind="Model"), last, context=tokens + 1)


# --- two towers ------------------------------------------------------------------------------------------


def _clip(c: Config) -> Model:
    """CLIP: both towers, their projections, one scale."""
    text, vision = (
        c.sub("text_config", "clip_text_model", fixed=True),
        c.sub("vision_config", "clip_vision_model", fixed=True),
    )
    out = c["projection_dim"]
    root = block(
        "",
        parameter("logit_scale"),
        clip_text(text),
        clip_vision(vision),
        linear("visual_projection", vision["hidden_size"], out),
        linear("text_projection", text["hidden_size"], out),
        kind="Model",
    )
    return _pair(root, text, vision)


def _siglip(c: Config) -> Model:
    """SigLIP: both towers, one scale and one bias."""
    kind = c.model_type
    text = c.sub("text_config", f"{kind}_text_model", fixed=True)
    vision = c.sub("vision_config", f"{kind}_vision_model", fixed=True)
    root = block("", parameter("logit", 2), siglip_text(text), siglip_vision(vision), kind="Model")
    return _pair(root, text, vision)


def _pair(root: Node, text: Config, vision: Config) -> Model:
    return Model(
        root=root,
        hidden=max(text["hidden_size"], vision["hidden_size"]),
        layers=text["num_hidden_layers"] + vision["num_hidden_layers"],
        vocabulary=text["vocab_size"],
        context=text["max_position_embeddings"],
        outer="bert",
    )


def _tower_model(c: Config) -> Model:
    tower = TOWERS[c.model_type](c)
    return _model(c, block("", tower, kind="Model"), context=_context(c))


def _context(c: Config) -> int:
    if c.model_type.startswith("siglip2"):
        return c["num_patches"]
    return patches(c) + 1 if c.value("image_size", default=None) is not None else 0


def _tower_any(c: Config) -> Model:
    """A tower whose sizes have other names (``depth``)."""
    return Model(
        root=block("", TOWERS[c.model_type](c), kind="Model"),
        hidden=c.whole("embed_dim", "hidden_size"),
        layers=c.whole("depth", "num_hidden_layers"),
        outer="bert",
    )


def _tower_classes(key: str, c: Config) -> Model:
    """The vision tower of a pair with a classifier: CLIPForImageClassification."""
    vision = c.sub("vision_config", key, fixed=True)
    labels = c.labels()
    last = linear("classifier", vision["hidden_size"], labels, True, adaptable=False) if labels else None
    return _model(vision, block("", TOWERS[key](vision), last, kind="Model"), last, context=_context(vision))


def _siglip_classes(key: str, c: Config) -> Model:
    """SigLIP's classifier reads the mean of the patches; the pooling head stays unless the config drops it."""
    return _tower_classes(key, c)


def _vit(
    model_type: str, stem: str, d: Seeing, more: Mapping[str, Callable[[Seeing, Config], Model]]
) -> Architecture:
    classes: dict[str, Builder] = {f"{stem}Model": partial(_base, d)}
    classes |= {f"{stem}{name}": partial(make, d) for name, make in more.items()}
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


def _only(model_type: str, name: str, make: Builder, **more: Builder) -> Architecture:
    return Architecture(model_type=model_type, classes={name: make, **more}, base=name)


CLASSIFY = {"ForImageClassification": _classify}
ARCHITECTURES = (
    _vit("vit", "ViT", VIT, {**CLASSIFY, "ForMaskedImageModeling": _masked_image}),
    _vit("vit_msn", "ViTMSN", MAE, CLASSIFY),
    _vit("vit_mae", "ViTMAE", MAE, {"ForPreTraining": _mae_pretraining}),
    _vit(
        "deit",
        "DeiT",
        DEIT,
        {**CLASSIFY, "ForImageClassificationWithTeacher": _with_teacher, "ForMaskedImageModeling": _masked_image},
    ),
    _vit("ijepa", "IJepa", Seeing(tokens=0, placed=0, pooler=False), CLASSIFY),
    _vit("beit", "Beit", BEIT, CLASSIFY),
    _vit("dinov2", "Dinov2", DINOV2, CLASSIFY),
    _vit("dinov2_with_registers", "Dinov2WithRegisters", REGISTERS, {**CLASSIFY, "Backbone": _base}),
    _only("dinov3_vit", "DINOv3ViTModel", _dinov3, DINOv3ViTBackbone=_dinov3),
    _only("vivit", "VivitModel", partial(_vivit, False), VivitForVideoClassification=partial(_vivit, True)),
    _only("clip", "CLIPModel", _clip, CLIPForImageClassification=partial(_tower_classes, "clip_vision_model")),
    _only(
        "siglip",
        "SiglipModel",
        _siglip,
        SiglipForImageClassification=partial(_siglip_classes, "siglip_vision_model"),
    ),
    _only(
        "siglip2",
        "Siglip2Model",
        _siglip,
        Siglip2ForImageClassification=partial(_siglip_classes, "siglip2_vision_model"),
    ),
    _only("clip_vision_model", "CLIPVisionModel", _tower_model),
    _only("siglip_vision_model", "SiglipVisionModel", _tower_model),
    _only("siglip2_vision_model", "Siglip2VisionModel", _tower_model),
    _only("qwen3_vl_vision", "Qwen3VLVisionModel", _tower_any),
    _only("qwen3_vl_moe_vision", "Qwen3VLMoeVisionModel", _tower_any),
    _only("qwen3_5_vision", "Qwen3_5VisionModel", _tower_any),
    _only("qwen3_5_moe_vision", "Qwen3_5MoeVisionModel", _tower_any),
    _only("glm4v_vision", "Glm4vVisionModel", _tower_any),
    _only("internvl_vision", "InternVLVisionModel", _tower_any),
)
