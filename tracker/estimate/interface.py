"""What an estimator is: a config (and what is known of the checkpoint) becomes an `Estimate`. Pure.

An unsupported architecture is a status, never an exception and never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from storage.model import Estimate, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the published weights say of themselves.

    ``scalars`` is by dtype name (``BF16``); ``tensors`` maps tensor name to (dtype, shape) where headers
    were read. ``source`` is ``headers``, ``index`` (total_size only) or ``hub``.
    """

    source: str
    scalars: Mapping[str, int] = field(default_factory=dict)
    total_bytes: int | None = None
    tensors: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """What a person can ask for. ``seq`` and ``batch`` None: the contract's defaults.

    The names of precisions, optimizers, methods and packings are those of `tracker.estimate.recipe`.
    ``lora_targets`` are module names (``q_proj``); none: every linear layer.
    """

    seq: int | None = None
    batch: int | None = None
    card: str | None = None
    precision: str = "bf16"
    method: str | None = None
    optimizer: str = "adamw"
    gradient_checkpointing: bool = False
    lora_r: int = 16
    lora_targets: tuple[str, ...] = ()
    quantization: str = "nf4"


class Estimator(Protocol):
    """One profile: ``exact`` or ``classic``."""

    name: str
    version: str

    def estimate(
        self, config: Json, *, checkpoint: Checkpoint | None = None, options: EstimateOptions | None = None
    ) -> Estimate:
        """Never raises on any JSON value; bounded time and memory whatever the config says."""
        ...
