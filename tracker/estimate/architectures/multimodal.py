"""Models that see: a vision tower, a projector, and any declared text model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tracker.estimate.architectures.llama import windowed
from tracker.estimate.blocks import gated
from tracker.estimate.decoder import LLAMA, Decoder, decoder, output_layer
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.registry import load
from tracker.estimate.structure import Node, Part, block, linear, norm, parameter
from tracker.estimate.towers import tower

Projector = Callable[[Config, Config, Config], Sequence[Part]]  # whole, vision, text


def text_model(c: Config) -> Model:
    """The trunk of the text model that a nested config names."""
    architecture = load().get(c.model_type)
    if architecture is None:
        raise ConfigError(f"no text model is declared for {c.model_type[:60]!r}")
    return architecture.classes[architecture.base](c)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeing:
    """The knobs.

    Attributes:
        projector: What stands between the tower and the text.
        vision, text: The types the class builds, whatever the nested config says; "" if it follows that.
        flat: An old config has the text's keys at the top.
        tie_from_text: The text config's tie counts too; ``tie_of_text``: it alone.

    """

    projector: Projector
    vision: str = ""
    text: str = ""
    vision_key: str = "vision_config"
    flat: bool = False
    tie_from_text: bool = False
    tie_of_text: bool = False
    head: str = "ForConditionalGeneration"


def _nested(d: Seeing, c: Config) -> tuple[Config, Config]:
    vision = c.sub(d.vision_key, d.vision or None, fixed=bool(d.vision))
    if d.flat and not c.given("text_config"):
        raw = {key: value for key, value in c.raw.items() if key not in ("vision_config", "model_type")}
        return vision, Config(raw, d.text, doubts=c.doubts, depth=c.depth + 1)
    return vision, c.sub("text_config", d.text or None, fixed=bool(d.text))


def build(d: Seeing, head: str, c: Config) -> Model:
    """One class: trunk, or trunk and output layer."""
    vision, text = _nested(d, c)
    inner = text_model(text)
    trunk = inner.root.children[0]
    last: Node | None = None
    is_tied: bool | None = None
    if head in ("ForConditionalGeneration", "ForCausalLM"):
        is_tied = (text if d.tie_of_text else c).flag("tie_word_embeddings", default=False)
        if d.tie_from_text and not is_tied:
            is_tied = text.flag("tie_word_embeddings", default=False)
        last = output_layer(text, inner.hidden, bias=False, is_tied=is_tied)
    elif head == "ForSequenceClassification":
        last = linear("score", inner.hidden, c.labels(), adaptable=False)
    parts = [tower(vision), *d.projector(c, vision, text), replace(trunk, name="language_model")]
    return replace(
        inner,
        root=block("", block("model", *parts), last, kind="Model"),
        head=last,
        head_tied=is_tied,
    )


def _two(name: str, inputs: int, outputs: int, bias: bool) -> list[Part]:
    return [linear(f"{name}.linear_1", inputs, outputs, bias), linear(f"{name}.linear_2", outputs, outputs, bias)]


def _features(c: Config) -> int:
    """How many of the tower's layers are joined."""
    layers = c.value("vision_feature_layer", default=-1)
    return len(layers) if isinstance(layers, list) else 1


def _llava(c: Config, v: Config, t: Config) -> Sequence[Part]:
    inputs = v["hidden_size"] * _features(c)
    return _two(
        "multi_modal_projector", inputs, t["hidden_size"], c.flag("multimodal_projector_bias", default=True)
    )


def _newline(c: Config, v: Config, t: Config) -> Sequence[Part]:
    return [parameter("image_newline", t["hidden_size"]), *_llava(c, v, t)]


def _vipllava(c: Config, v: Config, t: Config) -> Sequence[Part]:
    inputs = v["hidden_size"] * _features(c)
    return [
        norm("multi_modal_projector.projector_layernorm", inputs, True),
        *_two("multi_modal_projector", inputs, t["hidden_size"], True),
    ]


def _gemma3(c: Config, v: Config, t: Config) -> Sequence[Part]:
    return [
        parameter("multi_modal_projector.mm_input_projection_weight", v["hidden_size"], t["hidden_size"]),
        norm("multi_modal_projector.mm_soft_emb_norm", v["hidden_size"]),
    ]


def _paligemma(c: Config, v: Config, t: Config) -> Sequence[Part]:
    return [linear("multi_modal_projector.linear", v["hidden_size"], c["projection_dim"], True)]


def _nothing(c: Config, v: Config, t: Config) -> Sequence[Part]:
    """The tower's own merger makes vectors of the text's size."""
    return []


def _internvl(c: Config, v: Config, t: Config) -> Sequence[Part]:
    wide = int(v["hidden_size"] * int(1 / c.number("downsample_ratio")) ** 2)
    return [
        norm("multi_modal_projector.layer_norm", wide, True),
        *_two("multi_modal_projector", wide, t["hidden_size"], True),
    ]


def _mistral3(c: Config, v: Config, t: Config) -> Sequence[Part]:
    hidden, merge, bias = (
        v["hidden_size"],
        c["spatial_merge_size"],
        c.flag("multimodal_projector_bias", default=False),
    )
    name = "multi_modal_projector"
    return [
        norm(f"{name}.norm", hidden),
        linear(f"{name}.patch_merger.merging_layer", hidden * merge * merge, hidden),
        *_two(name, hidden * _features(c), t["hidden_size"], bias),
    ]


def _lighton(c: Config, v: Config, t: Config) -> Sequence[Part]:
    hidden, merge = v["hidden_size"], c["spatial_merge_size"]
    return [
        norm("vision_projection.norm", hidden),
        linear("vision_projection.patch_merger.merging_layer", hidden * merge * merge, hidden),
        *_two("vision_projection", hidden, t["hidden_size"], False),
    ]


def _cohere(c: Config, v: Config, t: Config) -> Sequence[Part]:
    inner = c["alignment_intermediate_size"]
    name = "multi_modal_projector"
    return [
        linear(f"{name}.linear_1", v["hidden_size"] * c["downsample_factor"] ** 2, inner, True),
        linear(f"{name}.linear_2", inner // 2, t["hidden_size"], True),
    ]


def _aya(c: Config, v: Config, t: Config) -> Sequence[Part]:
    inner, wide = (
        c.maybe("alignment_intermediate_size") or t["hidden_size"],
        v["hidden_size"] * c["downsample_factor"] ** 2,
    )
    name = "multi_modal_projector"
    return [
        norm(f"{name}.layernorm", wide, True),
        linear(f"{name}.linear_1", wide, inner, True),
        linear(f"{name}.linear_2", inner // 2, t["hidden_size"], True),
    ]


def _idefics2(c: Config, v: Config, t: Config) -> Sequence[Part]:
    """A gated projection, then a perceiver that resamples to a fixed number of latents."""
    p = c.sub("perceiver_config", "idefics2_perceiver", fixed=True)
    hidden, text = p["hidden_size"], t["hidden_size"]
    if hidden != text:
        raise ConfigError("the perceiver is not as wide as the text")
    heads, dim, kv, depth = (
        p["resampler_n_heads"],
        p["resampler_head_dim"],
        p["num_key_value_heads"],
        p["resampler_depth"],
    )
    inner, joined = t["intermediate_size"], v["hidden_size"]
    return [
        linear("connector.modality_projection.gate_proj", joined, inner),
        linear("connector.modality_projection.up_proj", joined, inner),
        linear("connector.modality_projection.down_proj", inner, text),
        block(
            "connector.perceiver_resampler",
            parameter("latents", p["resampler_n_latents"], hidden),
            block(
                "layers.*",
                linear("self_attn.q_proj", hidden, heads * dim),
                linear("self_attn.k_proj", hidden, kv * dim),
                linear("self_attn.v_proj", hidden, kv * dim),
                linear("self_attn.o_proj", heads * dim, hidden),
                gated(hidden, 4 * hidden),
                norm("norm", hidden, times=3),
                times=depth,
            ),
            norm("norm", hidden),
        ),
    ]


def _idefics3(c: Config, v: Config, t: Config) -> Sequence[Part]:
    return [
        linear("connector.modality_projection.proj", v["hidden_size"] * c["scale_factor"] ** 2, t["hidden_size"]),
    ]


def _lfm2(c: Config, v: Config, t: Config) -> Sequence[Part]:
    wide, inner = v["hidden_size"] * c["downsample_factor"] ** 2, c["projector_hidden_size"]
    bias, name = c.flag("projector_bias"), "multi_modal_projector"
    return [
        norm(f"{name}.layer_norm", wide, True) if c.flag("projector_use_layernorm") else None,
        linear(f"{name}.linear_1", wide, inner, bias),
        linear(f"{name}.linear_2", inner, t["hidden_size"], bias),
    ]


def _llama4(c: Config, v: Config, t: Config) -> Sequence[Part]:
    return [linear("multi_modal_projector.linear_1", v["vision_output_dim"], t["hidden_size"])]


def _architecture(model_type: str, stem: str, d: Seeing, *more: str, base: str | None = None) -> Architecture:
    base = base or f"{stem}Model"
    classes = {base: partial(build, d, "")}
    classes |= {f"{stem}{head}": partial(build, d, head) for head in (d.head, *more)}
    return Architecture(model_type=model_type, classes=classes, base=base)


def _shield(c: Config) -> Model:
    """ShieldGemma 2 is Gemma 3 as it stands."""
    seeing = Seeing(projector=_gemma3, text="gemma3_text", vision="siglip_vision_model", tie_from_text=True)
    return build(seeing, "ForConditionalGeneration", c)


def _shield_classifier(c: Config) -> Model:
    """Its classifier hides the language model, so that PEFT takes the output layer for one more matrix."""
    model = _shield(c)
    trunk, last = model.root.children
    root = block("", trunk, replace(last, adaptable=True), kind="Model")
    return replace(model, root=root, head=None, generates=False)


def _colqwen2(c: Config) -> Model:
    """ColQwen2: Qwen2-VL's trunk and a projection to short vectors."""
    seeing = Seeing(projector=_nothing, vision="qwen2_vl_vision", text="qwen2_vl_text", flat=True)
    inner = c.sub("vlm_config", "qwen2_vl", fixed=True)
    model = build(seeing, "", inner)
    hidden = model.hidden
    last = linear("embedding_proj_layer", hidden, c["embedding_dim"], True)
    return replace(model, root=block("", *model.root.children, last, kind="Model"), generates=False)


QWEN_TEXT = Decoder(qkv_bias=True)
QWEN3_TEXT = Decoder(qkv_bias="attention_bias", o_bias="attention_bias", qk_norm="head")


def _video_llava(c: Config, v: Config, t: Config) -> Sequence[Part]:
    return [replace(tower(v), name="video_tower"), *_llava(c, v, t)]


ARCHITECTURES = (
    _architecture("llava", "Llava", Seeing(projector=_llava, tie_from_text=True)),
    _architecture("llava_next", "LlavaNext", Seeing(projector=_newline)),
    _architecture("llava_next_video", "LlavaNextVideo", Seeing(projector=_newline, tie_from_text=True)),
    _architecture("llava_onevision", "LlavaOnevision", Seeing(projector=_newline, tie_from_text=True)),
    _architecture("vipllava", "VipLlava", Seeing(projector=_vipllava)),
    _architecture("video_llava", "VideoLlava", Seeing(projector=_video_llava)),
    _architecture(
        "gemma3",
        "Gemma3",
        Seeing(projector=_gemma3, text="gemma3_text", vision="siglip_vision_model"),
        "ForSequenceClassification",
    ),
    _architecture("paligemma", "PaliGemma", Seeing(projector=_paligemma)),
    _architecture(
        "qwen2_vl",
        "Qwen2VL",
        Seeing(projector=_nothing, vision="qwen2_vl_vision", text="qwen2_vl_text", flat=True, tie_from_text=True),
    ),
    _architecture(
        "qwen2_5_vl",
        "Qwen2_5_VL",
        Seeing(
            projector=_nothing, vision="qwen2_5_vl_vision", text="qwen2_5_vl_text", flat=True, tie_from_text=True
        ),
    ),
    _architecture(
        "qwen3_vl", "Qwen3VL", Seeing(projector=_nothing, vision="qwen3_vl_vision", text="qwen3_vl_text")
    ),
    _architecture(
        "qwen3_vl_moe",
        "Qwen3VLMoe",
        Seeing(projector=_nothing, vision="qwen3_vl_moe_vision", text="qwen3_vl_moe_text"),
    ),
    _architecture(
        "qwen3_5",
        "Qwen3_5",
        Seeing(projector=_nothing, vision="qwen3_5_vision", text="qwen3_5_text"),
        "ForSequenceClassification",
    ),
    _architecture(
        "qwen3_5_moe",
        "Qwen3_5Moe",
        Seeing(projector=_nothing, vision="qwen3_5_moe_vision", text="qwen3_5_moe_text"),
    ),
    _architecture(
        "glm4v", "Glm4v", Seeing(projector=_nothing, vision="glm4v_vision", text="glm4v_text", tie_from_text=True)
    ),
    _architecture("glm46v", "Glm46V", Seeing(projector=_nothing)),
    _architecture("glmga", "Glm46V", Seeing(projector=_nothing)),
    _architecture(
        "glm4v_moe",
        "Glm4vMoe",
        Seeing(projector=_nothing, vision="glm4v_moe_vision", text="glm4v_moe_text", tie_from_text=True),
    ),
    _architecture("internvl", "InternVL", Seeing(projector=_internvl)),
    _architecture("mistral3", "Mistral3", Seeing(projector=_mistral3)),
    _architecture("lighton_ocr", "LightOnOcr", Seeing(projector=_lighton)),
    _architecture("cohere2_vision", "Cohere2Vision", Seeing(projector=_cohere)),
    _architecture("aya_vision", "AyaVision", Seeing(projector=_aya)),
    _architecture("idefics2", "Idefics2", Seeing(projector=_idefics2, vision="idefics2_vision")),
    _architecture("idefics3", "Idefics3", Seeing(projector=_idefics3, vision="idefics3_vision")),
    _architecture("smolvlm", "SmolVLM", Seeing(projector=_idefics3, vision="smolvlm_vision")),
    _architecture("lfm2_vl", "Lfm2Vl", Seeing(projector=_lfm2)),
    _architecture(
        "llama4",
        "Llama4",
        Seeing(projector=_llama4, vision="llama4_vision_model", text="llama4_text", tie_of_text=True),
        base="Llama4ForConditionalGeneration",
    ),
    Architecture(
        model_type="shieldgemma2",
        classes={
            "ShieldGemma2ForImageClassification": _shield_classifier,
            "Gemma3ForConditionalGeneration": _shield,
        },
        base="ShieldGemma2ForImageClassification",
    ),
    Architecture(model_type="colqwen2", classes={"ColQwen2ForRetrieval": _colqwen2}, base="ColQwen2ForRetrieval"),
    decoder("qwen2_vl_text", "Qwen2VLText", QWEN_TEXT, has=(), sliding=windowed, activations="qwen2"),
    decoder("qwen2_5_vl_text", "Qwen2_5_VLText", QWEN_TEXT, has=(), sliding=windowed, activations="qwen2"),
    decoder("qwen3_vl_text", "Qwen3VLText", QWEN3_TEXT, has=(), activations="qwen3"),
    decoder("glm4v_text", "Glm4vText", LLAMA, has=(), qkv_bias=True, mlp="fused", norms=4, activations="glm4"),
)
