"""What each way of training takes: the step of a method under a recipe, with and without checkpointing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Final

from storage.model import Json
from tracker.estimate.activations import adapter_bytes, in_layers, kept
from tracker.estimate.adapters import RANK, linear_parameters, peft_parameters, targeted
from tracker.estimate.cards import HEADROOM, Largest
from tracker.estimate.interface import Checkpoint
from tracker.estimate.memory import Step, passes_in, training, weight_bytes
from tracker.estimate.model import Model
from tracker.estimate.recipe import Recipe
from tracker.estimate.structure import Totals
from tracker.snapshot.weights import DTYPE_BITS

SERVED: Final = ("bf16", "fp8", "int8", "int4")
USES: Final = {"full_finetune": "full", "lora": "lora", "qlora": "qlora"}
ADAPTER_SIZE: Final = 4  # bytes of an adapter's scalar in the activation formulas
LOOP_LOGITS: Final = 8  # bytes a logit: the fp32 copy given out, and the gradient of the shifted ones


def adapter_parameters(model: Model, sums: Totals, model_type: str, recipe: Recipe) -> int:
    """Parameters of the adapters that a recipe makes."""
    if recipe.targets is not None:
        return sum(recipe.rank * (i + o) * n for (i, o), n in targeted(model, recipe.targets).items())
    peft = peft_parameters(model, sums, model_type, recipe.rank)
    return linear_parameters(sums, recipe.rank) if peft is None else peft


def in_a_loop(step: Step, model: Model, tokens: int, recipe: Recipe) -> Step:
    """The step with what a training loop adds to it where it runs under autocast."""
    if not recipe.precision.amp or model.head is None or model.head_tied is None:
        return step
    return step.with_loss(LOOP_LOGITS * model.vocabulary * tokens)


def step_of(model: Model, sums: Totals, model_type: str, tokens: int, method: str, recipe: Recipe) -> Step:
    """The memory of a bare training step by this method (``full``, ``lora``, ``qlora``)."""
    if method == "full":
        return training(
            model,
            sums,
            tokens,
            recipe.precision.mode,
            optimizer=recipe.optimizer,
            checkpointing=recipe.checkpointing,
        )
    saved, size = None, recipe.precision.adapter
    if recipe.targets is not None:
        saved = adapter_bytes(targeted(model, recipe.targets), recipe.rank, size)
    elif recipe.rank != RANK or size != ADAPTER_SIZE:
        saved = adapter_bytes(in_layers(model), recipe.rank, size)
    return training(
        model,
        sums,
        tokens,
        "lora",
        adapters=adapter_parameters(model, sums, model_type, recipe),
        optimizer=recipe.optimizer,
        checkpointing=recipe.checkpointing,
        packing=recipe.packing if method == "qlora" else None,
        adapted_bytes=saved,
        adapter_size=size,
    )


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """What training takes: bytes by name, and by use the largest batch on a card and on two of them.

    ``light`` is with gradient checkpointing, ``needed`` what a card must have: a loop's copies and headroom added.
    """

    memory: Mapping[str, int]
    light: Mapping[str, int]
    needed: Mapping[str, int]
    largest: Mapping[str, Largest]
    split: Mapping[str, Largest]


def training_figures(
    model: Model, sums: Totals, model_type: str, tokens: int, batch: int, recipe: Recipe
) -> TrainingFigures:
    """Every figure of training at this many tokens and this batch, with and without gradient checkpointing."""
    steps, light = (
        {use: step_of(model, sums, model_type, tokens, method, how) for use, method in USES.items()}
        for how in (recipe, replace(recipe, checkpointing=True))
    )
    looped = {use: in_a_loop(step, model, tokens, recipe) for use, step in steps.items()}
    mode = passes_in(recipe.precision.mode)
    held = kept(model, sums, tokens, mode, checkpointing=recipe.checkpointing)
    return TrainingFigures(
        memory={**_peaks(steps, batch), "activation_bytes": int(held.fixed + batch * held.sequence)},
        light=_peaks(light, batch),
        needed=_peaks(looped, batch, HEADROOM),
        largest={use: step.largest for use, step in looped.items()},
        split={use: step.halved().largest for use, step in looped.items()},
    )


def _peaks(steps: Mapping[str, Step], batch: int, headroom: float = 1.0) -> dict[str, int]:
    return {f"{use}_bytes": int(step.peak(batch) * headroom) for use, step in steps.items()}


def serving_bytes(parameters: int, checkpoint: Checkpoint | None) -> dict[str, Json]:
    """Weights for serving by precision, and in the checkpoint's own dtypes where they are known."""
    own = None
    if checkpoint is not None:
        sizes = [DTYPE_BITS.get(dtype) for dtype in checkpoint.scalars]
        if checkpoint.scalars and None not in sizes:
            own = sum(DTYPE_BITS[dtype] * count for dtype, count in checkpoint.scalars.items()) // 8
        elif not checkpoint.scalars:
            own = checkpoint.total_bytes
    return {
        **{name: weight_bytes(parameters, name) for name in ("bf16", "fp8", "int8", "int4")},
        "checkpoint": own,
    }


@cache
def uncertainty() -> Mapping[str, Json]:
    """How far measured peaks stand from estimates, by method: the middle nine tenths of measured / estimate."""
    text = (resources.files("tracker.estimate") / "data" / "uncertainty.json").read_text("utf-8")
    found: Mapping[str, Json] = json.loads(text)
    return found
