"""What each way of training takes: the step of a method under a recipe, with and without checkpointing."""

from __future__ import annotations

from tracker.estimate.activations import adapter_bytes, in_layers
from tracker.estimate.adapters import RANK, linear_parameters, peft_parameters, targeted
from tracker.estimate.memory import Step, training
from tracker.estimate.model import Model
from tracker.estimate.recipe import Recipe
from tracker.estimate.structure import Totals


def adapter_parameters(model: Model, sums: Totals, model_type: str, recipe: Recipe) -> int:
    """Parameters of the adapters that a recipe makes."""
    if recipe.targets is not None:
        return sum(recipe.rank * (i + o) * n for (i, o), n in targeted(model, recipe.targets).items())
    peft = peft_parameters(model, sums, model_type, recipe.rank)
    return linear_parameters(sums, recipe.rank) if peft is None else peft


def step_of(model: Model, sums: Totals, model_type: str, tokens: int, method: str, recipe: Recipe) -> Step:
    """The memory of a training step by this method (``full``, ``lora``, ``qlora``)."""
    if method == "full":
        return training(
            model, sums, tokens, recipe.mode, optimizer=recipe.optimizer, checkpointing=recipe.checkpointing
        )
    kept: float | None = None
    if recipe.targets is not None:
        kept = adapter_bytes(targeted(model, recipe.targets), recipe.rank)
    elif recipe.rank != RANK:
        kept = adapter_bytes(in_layers(model), recipe.rank)
    return training(
        model,
        sums,
        tokens,
        "lora",
        adapters=adapter_parameters(model, sums, model_type, recipe),
        optimizer=recipe.optimizer,
        checkpointing=recipe.checkpointing,
        packing=recipe.packing if method == "qlora" else None,
        adapted_bytes=kept,
    )
