"""The checkpoint's own count beside the derived one, and the difference in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from storage.model import Json, Snapshot, Tensor
from tracker.estimate.differences import in_words
from tracker.estimate.interface import Checkpoint
from tracker.estimate.model import Model
from tracker.estimate.structure import walk

# Tensors that are no parameters of the class, by what their names say. The first match wins.
EXTRAS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (label, re.compile(pattern))
    for label, pattern in (
        (
            "scales of quantized weights",
            r"(weight_scale_inv|weight_scale(_2)?|input_scale|_scales?|\.scales|k_scale|v_scale)$",
        ),
        ("zero points of quantized weights", r"(qzeros|zero_point)$"),
        ("group indices of quantized weights", r"(g_idx|weight_shape)$"),
        ("rotary frequency buffers", r"(inv_freq|rotary_emb\.(cos|sin)_cached)$"),
        ("position buffers", r"(position_ids|token_type_ids|position_embeddings_buffer)$"),
        (
            "attention mask buffers",
            r"(attn|attention|self_attn)\.(bias|masked_bias)$|h\.\d+\.attn\.(bias|masked_bias)$",
        ),
        ("router bias buffers", r"e_score_correction_bias$"),
        ("batch statistics buffers", r"(running_mean|running_var|num_batches_tracked)$"),
        ("a next-sentence head", r"(^|\.)(cls\.seq_relationship|seq_relationship|sop_classifier)\."),
        ("a pooler", r"(^|\.)pooler\."),
    )
)
WORDS: Final = re.compile(r"\.(qweight|weight_packed|packed_weight)$")
BLOCKS: Final = re.compile(r"_blocks$")
LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.")
PACKED_WIDTH: Final = 8  # int4 words in an int32


def checkpoint_of(snapshot: Snapshot) -> Checkpoint | None:
    """What a revision's weight files say of themselves; None where no header and no index was read.

    GGUF files are another packaging of the same weights and are used only where there is nothing else.
    Sub-folders (``vae/``, ``onnx/``) are other models. Files of one name stem count once.
    """
    headers = [f for path, f in sorted(snapshot.tensor_files.items()) if "/" not in path]
    chosen = [f for f in headers if f.format == "safetensors"] or headers[:1]
    chosen = _one_set([f for f in chosen if not _is_adapter(f.path)])
    if chosen:
        tensors = {t.name: (t.dtype, t.shape) for f in chosen for t in f.tensors}
        return of_tensors(tensors, source="headers")
    for path, document in sorted(snapshot.documents.items()):
        if "/" not in path and path.endswith(".index.json") and isinstance(document.data, Mapping):
            metadata = document.data.get("metadata")
            size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
            if type(size) is int and size > 0:
                return Checkpoint(source="index", total_bytes=size)
    return None


def _is_adapter(path: str) -> bool:
    return path.startswith("adapter_")


def _one_set(files: list) -> list:  # type: ignore[type-arg]
    """Where a repo holds the weights twice (``model`` and ``consolidated``), the Transformers ones."""
    named = [f for f in files if f.path.startswith(("model", "pytorch_model", "diffusion_pytorch_model"))]
    return named or files


def of_tensors(tensors: Mapping[str, tuple[str, tuple[int, ...]]], *, source: str = "headers") -> Checkpoint:
    """A checkpoint from its tensor table."""
    scalars: Counter[str] = Counter()
    for dtype, shape in tensors.values():
        scalars[dtype] += Tensor(name="", dtype=dtype, shape=shape).elements
    return Checkpoint(source=source, scalars=dict(scalars), tensors=tensors)


def total_of(checkpoint: Checkpoint) -> int | None:
    """Scalars in the file, or an estimate of two bytes each where only the size is known."""
    if checkpoint.scalars:
        return sum(checkpoint.scalars.values())
    return None if checkpoint.total_bytes is None else checkpoint.total_bytes // 2


def compare(
    derived: int | None,
    checkpoint: Checkpoint | None,
    model: Model | None = None,
    config: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """The ``checkpoint`` key of an estimate: total, source, delta (file less derived), explanation."""
    if checkpoint is None:
        return {"checkpoint": {"total": None, "source": None, "delta": None, "explanation": None}}
    total = total_of(checkpoint)
    delta = None if total is None or derived is None else total - derived
    explanation = None
    if delta is not None:
        explanation = explain(delta, checkpoint, model, config)
    return {
        "checkpoint": {
            "total": total,
            "source": checkpoint.source,
            "delta": delta,
            "explanation": explanation,
            "scalars": dict(sorted(checkpoint.scalars.items())),
        }
    }


def explain(
    delta: int, checkpoint: Checkpoint, model: Model | None, config: Mapping[str, Json] | None = None
) -> str:
    """Why file and class differ, in words; what is left over is said to be unexplained."""
    if delta == 0:
        return "equal to the class's own count"
    if not checkpoint.tensors:
        return _by_size(delta, checkpoint, model, config)
    parts = _accounted(checkpoint, model)
    rest = delta - sum(parts.values())
    words = [f"{count:+,} {label}" for label, count in parts.items() if count]
    if rest:
        words.append(f"{rest:+,} unexplained")
    return "; ".join(words)


def _accounted(checkpoint: Checkpoint, model: Model | None) -> dict[str, int]:
    """Scalars by reason, each with the sign it adds to (file - class)."""
    parts: Counter[str] = Counter()
    expected = _paths(model)
    layers = model.layers if model else None
    for name, (dtype, shape) in checkpoint.tensors.items():
        size = Tensor(name=name, dtype=dtype, shape=shape).elements
        beyond = _layer_index(name, layers)
        label = next((label for label, pattern in EXTRAS if pattern.search(name)), None)
        if beyond:
            kind = (
                "scales of the multi-token-prediction layers"
                if label and "scales" in label
                else "of multi-token-prediction layers"
            )
            parts[kind] += size
        elif label is not None:
            if not (label == "a pooler" and _has(expected, "pooler")):
                parts[label] += size
        elif WORDS.search(name) and dtype in ("I32", "U32"):
            parts["int4 weights packed eight to a word"] -= size * (PACKED_WIDTH - 1)
        elif BLOCKS.search(name) and dtype == "U8":
            parts["mxfp4 weights packed two to a byte"] -= size
        elif model is not None and name.endswith("lm_head.weight") and model.head_tied:
            parts["a second copy of the tied output layer"] += size
    if model is not None and _has(expected, "pooler") and not any("pooler" in name for name in checkpoint.tensors):
        parts["the class has a pooler that the file lacks"] -= _size_of(model, "pooler")
    return dict(parts)


def _layer_index(name: str, layers: int | None) -> bool:
    """Whether a tensor belongs to a layer past the last one that the class builds."""
    found = LAYER.search(name)
    return bool(
        found and layers and "encoder" not in name and "visual" not in name and int(found[1][:9]) >= layers
    ) or name.startswith("mtp.")


def _paths(model: Model | None) -> frozenset[str]:
    return frozenset(path for path, _, _ in walk(model.root)) if model else frozenset()


def _has(paths: Iterable[str], part: str) -> bool:
    return any(part in path.split(".") for path in paths)


def _size_of(model: Model, part: str) -> int:
    return sum(node.own * times for path, node, times in walk(model.root) if part in path.split("."))


def _by_size(delta: int, checkpoint: Checkpoint, model: Model | None, config: Mapping[str, Json] | None) -> str:
    """An explanation where no tensor names are known."""
    if checkpoint.total_bytes is not None and not checkpoint.scalars:
        told = in_words(delta, model, config)
        held = f"{delta:+,} if the file holds two bytes a scalar: only its size is known"
        return f"{held}; {told}" if told else held
    if told := in_words(delta, model, config):
        return told
    if any(dtype.startswith(("F8", "I32", "U8", "I8")) for dtype in checkpoint.scalars):
        return f"{delta:+,}: packed or scaled weights; the tensor names would tell"
    return f"{delta:+,} unexplained: no tensor names are known"
