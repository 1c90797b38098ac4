"""Bytes that autograd keeps for the backward pass, by fitted formulas.

``data/activations.json`` holds, by family and mode, bytes a token and layer for each size letter (H hidden,
Q query, KV key-value, F ffn, nh heads, const), bytes per token squared for attention that keeps its scores
(``square`` a sequence, ``once_square`` shared by the batch), and the bytes a token of what stands outside
the layers (``outer``: embedding, final norm, head, loss). The fits reproduce what PyTorch keeps exactly.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from tracker.estimate.adapters import RANK
from tracker.estimate.model import Model
from tracker.estimate.structure import Node, Totals, walk

Coefficients = Mapping[str, float]
FALLBACK = "llama"


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes kept: ``fixed`` whatever the batch, and ``sequence`` for each sequence of the batch."""

    fixed: float = 0.0
    sequence: float = 0.0


@cache
def _data() -> tuple[
    Mapping[str, Mapping[str, Mapping[str, Coefficients]]], Mapping[str, Mapping[str, Coefficients]]
]:
    text = (resources.files("tracker.estimate") / "data" / "activations.json").read_text("utf-8")
    data = json.loads(text)
    return data["layers"], data["outer"]


@cache
def coefficients(family: str, mode: str) -> Mapping[str, Coefficients]:
    """The layer coefficients of a family; where a mode was not fitted, the same step away as Llama's."""
    layers, _ = _data()
    table = layers.get(family) or layers[FALLBACK]
    if mode in table:
        return table[mode]
    base, reference = table["bf16"], layers[FALLBACK]
    token = {
        key: value + reference[mode]["token"].get(key, 0) - reference["bf16"]["token"].get(key, 0)
        for key, value in {**dict.fromkeys(reference["bf16"]["token"], 0), **base["token"]}.items()
    }
    return {**base, "token": token}


def fitted(model: Model) -> bool:
    """Whether every stack of layers has a formula of its own family."""
    layers, _ = _data()
    return all(node.formula in layers for _, node, _ in walk(model.root) if node.kind == "Layers")


def _stack(
    node: Node, times: float, tokens: int, mode: str, checkpointing: bool, scores: bool, *, single: bool = False
) -> Kept:
    """What one stack of layers keeps; with ``single``, an average one of its layers."""
    table = coefficients(node.formula or FALLBACK, mode)
    token = table["token"]
    hidden = node.width or 0
    sums = {"Q": 0.0, "KV": 0.0, "F": 0.0, "nh": 0.0}
    attentions = mlps = routed_hidden = 0
    windowed = crossed = 0
    for child in node.children:
        for part in (child, *child.children) if child.kind == "Block" else (child,):
            dims, n = part.dims, part.times * (child.times if part is not child else 1)
            if dims is None:
                continue
            if part.kind == "Attention" and part.cache is not None and part.cache.cross:
                crossed += dims.heads * n
            elif part.kind == "Attention":
                attentions += n
                sums["Q"] += dims.query * n
                sums["KV"] += dims.key * n
                sums["nh"] += dims.heads * n
                windowed += n if dims.window else 0
            elif part.kind in ("MLP", "MoE"):
                mlps += n
                sums["F"] += dims.ffn * n * max(1, dims.routed)
                routed_hidden += dims.routed * n
                for inner in part.children:  # a shared expert counts like one more routed one
                    if inner.kind == "MLP" and inner.dims is not None:
                        sums["F"] += inner.dims.ffn * n
                        routed_hidden += n
    layers = max(attentions, mlps, 1)
    if single:
        times = 1 / layers
    if checkpointing:
        return Kept(sequence=float(times * layers * hidden * (4 if mode in ("autocast", "fp32") else 2) * tokens))
    per_token = token.get("H", 0) * hidden * layers + token.get("const", 0) * layers + 4 * hidden * routed_hidden
    per_token += sum(token.get(key, 0) * value for key, value in sums.items())
    if windowed and node.formula == "modernbert":
        per_token += 2 * tokens * windowed  # the mask of a local layer, bf16
    square = table.get("square", {})
    quadratic = square.get("nh", 0) * sums["nh"] + square.get("const", 0) * layers
    if scores:  # scores, their softmax and the mask: 12 bytes a head; a byte a masked element of each output
        quadratic += 12 * (sums["nh"] + crossed)
        per_token += 2 * hidden * layers
    once = table.get("once_square", {})
    shared = once.get("nh", 0) * sums["nh"] / layers + once.get("const", 0)
    return Kept(times * shared * tokens**2, times * (per_token * tokens + quadratic * tokens**2))


def kept(
    model: Model,
    sums: Totals,
    tokens: int,
    mode: str,
    *,
    checkpointing: bool = False,
    merged: bool = False,
    scores: bool = False,
    adapters: float | None = None,
) -> Kept:
    """Bytes kept for backward by a batch of sequences of this many tokens.

    Of the arguments:
        mode: ``autocast`` (fp32 weights, bf16 autocast), ``bf16``, ``lora`` (bf16 base, fp32 adapters of
            rank 16) or ``fp32`` (twice ``bf16``).
        checkpointing: Keep only each layer's input.
        scores: Attention dropout is on and its kernel keeps scores and masks (flash attention keeps none).
        merged: LoRA adapts 3-D experts, which PEFT merges whole for each pass.
        adapters: For ``lora``: bytes a token that the adapters keep, see `adapter_bytes`; None: those of
            every linear layer at rank 16, which the formulas hold.

    """
    plain = "bf16" if mode == "fp32" else mode
    scale = 2 if mode == "fp32" else 1
    fixed = sequence = 0.0
    for _, node, times in walk(model.root):
        if node.kind == "Layers":
            length = model.encoder_tokens if model.encoder_tokens and node.formula == "bart" else tokens
            stack = _stack(node, times // max(1, node.times), length, plain, checkpointing, scores)
            fixed += stack.fixed * scale
            sequence += stack.sequence * scale
    _, outers = _data()
    table = outers.get(model.outer) or outers[FALLBACK]
    outer = table["autocast" if mode == "autocast" else "bf16"]
    vocabulary = model.vocabulary if model.head is not None and model.head_tied is not None else 0
    sequence += scale * tokens * (outer["H"] * model.hidden + outer["V"] * vocabulary + outer["const"])
    if mode == "lora" and adapters is not None and not checkpointing:
        sequence += tokens * (adapters - adapter_bytes(in_layers(model), RANK))
    if mode == "autocast":
        fixed += 2 * _weights(model, layers=not checkpointing)
    if mode == "lora" and merged and not checkpointing:
        fixed += 2 * sum(
            e * i * o * n for (e, i, o, _), n in sums.fused.items()
        )  # each adapted 3-D weight, merged
    return Kept(fixed, sequence)


def one_layer(model: Model, tokens: int, mode: str, *, scores: bool = False) -> float:
    """Bytes a sequence that the largest layer keeps: what checkpointing computes again, a layer at a time."""
    plain = "bf16" if mode == "fp32" else mode
    stacks = [node for _, node, times in walk(model.root) if node.kind == "Layers" and times]
    largest = max(
        (_stack(node, 1, tokens, plain, False, scores, single=True).sequence for node in stacks), default=0.0
    )
    return largest * (2 if mode == "fp32" else 1)


def adapter_bytes(adapted: Mapping[tuple[int, int], int], rank: int, size: int = 4) -> float:
    """Bytes a token that LoRA adapters keep: each input in their dtype, and what its first matrix gives out."""
    return float(sum(size * (inputs + rank) * n for (inputs, _), n in adapted.items()))


def in_layers(model: Model) -> Mapping[tuple[int, int], int]:
    """The matrices inside the stacks that ``all-linear`` adapts."""
    found: Counter[tuple[int, int]] = Counter()
    inside: str | None = None
    for path, node, times in walk(model.root):
        if node.kind == "Layers":
            inside = path
        elif inside is not None and not path.startswith(inside):
            inside = None
        if inside is not None and node.linear is not None and node.adaptable:
            found[node.linear] += times
    return found


def _weights(model: Model, *, layers: bool) -> int:
    """Scalars of the matrices that autocast keeps bf16 copies of; without ``layers``, outside the stacks."""
    count = 0
    inside: str | None = None
    for path, node, times in walk(model.root):
        if inside is not None and not path.startswith(inside):
            inside = None
        if node.kind == "Layers" and not layers:
            inside = path
        if inside is None:
            if node.linear is not None:
                count += node.linear[0] * node.linear[1] * times
            count += sum(e * i * o for e, i, o, _ in node.fused) * times
    return count
