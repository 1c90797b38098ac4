"""Why a published count differs from the class's own, where only the number and the config are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from storage.model import Json
from tracker.estimate.model import Model
from tracker.estimate.structure import Totals, totals, walk, weight_of

EXTRA_LAYERS: Final = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
PACKED: Final = ("awq", "gptq", "bitsandbytes", "mxfp4", "modelopt", "compressed-tensors", "quark", "auto-round")
NEAR: Final = 0.02  # of a computed size: routers and other small matrices are left as they are, or are not


def in_words(delta: int, model: Model | None, config: Mapping[str, Json] | None) -> str | None:
    """The likely reason for a difference (file less class); None where nothing in model or config tells it."""
    if model is not None:
        sums = totals(model.root)
        for size, label in _sizes(model, config or {}):
            if size and delta == size:
                return f"{delta:+,} {label}"
        scales = _block_scales(sums, config or {})
        if scales and abs(delta - scales) <= NEAR * scales:
            return f"{delta:+,}, of which some {scales:,} are scales of fp8 weights"
    told = list(_by_config(delta, config or {}))
    return f"{delta:+,}: likely {' and '.join(told)}" if told else None


def _sizes(model: Model, config: Mapping[str, Json]) -> Iterator[tuple[int, str]]:
    """Sizes of what files hold beside the class, with their names."""
    if model.head is not None and model.head_tied:
        yield weight_of(model.head), "a second copy of the tied output layer"
    heads = [
        (node.dims.query // node.dims.heads, times)
        for _, node, times in walk(model.root)
        if node.kind == "Attention" and node.dims is not None and node.dims.heads
    ]
    layers = sum(times for _, times in heads)
    yield sum(width // 2 * times for width, times in heads), "rotary frequency buffers"
    for context in {model.context, config.get("n_positions"), config.get("n_ctx")}:
        if type(context) is int and 0 < context <= 1 << 20:
            yield layers * context * context, "attention mask buffers"
            yield layers * (context * context + 1), "attention mask buffers"


def _block_scales(sums: Totals, config: Mapping[str, Json]) -> int:
    """Scales of fp8 weights, one for each block of every matrix."""
    packing = config.get("quantization_config")
    block = packing.get("weight_block_size") if isinstance(packing, Mapping) else None
    if not isinstance(block, list) or len(block) != 2 or not all(type(size) is int and size > 0 for size in block):
        return 0
    rows, columns = block
    matrices = [(i, o, n) for (i, o), n in sums.adapted.items()]
    matrices += [(i, o, e * n) for (e, i, o, _), n in sums.fused.items()]
    return sum(-(-o // int(rows)) * -(-i // int(columns)) * n for i, o, n in matrices)


def _by_config(delta: int, config: Mapping[str, Json]) -> Iterator[str]:
    packing = config.get("quantization_config")
    method = str(packing.get("quant_method", "")) if isinstance(packing, Mapping) else ""
    text = config.get("text_config")
    parts = (config, text) if isinstance(text, Mapping) else (config,)
    extra = any(type(part.get(key)) is int and part[key] > 0 for part in parts for key in EXTRA_LAYERS)
    if delta > 0 and extra:
        yield "multi-token-prediction layers, which the class does not build"
    if method == "fp8":
        yield "scales of fp8 weights" if delta > 0 else "a count made otherwise than from the tensors' shapes"
    elif method in PACKED:
        yield "packed weights and their scales"
