"""Memory of a training step, of LoRA, and of serving, in bytes.

A training step's peak is the larger of the backward pass and the optimizer step, not their sum. From
simulated allocation through two steps of foreach AdamW (transformers 5.24, torch 2.14):

* resting: weights and both moments; 12 bytes a parameter (fp32 with bf16 autocast), 6 (pure bf16),
  2 + 12 a adapter parameter (LoRA with fp32 adapters on a bf16 base);
* at the loss: resting + what autograd keeps + the logits in bf16 + 8 bytes a logit;
* at the end of backward: resting + all gradients + the logits + one hidden state, and twice the gradient of
  an embedding that is also the output layer;
* in the optimizer: 20 bytes a parameter in fp32, 10 in bf16.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracker.estimate.activations import Kept, kept
from tracker.estimate.adapters import linear_parameters
from tracker.estimate.model import Model
from tracker.estimate.structure import Totals

MODES = {"bf16": "autocast", "fp16": "autocast", "bf16-mixed": "autocast", "bf16-true": "bf16", "fp32": "fp32"}
WEIGHT_BITS = {
    "fp32": 32,
    "bf16": 16,
    "fp16": 16,
    "bf16-mixed": 16,
    "bf16-true": 16,
    "fp8": 8,
    "int8": 8,
    "int4": 4,
}


@dataclass(frozen=True, slots=True)
class Step:
    """A training step: bytes that do not grow with the batch, and what each sequence adds.

    ``loss`` and ``end`` are the two candidates in the backward pass, ``optimizer`` the third.
    """

    resting: float
    loss: Kept
    end: Kept
    optimizer: float

    def peak(self, batch: int) -> int:
        """Peak bytes at this batch size."""
        backward = max(self.resting + part.fixed + batch * part.sequence for part in (self.loss, self.end))
        return int(max(backward, self.optimizer))

    def largest(self, budget: float) -> int:
        """The largest batch that fits into this many bytes; 0 if none does."""
        if self.optimizer > budget:
            return 0
        fits = []
        for part in (self.loss, self.end):
            room = budget - self.resting - part.fixed
            if room < 0:
                return 0
            if part.sequence > 0:
                fits.append(int(room // part.sequence))
        return min(fits) if fits else 0


def training(
    model: Model,
    sums: Totals,
    tokens: int,
    mode: str,
    *,
    adapters: int = 0,
    checkpointing: bool = False,
    scores: bool = False,
) -> Step:
    """The memory of a step.

    Of the arguments:
        mode: ``autocast``, ``bf16``, ``fp32`` or ``lora``.
        adapters: Adapter parameters, for ``lora``.
        checkpointing: Gradient checkpointing: only each layer's input is kept.
        scores: Attention dropout is on, and its kernel keeps the scores (flash attention does not).

    """
    parameters = sums.parameters
    has_logits = model.head is not None and model.head_tied is not None
    logits = 2 * model.vocabulary * tokens if has_logits else 0
    state = 2 * model.hidden * tokens * (2 if mode in ("autocast", "fp32") else 1)
    if mode == "lora":
        resting, gradients, optimizer = (
            2.0 * parameters + 12 * adapters,
            4.0 * adapters,
            2.0 * parameters + 20 * adapters,
        )
        again = 0.0
    else:
        size = 2 if mode == "bf16" else 4
        resting, gradients, optimizer = 3.0 * size * parameters, 1.0 * size * parameters, 5.0 * size * parameters
        again = 2.0 * size * model.vocabulary * model.hidden if model.head_tied else 0.0
    over_linear = linear_parameters(sums)
    held = kept(
        model, sums, tokens, mode, checkpointing=checkpointing, merged=adapters > 2 * over_linear, scores=scores
    )
    return Step(
        resting=resting,
        loss=Kept(held.fixed, held.sequence + logits + 4 * logits),
        end=Kept(gradients + again, logits + state),
        optimizer=optimizer,
    )


def cache_bytes(sums: Totals, tokens: int, *, encoder_tokens: int = 0) -> int:
    """The cache of one sequence in bf16: growing keys and values, windows that are full, states."""
    elements = sums.growing * tokens + sums.state + sums.cross * encoder_tokens
    elements += sum(count * min(window, tokens) for window, count in sums.windows.items())
    return 2 * elements


def weight_bytes(parameters: int, precision: str) -> int:
    """Weights for serving."""
    return parameters * WEIGHT_BITS.get(precision, 16) // 8


def forward_bytes(model: Model, sums: Totals, tokens: int) -> int:
    """What one sequence needs while it passes through a model that keeps no cache, in bf16.

    Hidden state, its norm and residual, the widest matrix's output, and the logits of an MLM head.
    """
    widest = max((o for (_, o), _ in sums.linears.items()), default=model.hidden)
    widest = min(widest, 8 * model.hidden) if model.hidden else widest
    logits = model.vocabulary if model.head_tied is not None else 0
    return 2 * tokens * (4 * model.hidden + 2 * widest + logits)
