"""Vision transformers, whole or as the tower of a larger model, by config type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tracker.estimate.blocks import gated, plain
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Dims, Node, Part, block, conv, embedding, linear, norm, parameter


def patches(c: Config, *, image: str = "image_size", patch: str = "patch_size") -> int:
    """Patches of one image at the config's size."""
    high, wide = c.pair(image)
    down, across = c.pair(patch)
    return (high // down) * (wide // across)


def self_attention(
    hidden: int,
    heads: int,
    names: Sequence[str],
    out: str,
    *extra: Part,
    bias: tuple[bool, bool, bool, bool] = (True, True, True, True),
    width: int = 0,
    name: str = "self_attn",
    times: int = 1,
) -> Node:
    """Attention without a cache: q, k, v (or one fused matrix) and the way out."""
    if not width and hidden % heads:  # classes round, raise or build on, each in its own way
        raise ConfigError(f"hidden size {hidden} does not divide into {heads} heads")
    width = width or hidden
    if len(names) == 1:
        inputs = [linear(names[0], hidden, 3 * width, bias[0])]
    else:
        inputs = [linear(n, hidden, width, b) for n, b in zip(names, bias[:3], strict=True)]
    return block(
        name,
        *inputs,
        linear(out, width, hidden, bias[3]),
        *extra,
        times=times,
        kind="Attention",
        dims=Dims(hidden=hidden, query=width, key=width, heads=heads),
        width=hidden,
    )


def stack(name: str, hidden: int, total: int, *parts: Part, formula: str = "bert") -> Node:
    """A stack of layers whose parts already carry their repeats."""
    return block(name, *parts, kind="Layers", width=hidden, formula=formula) if total else block(name)


QKV = ("q_proj", "k_proj", "v_proj")


def clip_layers(hidden: int, heads: int, inner: int, total: int) -> Node:
    """CLIP's layers: two norms, attention with biases, a plain feed-forward."""
    return stack(
        "encoder.layers.*",
        hidden,
        total,
        self_attention(hidden, heads, QKV, "out_proj", times=total),
        plain(hidden, inner, times=total),
        norm("layer_norm", hidden, True, times=2 * total),
    )


def _sizes(c: Config) -> tuple[int, int, int, int]:
    return c["hidden_size"], c["num_attention_heads"], c["intermediate_size"], c["num_hidden_layers"]


def clip_vision(c: Config) -> Node:
    """CLIP's vision tower, with a class token and a norm before and after."""
    hidden = c["hidden_size"]
    return block(
        "vision_model",
        parameter("embeddings.class_embedding", hidden),
        conv("embeddings.patch_embedding", c["num_channels"], hidden, *c.pair("patch_size"), bias=False),
        embedding("embeddings.position_embedding", patches(c) + 1, hidden),
        norm("pre_layrnorm", hidden, True),
        clip_layers(*_sizes(c)),
        norm("post_layernorm", hidden, True),
        width=hidden,
    )


def clip_text(c: Config) -> Node:
    """CLIP's text tower."""
    hidden = c["hidden_size"]
    return block(
        "text_model",
        embedding("embeddings.token_embedding", c["vocab_size"], hidden),
        embedding("embeddings.position_embedding", c["max_position_embeddings"], hidden),
        clip_layers(*_sizes(c)),
        norm("final_layer_norm", hidden, True),
        width=hidden,
    )


def pooling_head(hidden: int, inner: int) -> Node:
    """SigLIP's pooling: one learned query attends to all patches."""
    return block(
        "head",
        parameter("probe", hidden),
        parameter("attention.in_proj_weight", 3 * hidden, hidden),
        parameter("attention.in_proj_bias", 3 * hidden),
        linear("attention.out_proj", hidden, hidden, True),
        norm("layernorm", hidden, True),
        plain(hidden, inner),
    )


def siglip_vision(c: Config, *, head: bool = True) -> Node:
    """SigLIP's vision tower; Idefics uses it without the pooling head."""
    hidden = c["hidden_size"]
    pooled = head and c.flag("vision_use_head", default=True)
    if c.model_type.startswith("siglip2"):
        size = c["patch_size"]
        inputs: list[Part] = [
            linear("embeddings.patch_embedding", c["num_channels"] * size * size, hidden, True),
            embedding("embeddings.position_embedding", c["num_patches"], hidden),
        ]
    else:
        inputs = [
            conv("embeddings.patch_embedding", c["num_channels"], hidden, *c.pair("patch_size")),
            embedding("embeddings.position_embedding", patches(c), hidden),
        ]
    return block(
        "vision_model",
        *inputs,
        clip_layers(*_sizes(c)),
        norm("post_layernorm", hidden, True),
        pooling_head(hidden, c["intermediate_size"]) if pooled else None,
        width=hidden,
    )


def siglip_text(c: Config) -> Node:
    """SigLIP's text tower, with a projection."""
    body = clip_text(c)
    hidden = c["hidden_size"]
    projection = linear("head", hidden, c.maybe("projection_size") or hidden, True)
    return block("text_model", *body.children, projection, width=hidden)


def _headless(c: Config) -> Node:
    return siglip_vision(c, head=False)


def pixtral(c: Config) -> Node:
    """Pixtral: rotary positions, no biases, gated feed-forward."""
    hidden, heads, inner, total = _sizes(c)
    dim = c.maybe("head_dim") or hidden // heads
    if dim * heads != hidden:
        raise ConfigError(f"{c.path}head_dim x heads is not the hidden size")
    no = (False, False, False, False)
    return block(
        "vision_tower",
        conv("patch_conv", c["num_channels"], hidden, *c.pair("patch_size"), bias=False),
        norm("ln_pre", hidden),
        stack(
            "transformer.layers.*",
            hidden,
            total,
            self_attention(hidden, heads, QKV, "o_proj", bias=no, name="attention", times=total),
            gated(hidden, inner, name="feed_forward", times=total),
            norm("norm", hidden, times=2 * total),
            formula="llama",
        ),
        width=hidden,
    )


def _qwen2_merger(width: int, merged: int, out: int, *, rms: bool) -> Node:
    return block(
        "merger",
        norm("ln_q", width, not rms),
        linear("mlp.0", merged, merged, True),
        linear("mlp.2", merged, out, True),
    )


def qwen2_vision(c: Config) -> Node:
    """Qwen2-VL's tower: 3-D patches, rotary positions, a merger of neighbouring patches."""
    hidden, total = c["embed_dim"], c["depth"]
    merged = hidden * c["spatial_merge_size"] ** 2
    return block(
        "visual",
        conv(
            "patch_embed.proj",
            c["in_channels"],
            hidden,
            c["temporal_patch_size"],
            *c.pair("patch_size"),
            bias=False,
        ),
        stack(
            "blocks.*",
            hidden,
            total,
            self_attention(hidden, c["num_heads"], ("qkv",), "proj", name="attn", times=total),
            plain(hidden, int(hidden * c.number("mlp_ratio")), times=total),
            norm("norm", hidden, True, times=2 * total),
        ),
        _qwen2_merger(hidden, merged, c["hidden_size"], rms=False),
        width=hidden,
    )


def qwen25_vision(c: Config) -> Node:
    """Qwen2.5-VL's tower: RMS norms and a gated feed-forward."""
    hidden, total = c["hidden_size"], c["depth"]
    merged = hidden * c["spatial_merge_size"] ** 2
    return block(
        "visual",
        conv(
            "patch_embed.proj",
            c["in_channels"],
            hidden,
            c["temporal_patch_size"],
            *c.pair("patch_size"),
            bias=False,
        ),
        stack(
            "blocks.*",
            hidden,
            total,
            self_attention(hidden, c["num_heads"], ("qkv",), "proj", name="attn", times=total),
            gated(hidden, c["intermediate_size"], True, times=total),
            norm("norm", hidden, times=2 * total),
            formula="llama",
        ),
        _qwen2_merger(hidden, merged, c["out_hidden_size"], rms=True),
        width=hidden,
    )


def _qwen3_merger(name: str, normed: int, merged: int, out: int, times: int = 1) -> Node:
    return block(
        name,
        norm("norm", normed, True),
        linear("linear_fc1", merged, merged, True),
        linear("linear_fc2", merged, out, True),
        times=times,
    )


def qwen3_vision(c: Config) -> Node:
    """Qwen3-VL's tower: learned positions, and mergers that feed deep layers of the text."""
    hidden, total, out = c["hidden_size"], c["depth"], c["out_hidden_size"]
    merged = hidden * c["spatial_merge_size"] ** 2
    deep = len(c.items("deepstack_visual_indexes", default=None))
    return block(
        "visual",
        conv("patch_embed.proj", c["in_channels"], hidden, c["temporal_patch_size"], *c.pair("patch_size")),
        embedding("pos_embed", c["num_position_embeddings"], hidden),
        stack(
            "blocks.*",
            hidden,
            total,
            self_attention(hidden, c["num_heads"], ("qkv",), "proj", name="attn", times=total),
            plain(hidden, c["intermediate_size"], names=("linear_fc1", "linear_fc2"), times=total),
            norm("norm", hidden, True, times=2 * total),
        ),
        _qwen3_merger("merger", hidden, merged, out),
        _qwen3_merger("deepstack_merger_list.*", merged, merged, out, deep) if deep else None,
        width=hidden,
    )


def glm4v_vision(c: Config) -> Node:
    """GLM-4.1V's tower: gated feed-forward of the text's width, a convolution that merges patches."""
    hidden, total, out = c["hidden_size"], c["depth"], c["out_hidden_size"]
    merge, bias = c["spatial_merge_size"], c.flag("attention_bias")
    inner = c["intermediate_size"]
    return block(
        "visual",
        embedding("embeddings.position_embedding", patches(c), hidden),
        conv("patch_embed.proj", c["in_channels"], hidden, c["temporal_patch_size"], *c.pair("patch_size")),
        stack(
            "blocks.*",
            hidden,
            total,
            self_attention(
                hidden, c["num_heads"], ("qkv",), "proj", bias=(bias, bias, bias, False), name="attn", times=total
            ),
            gated(hidden, out, times=total),
            norm("norm", hidden, times=2 * total),
            formula="llama",
        ),
        block(
            "merger",
            linear("proj", out, out),
            norm("post_projection_norm", out, True),
            gated(out, inner, name=""),
        ),
        norm("post_conv_layernorm", hidden),
        norm("post_layernorm", hidden),
        conv("downsample", hidden, out, merge, merge),
        width=hidden,
    )


def internvl_vision(c: Config) -> Node:
    """InternViT: layer scales, optional norms of queries and keys."""
    hidden, heads, inner, total = _sizes(c)
    bias, absolute = c.flag("attention_bias"), c.flag("use_absolute_position_embeddings")
    if c.flag("use_mask_token"):
        raise ConfigError("a mask token is not counted")
    rms = c.text("norm_type") == "rms_norm"
    qk = c.flag("use_qk_norm")
    extra = [norm("q_norm", hidden), norm("k_norm", hidden)] if qk else []
    return block(
        "vision_tower",
        parameter("embeddings.cls_token", hidden),
        parameter("embeddings.position_embeddings", patches(c) + 1, hidden) if absolute else None,
        conv("embeddings.patch_embeddings.projection", c["num_channels"], hidden, *c.pair("patch_size")),
        stack(
            "encoder.layer.*",
            hidden,
            total,
            self_attention(
                hidden,
                heads,
                QKV,
                "projection_layer",
                *extra,
                bias=(bias, bias, bias, True),
                name="attention",
                times=total,
            ),
            plain(hidden, inner, times=total),
            norm("layernorm", hidden, not rms, times=2 * total),
            parameter("lambda", hidden, times=2 * total),
        ),
        None if c.flag("use_mean_pooling") else norm("layernorm", hidden, True),
        width=hidden,
    )


def llama4_vision(c: Config) -> Node:
    """Llama 4's tower: patches through a matrix, an adapter after a pixel shuffle."""
    hidden, heads, inner, total = _sizes(c)
    size = c["patch_size"]
    return block(
        "vision_model",
        parameter("class_embedding", hidden),
        parameter("positional_embedding_vlm", (c["image_size"] // size) ** 2 + 1, hidden),
        linear("patch_embedding.linear", c["num_channels"] * size * size, hidden),
        norm("layernorm_pre", hidden, True),
        norm("layernorm_post", hidden, True),
        stack(
            "model.layers.*",
            hidden,
            total,
            self_attention(hidden, heads, QKV, "o_proj", times=total),
            plain(hidden, inner, times=total),
            norm("layernorm", hidden, True, times=2 * total),
        ),
        linear("vision_adapter.mlp.fc1", inner, c["projector_input_dim"]),
        linear("vision_adapter.mlp.fc2", c["projector_output_dim"], c["projector_output_dim"]),
        width=hidden,
    )


TOWERS: Mapping[str, Callable[[Config], Node]] = {
    "clip_vision_model": clip_vision,
    "siglip_vision_model": siglip_vision,
    "siglip2_vision_model": siglip_vision,
    "idefics2_vision": _headless,
    "idefics3_vision": _headless,
    "smolvlm_vision": _headless,
    "pixtral": pixtral,
    "qwen2_vl_vision": qwen2_vision,
    "qwen2_5_vl_vision": qwen25_vision,
    "qwen3_vl_vision": qwen3_vision,
    "qwen3_vl_moe_vision": qwen3_vision,
    "qwen3_5_vision": qwen3_vision,
    "qwen3_5_moe_vision": qwen3_vision,
    "glm4v_vision": glm4v_vision,
    "glm4v_moe_vision": glm4v_vision,
    "internvl_vision": internvl_vision,
    "llama4_vision_model": llama4_vision,
}


def tower(c: Config) -> Node:
    """The vision tower of a nested config."""
    make = TOWERS.get(c.model_type)
    if make is None:
        raise ConfigError(f"no vision tower is declared for {c.model_type[:60]!r}")
    return make(c)
