"""How a model is trained: precision, optimizer, what is kept, which matrices get adapters, how a base is packed.

Bytes a parameter, and where they are from:

* AdamW keeps two moments in the dtype of what is trained, and its foreach step one more copy of it;
* 8-bit AdamW (bitsandbytes) keeps two bytes and two fp32 scales a block of 256; it steps matrix by matrix;
* SGD without momentum keeps nothing and steps in place;
* Adafactor keeps the sums of rows and columns; its step works on one matrix at a time, in three fp32 copies;
* AdamW in the backward pass does so too, and frees each gradient once it is used;
* nf4 packs half a byte and an fp32 scale for each block of 64; double quantization packs that scale into a byte
  and an fp32 for each 256 of them; int8 keeps a byte and an fp32 scale a row; GPTQ and AWQ half a byte and a
  half-precision scale and zero point for each group of 128.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tracker.estimate.interface import EstimateOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """How numbers are held in training.

    ``mode`` is of the weights of a full fine-tune: ``autocast`` (fp32, bf16 passes), ``bf16``, ``fp32``, or
    ``master`` (bf16, and an fp32 copy that is trained, as DeepSpeed and Megatron keep it).
    ``amp`` is whether a training loop runs the passes under autocast and gives out logits in fp32, as the
    Hugging Face Trainer does. ``adapter`` is bytes of an adapter's scalar.
    """

    mode: str
    amp: bool = False
    adapter: int = 4


_MIXED: Final = Precision(mode="autocast", amp=True)
_TRUE: Final = Precision(mode="bf16", adapter=2)
_FULL: Final = Precision(mode="fp32")
PRECISIONS: Final[Mapping[str, Precision]] = MappingProxyType(
    {
        "bf16": _MIXED,
        "fp16": _MIXED,
        "bf16-mixed": _MIXED,
        "16-mixed": _MIXED,
        "bf16-weights": Precision(mode="bf16", amp=True),
        "bf16-no-amp": Precision(mode="bf16"),
        "bf16-master": Precision(mode="master"),
        "bf16-true": _TRUE,
        "16-true": _TRUE,
        "fp32": _FULL,
        "32-true": _FULL,
    }
)
WEIGHT_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {**{name: 32 if item is _FULL else 16 for name, item in PRECISIONS.items()}, "fp8": 8, "int8": 8, "int4": 4}
)
"""Bits of a weight for serving, by precision."""
METHODS: Final = ("full", "lora", "qlora")


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """Bytes an optimizer takes for what it trains.

    ``moments`` are copies in the trained dtype that it keeps, ``packed`` bytes a parameter beside them,
    ``step`` copies in the trained dtype that live during its step, ``matrix`` bytes during the step for each
    scalar of the largest matrix. ``inside`` steps each matrix as its gradient comes, which is then freed.
    """

    moments: float = 0.0
    packed: float = 0.0
    step: float = 0.0
    matrix: float = 0.0
    inside: bool = False

    def state(self, size: int) -> float:
        """Bytes kept a parameter of ``size`` bytes."""
        return self.moments * size + self.packed


OPTIMIZERS: Final[Mapping[str, Optimizer]] = MappingProxyType(
    {
        "adamw": Optimizer(moments=2, step=1),
        "adamw-in-backward": Optimizer(moments=2, matrix=12, inside=True),
        "adamw-8bit": Optimizer(packed=2 * (1 + 4 / 256)),
        "sgd": Optimizer(),
        "adafactor": Optimizer(matrix=12),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """A quantized base: bytes a scalar of its packed matrices, bytes of every other scalar."""

    packed: float
    other: int = 2


PACKINGS: Final[Mapping[str, Packing]] = MappingProxyType(
    {
        "nf4": Packing(packed=0.5 + 4 / 64),
        "nf4-dq": Packing(packed=0.5 + 1 / 64 + 4 / (64 * 256)),
        "int8": Packing(packed=1.0),
        "gptq-int4": Packing(packed=0.5 + 2.5 / 128),
        "gptq-int8": Packing(packed=1.0 + 3 / 128),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One way to train. ``targets`` None: every linear layer, as PEFT's ``all-linear``."""

    precision: Precision = _MIXED
    optimizer: Optimizer = OPTIMIZERS["adamw"]
    checkpointing: bool = False
    rank: int = 16
    targets: frozenset[str] | None = None
    packing: Packing | None = None


def recipe_of(options: EstimateOptions, *, checkpointing: bool | None = None) -> Recipe:
    """The recipe that options ask for; what they name and nobody knows is taken as the default."""
    targets = frozenset(options.lora_targets) - {"all-linear"}
    return Recipe(
        precision=PRECISIONS.get(options.precision, _MIXED),
        optimizer=OPTIMIZERS.get(options.optimizer, OPTIMIZERS["adamw"]),
        checkpointing=options.gradient_checkpointing if checkpointing is None else checkpointing,
        rank=options.lora_r,
        targets=targets or None,
        packing=PACKINGS.get(options.quantization, PACKINGS["nf4"]),
    )
