"""Speech encoders: wav2vec 2.0 and its line, and the spectrogram transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tracker.estimate.blocks import plain
from tracker.estimate.model import Architecture, Builder, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, Part, block, conv, embedding, linear, norm, parameter
from tracker.estimate.towers import QKV, self_attention, stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The knobs.

    ``layered`` feature extractor whatever the config says; ``positions`` makes the position convolution;
    ``projection_norm`` is the key that can drop the norm before the projection; ``attention_extra`` more
    parts of each layer's attention; ``shared`` parts once for all layers.
    """

    layered: bool = False
    positions: Callable[[Config], Sequence[Part]] | None = None
    projection_norm: str = ""
    attention_extra: Callable[[Config], Sequence[Part]] | None = None
    shared: Callable[[Config], Sequence[Part]] | None = None


def _features(d: Speech, c: Config) -> Sequence[Part]:
    """The waveform's convolutions, with a norm on the first or on each."""
    sizes, kernels, bias = c.ints("conv_dim", minimum=1), c.ints("conv_kernel", minimum=1), c.flag("conv_bias")
    if not sizes or len(sizes) != len(kernels) or len(sizes) > 256:
        raise ConfigError("conv_dim and conv_kernel do not fit together")
    layered = d.layered or c.text("feat_extract_norm") == "layer"
    parts: list[Part] = []
    for i, (size, kernel) in enumerate(zip(sizes, kernels, strict=True)):
        parts.append(
            conv(f"feature_extractor.conv_layers.{i}.conv", sizes[i - 1] if i else 1, size, kernel, bias=bias)
        )
        if layered or i == 0:
            parts.append(norm(f"feature_extractor.conv_layers.{i}.layer_norm", size, True))
    return parts


def _weight_normed(c: Config) -> Sequence[Part]:
    """A grouped convolution whose weight is a direction and a length for each tap."""
    hidden, kernel, groups = c["hidden_size"], c["num_conv_pos_embeddings"], c["num_conv_pos_embedding_groups"]
    name = "encoder.pos_conv_embed.conv"
    return [parameter(f"{name}.original0", kernel), conv(name, hidden, hidden, kernel, groups=groups)]


def _hubert_positions(c: Config) -> Sequence[Part]:
    if not c.flag("conv_pos_batch_norm"):
        return _weight_normed(c)
    hidden, kernel, groups = c["hidden_size"], c["num_conv_pos_embeddings"], c["num_conv_pos_embedding_groups"]
    name = "encoder.pos_conv_embed"
    return [conv(f"{name}.conv", hidden, hidden, kernel, groups=groups), norm(f"{name}.batch_norm", hidden, True)]


def _stacked_positions(c: Config) -> Sequence[Part]:
    hidden, kernel, groups = c["hidden_size"], c["conv_pos_kernel_size"], c["num_conv_pos_embedding_groups"]
    times = c["num_conv_pos_embeddings"]
    return [conv("encoder.pos_conv_embed.layers.*.conv", hidden, hidden, kernel, groups=groups, times=times)]


def _wavlm_gates(c: Config) -> Sequence[Part]:
    """WavLM's gated relative positions, in every layer."""
    heads = c["num_attention_heads"]
    return [
        parameter("gru_rel_pos_const", heads),
        linear("gru_rel_pos_linear", c["hidden_size"] // heads, 8, True),
    ]


def _wavlm_table(c: Config) -> Sequence[Part]:
    return [embedding("encoder.layers.0.attention.rel_attn_embed", c["num_buckets"], c["num_attention_heads"])]


def _body(d: Speech, c: Config) -> Node:
    hidden, total, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    sizes = c.ints("conv_dim", minimum=1)
    if c.value("adapter_attn_dim", default=None) is not None:
        raise ConfigError("attention adapters (adapter_attn_dim) are not counted")
    if c.flag("add_adapter", default=False):
        raise ConfigError("a convolutional adapter (add_adapter) is not counted")
    if c.maybe("num_conv_layers"):
        raise ConfigError("num_conv_layers is not known")
    masked = c.number("mask_time_prob") > 0 or c.number("mask_feature_prob") > 0
    normed = c.flag(d.projection_norm) if d.projection_norm else True
    return block(
        "model",
        parameter("masked_spec_embed", hidden) if masked else None,
        *_features(d, c),
        norm("feature_projection.layer_norm", sizes[-1], True) if normed else None,
        linear("feature_projection.projection", sizes[-1], hidden, True),
        *(d.positions or _weight_normed)(c),
        norm("encoder.layer_norm", hidden, True),
        *(d.shared(c) if d.shared else ()),
        stack(
            "encoder.layers.*",
            hidden,
            total,
            self_attention(
                hidden,
                heads,
                QKV,
                "out_proj",
                *(d.attention_extra(c) if d.attention_extra else ()),
                name="attention",
                times=total,
            ),
            plain(
                hidden,
                c["intermediate_size"],
                names=("intermediate_dense", "output_dense"),
                name="feed_forward",
                times=total,
            ),
            norm("layer_norm", hidden, True, times=2 * total),
        ),
        width=hidden,
    )


def _weighted(c: Config) -> Part:
    layers = c["num_hidden_layers"] + 1
    return parameter("layer_weights", layers) if c.flag("use_weighted_layer_sum") else None


def _build(d: Speech, head: str, c: Config) -> Model:
    hidden = c["hidden_size"]
    last: Node | None = None
    parts: list[Part] = []
    if head == "ForCTC":
        parts = [linear("lm_head", hidden, c["vocab_size"], True)]
    elif head == "ForSequenceClassification":
        inner = c["classifier_proj_size"]
        last = linear("classifier", inner, c.labels(), True, adaptable=False)
        parts = [linear("projector", hidden, inner, True), _weighted(c)]
    elif head == "ForAudioFrameClassification":
        last = linear("classifier", hidden, c.labels(), True, adaptable=False)
        parts = [_weighted(c)]
    elif head == "ForXVector":
        last = linear("classifier", c["xvector_output_dim"], c["xvector_output_dim"], True, adaptable=False)
        parts = [*_xvector(c), _weighted(c)]
    return Model(
        root=block("", _body(d, c), *parts, last, kind="Model"),
        hidden=hidden,
        layers=c["num_hidden_layers"],
        head=last,
        outer="bert",
    )


def _xvector(c: Config) -> Sequence[Part]:
    """Time-delay layers over the frames, then statistics, then a speaker vector."""
    sizes, kernels = c.ints("tdnn_dim", minimum=1), c.ints("tdnn_kernel", minimum=1)
    if not sizes or len(sizes) != len(kernels) or len(sizes) > 256:
        raise ConfigError("tdnn_dim and tdnn_kernel do not fit together")
    parts: list[Part] = [linear("projector", c["hidden_size"], sizes[0], True)]
    for i, (size, kernel) in enumerate(zip(sizes, kernels, strict=True)):
        parts.append(linear(f"tdnn.{i}.kernel", (sizes[i - 1] if i else sizes[0]) * kernel, size, True))
    out = c["xvector_output_dim"]
    return [*parts, linear("feature_extractor", 2 * sizes[-1], out, True), parameter("objective", out, c.labels())]


def _sat_pretraining(c: Config) -> Model:
    """UniSpeech-SAT's pretraining: a quantizer of the features and a speaker's vector."""
    hidden, groups = c["hidden_size"], c["num_codevector_groups"]
    book, dim, out = c["num_codevectors_per_group"] * groups, c["codevector_dim"], c["proj_codevector_dim"]
    model = _build(Speech(), "", c)
    parts = [
        parameter("label_embeddings_concat", c["num_clusters"], dim),
        parameter("quantizer.codevectors", book, dim // groups),
        linear("quantizer.weight_proj", hidden, book, True),
        linear("project_q", dim, out, True),
        linear("project_hid", hidden, out, True),
        linear("speaker_proj", hidden, dim, True),
        norm("layer_norm_for_extract", hidden, True),
    ]
    return replace(model, root=block("", *model.root.children, *parts, kind="Model"))


def _architecture(model_type: str, stem: str, d: Speech, *heads: str, **more: Builder) -> Architecture:
    classes: dict[str, Builder] = {f"{stem}Model": partial(_build, d, "")}
    classes |= {f"{stem}{head}": partial(_build, d, head) for head in heads}
    return Architecture(model_type=model_type, classes=classes | more, base=f"{stem}Model")


def _ast(labels: bool, c: Config) -> Model:
    """A ViT over overlapping patches of a spectrogram, with a class and a distillation token."""
    hidden, total, size = c["hidden_size"], c["num_hidden_layers"], c["patch_size"]
    high = (c["num_mel_bins"] - size) // c["frequency_stride"] + 1
    wide = (c["max_length"] - size) // c["time_stride"] + 1
    bias = c.flag("qkv_bias")
    last: Node | None = None
    if labels:
        last = block(
            "classifier",
            norm("layernorm", hidden, True),
            linear("dense", hidden, c.labels(), True, adaptable=False),
        )
    body = block(
        "audio_spectrogram_transformer",
        parameter("embeddings.tokens", 2, hidden),
        parameter("embeddings.position_embeddings", high * wide + 2, hidden),
        conv("embeddings.patch_embeddings.projection", 1, hidden, size, size),
        stack(
            "layers.*",
            hidden,
            total,
            self_attention(
                hidden,
                c["num_attention_heads"],
                QKV,
                "o_proj",
                bias=(bias, bias, bias, True),
                name="attention",
                times=total,
            ),
            plain(hidden, c["intermediate_size"], times=total),
            norm("layernorm", hidden, True, times=2 * total),
        ),
        norm("layernorm", hidden, True),
        width=hidden,
    )
    return Model(
        root=block("", body, last, kind="Model"),
        hidden=hidden,
        layers=total,
        context=high * wide + 2,
        head=last,
        outer="bert",
    )


ALL = ("ForCTC", "ForSequenceClassification", "ForAudioFrameClassification", "ForXVector")
ARCHITECTURES = (
    _architecture("wav2vec2", "Wav2Vec2", Speech(), *ALL),
    _architecture(
        "hubert", "Hubert", Speech(positions=_hubert_positions, projection_norm="feat_proj_layer_norm"), *ALL[:2]
    ),
    _architecture("wavlm", "WavLM", Speech(attention_extra=_wavlm_gates, shared=_wavlm_table), *ALL),
    _architecture("unispeech", "UniSpeech", Speech(), *ALL[:2]),
    _architecture("unispeech-sat", "UniSpeechSat", Speech(), *ALL, UniSpeechSatForPreTraining=_sat_pretraining),
    _architecture("data2vec-audio", "Data2VecAudio", Speech(layered=True, positions=_stacked_positions), *ALL),
    Architecture(
        model_type="audio-spectrogram-transformer",
        classes={"ASTModel": partial(_ast, False), "ASTForAudioClassification": partial(_ast, True)},
        base="ASTModel",
    ),
)
