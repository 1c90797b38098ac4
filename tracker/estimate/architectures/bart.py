"""BART and its line: encoder and decoder of one width, learned or fixed positions, one shared embedding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tracker.estimate.blocks import gqa, plain
from tracker.estimate.decoder import context_of
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Node, Part, block, conv, embedding, linear, norm, tied

Sides = Callable[[Config, str], Sequence[Part]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seq2Seq:
    """The knobs of the family.

    Attributes:
        rows: Rows of the position tables beside ``max_position_embeddings``; None where they are buffers.
        embed_norm: A LayerNorm on the embeddings.
        last_norm: A LayerNorm at the end of each side.
        inputs: What the encoder reads with in place of the shared embedding.
        bias: Whether attention matrices have biases; ``k_bias`` for the keys alone.

    """

    rows: int | None = 2
    embed_norm: bool = True
    last_norm: bool = False
    inputs: Sides | None = None
    bias: bool = True
    k_bias: bool = True


def _side(d: Seq2Seq, c: Config, side: str, alone: bool = False) -> Node:
    hidden, layers = c["d_model"], c[f"{side}_layers"]
    heads, inner, cross = c[f"{side}_attention_heads"], c[f"{side}_ffn_dim"], side == "decoder"
    dim = hidden // heads
    own = partial(
        gqa,
        hidden,
        heads,
        heads,
        dim,
        q_bias=d.bias,
        k_bias=d.bias and d.k_bias,
        o_bias=d.bias,
        out="out_proj",
        times=layers,
    )
    inputs = d.inputs(c, side) if d.inputs else ()
    return block(
        f"model.{side}",
        *inputs,
        embedding("embed_positions", _rows(c, d.rows), hidden) if d.rows is not None and not d.inputs else None,
        norm("layernorm_embedding", hidden, True) if d.embed_norm else None,
        block(
            "layers.*",
            own(cached=cross),
            own(cross=True, cached=not alone, name="encoder_attn") if cross else None,
            plain(hidden, inner, True, name="", times=layers),
            norm("norm", hidden, True, times=layers * (3 if cross else 2)),
            kind="Layers",
            width=hidden,
            formula="bart_decoder" if cross else "bart",
        ),
        norm("layer_norm", hidden, True) if d.last_norm else None,
        width=hidden,
    )


def _rows(c: Config, more: int) -> int:
    return c["max_position_embeddings"] + more


def _build(d: Seq2Seq, head: str, c: Config) -> Model:
    if c.flag("use_prompt", default=False):
        raise ConfigError("learned prompts (use_prompt) are not counted")
    hidden, vocabulary = c["d_model"], c["vocab_size"]
    sides: list[Part] = [embedding("model.shared", vocabulary, hidden)]
    if head != "ForCausalLM":
        sides.append(_side(d, c, "encoder"))
    sides.append(_side(d, c, "decoder", alone=head == "ForCausalLM"))
    last: Node | None = None
    task: Node | None = None
    is_tied: bool | None = None
    if head in ("ForConditionalGeneration", "ForCausalLM", "MTModel"):
        is_tied = c.flag("tie_word_embeddings", default=True)
        last = (
            tied("lm_head", hidden, vocabulary)
            if is_tied
            else linear("lm_head", hidden, vocabulary, adaptable=False)
        )
    elif head == "ForSequenceClassification":
        task = block(
            "classification_head",
            linear("dense", hidden, hidden, True),
            linear("out_proj", hidden, c.labels(), True),
        )
    elif head == "ForQuestionAnswering":
        task = linear("qa_outputs", hidden, 2, True)  # the class sets two labels itself
    if not c.flag("tie_word_embeddings", default=True):
        c.doubt("untied embeddings: each side may hold its own")
    if not c.flag("share_encoder_decoder_embeddings", default=True):
        c.doubt("each side may have its own embeddings")
    return Model(
        root=block("", *sides, last, task, kind="Model"),
        hidden=hidden,
        layers=c["decoder_layers"] + (c["encoder_layers"] if head != "ForCausalLM" else 0),
        vocabulary=vocabulary,
        context=context_of(c),
        head=last,
        head_tied=is_tied,
        generates=True,
        outer="bart",
        encoder_decoder=head != "ForCausalLM",
    )


def _whisper_inputs(c: Config, side: str) -> Sequence[Part]:
    """Whisper hears through two convolutions and learns positions on both sides."""
    hidden = c["d_model"]
    if side == "decoder":
        return [embedding("embed_positions", c["max_target_positions"], hidden)]
    return [
        conv("conv1", c["num_mel_bins"], hidden, 3),
        conv("conv2", hidden, hidden, 3),
        embedding("embed_positions", c["max_source_positions"], hidden),
    ]


def _whisper_classes(c: Config) -> Model:
    """The encoder with a projector and a classifier."""
    hidden, inner = c["d_model"], c["classifier_proj_size"]
    layers = c["encoder_layers"]
    weights = (
        block("", norm("layer_weights", layers + 1, kind="Parameter"))
        if c.flag("use_weighted_layer_sum")
        else None
    )
    last = linear("classifier", inner, c.labels(), True, adaptable=False)
    return Model(
        root=block(
            "", _side(WHISPER, c, "encoder"), linear("projector", hidden, inner, True), weights, last, kind="Model"
        ),
        hidden=hidden,
        layers=layers,
        context=c["max_source_positions"],
        head=last,
        outer="bart",
    )


def _whisper_causal(c: Config) -> Model:
    return replace(_build(WHISPER, "ForCausalLM", c), context=c["max_target_positions"])


def _whisper(head: str, c: Config) -> Model:
    return replace(
        _build(WHISPER, head, c), context=c["max_target_positions"], encoder_tokens=c["max_source_positions"]
    )


def _speech_inputs(c: Config, side: str) -> Sequence[Part]:
    """Speech2Text: gated convolutions that halve the length each."""
    if side == "decoder":
        return []
    hidden, middle, kernels = c["d_model"], c["conv_channels"], c.ints("conv_kernel_sizes", minimum=1)
    inputs, parts, last = c["input_feat_per_channel"] * c["input_channels"], list[Part](), len(kernels) - 1
    for i, kernel in enumerate(kernels[:64]):
        outputs = 2 * hidden if i == last else middle
        parts.append(conv(f"conv.conv_layers.{i}", inputs if i == 0 else middle // 2, outputs, kernel))
    return parts


BART = Seq2Seq()
SINUS = Seq2Seq(rows=0, embed_norm=False)
MBART = Seq2Seq(last_norm=True)
PEGASUS = Seq2Seq(rows=0, embed_norm=False, last_norm=True)
M2M = Seq2Seq(rows=None, embed_norm=False, last_norm=True)
WHISPER = Seq2Seq(embed_norm=False, last_norm=True, inputs=_whisper_inputs, k_bias=False)
SPEECH = Seq2Seq(rows=None, embed_norm=False, last_norm=True, inputs=_speech_inputs)
BLENDERBOT = Seq2Seq(rows=0, embed_norm=False, last_norm=True)
SMALL = Seq2Seq(rows=0)
ALL = ("ForConditionalGeneration", "ForCausalLM", "ForSequenceClassification", "ForQuestionAnswering")


def _architecture(model_type: str, stem: str, d: Seq2Seq, has: Sequence[str]) -> Architecture:
    classes = {f"{stem}Model": partial(_build, d, "")} | {
        f"{stem}{head}": partial(_build, d, head) for head in has
    }
    return Architecture(model_type=model_type, classes=classes, base=f"{stem}Model")


ARCHITECTURES = (
    _architecture("bart", "Bart", BART, ALL),
    _architecture("mbart", "MBart", MBART, ALL),
    _architecture("plbart", "PLBart", BART, ALL[:3]),
    _architecture("mvp", "Mvp", BART, ALL),
    _architecture("marian", "Marian", SINUS, ("MTModel", "ForCausalLM")),
    _architecture("pegasus", "Pegasus", PEGASUS, ALL[:2]),
    _architecture("m2m_100", "M2M100", M2M, ALL[:1]),
    _architecture("blenderbot", "Blenderbot", BLENDERBOT, ALL[:2]),
    _architecture("blenderbot-small", "BlenderbotSmall", SMALL, ALL[:2]),
    _architecture("speech_to_text", "Speech2Text", SPEECH, ALL[:1]),
    Architecture(
        model_type="whisper",
        classes={
            "WhisperModel": partial(_whisper, ""),
            "WhisperForConditionalGeneration": partial(_whisper, "ForConditionalGeneration"),
            "WhisperForCausalLM": _whisper_causal,
            "WhisperForAudioClassification": _whisper_classes,
        },
        base="WhisperModel",
    ),
)
