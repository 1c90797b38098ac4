"""CLIP and SigLIP with their towers, and the towers of larger models standing alone."""

from __future__ import annotations

from functools import partial

from tracker.estimate.model import Model
from tracker.estimate.reader import Config
from tracker.estimate.structure import Node, block, linear, parameter
from tracker.estimate.towers import (
    TOWERS,
    clip_text,
    clip_vision,
    patches,
    siglip_text,
    siglip_vision,
)
from tracker.estimate.vit_parts import model, only


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
    return model(c, block("", tower, kind="Model"), context=_context(c))


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
    return model(vision, block("", TOWERS[key](vision), last, kind="Model"), last, context=_context(vision))


def _siglip_classes(key: str, c: Config) -> Model:
    """SigLIP's classifier reads the mean of the patches; the pooling head stays unless the config drops it."""
    return _tower_classes(key, c)


ARCHITECTURES = (
    only("clip", "CLIPModel", _clip, CLIPForImageClassification=partial(_tower_classes, "clip_vision_model")),
    only(
        "siglip",
        "SiglipModel",
        _siglip,
        SiglipForImageClassification=partial(_siglip_classes, "siglip_vision_model"),
    ),
    only(
        "siglip2",
        "Siglip2Model",
        _siglip,
        Siglip2ForImageClassification=partial(_siglip_classes, "siglip2_vision_model"),
    ),
    only("clip_vision_model", "CLIPVisionModel", _tower_model),
    only("siglip_vision_model", "SiglipVisionModel", _tower_model),
    only("siglip2_vision_model", "Siglip2VisionModel", _tower_model),
    only("qwen3_vl_vision", "Qwen3VLVisionModel", _tower_any),
    only("qwen3_vl_moe_vision", "Qwen3VLMoeVisionModel", _tower_any),
    only("qwen3_5_vision", "Qwen3_5VisionModel", _tower_any),
    only("qwen3_5_moe_vision", "Qwen3_5MoeVisionModel", _tower_any),
    only("glm4v_vision", "Glm4vVisionModel", _tower_any),
    only("internvl_vision", "InternVLVisionModel", _tower_any),
)
