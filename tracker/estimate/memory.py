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

from dataclasses import dataclass, replace
from typing import Final

from tracker.estimate.activations import Kept, kept, one_layer
from tracker.estimate.adapters import linear_parameters
from tracker.estimate.model import Model
from tracker.estimate.recipe import OPTIMIZERS, WEIGHT_BITS, Optimizer, Packing
from tracker.estimate.structure import Totals

ADAMW: Final = OPTIMIZERS["adamw"]


@dataclass(frozen=True, slots=True)
class Step:
    """A training step: bytes that do not grow with the batch, and what each sequence adds.

    ``moments`` of the backward pass are its candidates for the peak, each on top of what rests; the step of
    the ``optimizer`` is one more.
    """

    resting: float
    moments: tuple[Kept, ...]
    optimizer: float

    def peak(self, batch: int) -> int:
        """Peak bytes at this batch size."""
        backward = max(self.resting + part.fixed + batch * part.sequence for part in self.moments)
        return int(max(backward, self.optimizer))

    def largest(self, budget: float) -> int:
        """The largest batch that fits into this many bytes; 0 if none does."""
        if self.optimizer > budget:
            return 0
        fits = []
        for part in self.moments:
            room = budget - self.resting - part.fixed
            if room < 0:
                return 0
            if part.sequence > 0:
                fits.append(int(room // part.sequence))
        return min(fits) if fits else 0

    def with_loss(self, sequence: float) -> Step:
        """The same with so many more bytes a sequence at the loss, the first of the moments."""
        first, *others = self.moments
        return replace(self, moments=(Kept(first.fixed, first.sequence + sequence), *others))

    def halved(self) -> Step:
        """The half of it that each of two cards holds, with the layers dealt out evenly.

        Weights, gradients and what is kept are halved; the logits, which the second card holds whole, are in
        the first moment and are taken as kept, so the half is low by at most five bytes a logit.
        """
        half = tuple(Kept(part.fixed / 2, part.sequence / 2) for part in self.moments)
        return Step(self.resting / 2, half, self.optimizer / 2)


def training(
    model: Model,
    sums: Totals,
    tokens: int,
    mode: str,
    *,
    adapters: int = 0,
    checkpointing: bool = False,
    scores: bool = False,
    optimizer: Optimizer = ADAMW,
    packing: Packing | None = None,
    adapted_bytes: float | None = None,
    adapter_size: int = 4,
) -> Step:
    """The memory of a step.

    Of the arguments:
        mode: ``autocast``, ``bf16``, ``master``, ``fp32`` or ``lora``.
        adapters: Adapter parameters, for ``lora``.
        checkpointing: Gradient checkpointing: only each layer's input is kept, and one layer is computed again.
        scores: Attention dropout is on, and its kernel keeps the scores (flash attention does not).
        packing: How the base under the adapters is quantized; None: it is bf16.
        adapted_bytes: See `tracker.estimate.activations.kept`.
        adapter_size: Bytes of an adapter's scalar.

    """
    parameters = sums.parameters
    has_logits = model.head is not None and model.head_tied is not None
    logits = 2 * model.vocabulary * tokens if has_logits else 0
    state = 2 * model.hidden * tokens * (2 if mode in ("autocast", "fp32") else 1)
    largest = _largest_matrix(sums)
    if mode == "lora":
        base, again = base_bytes(sums, packing), 0.0
        unpacked = 2.0 * largest if packing else 0.0
        trained, size = adapters, adapter_size
        resting = base + adapters * (size + optimizer.state(size))
    else:
        size = 2 if mode in ("bf16", "master") else 4
        base, unpacked, trained = 0.0, 0.0, parameters
        if mode == "master":  # an fp32 copy is trained; its gradients are made for the step alone
            base, optimizer = 4.0 * parameters, replace(optimizer, step=2 * optimizer.step + 2)
        resting = base + parameters * (size + optimizer.state(4 if mode == "master" else size))
        again = 2.0 * size * model.vocabulary * model.hidden if model.head_tied else 0.0
        adapted_bytes = None
    gradients = 0.0 if optimizer.inside else float(size * trained)
    stepping = resting + gradients + trained * optimizer.step * size
    over_linear = linear_parameters(sums)
    merged = adapters > 2 * over_linear
    passes = passes_in(mode)
    held = kept(
        model,
        sums,
        tokens,
        passes,
        checkpointing=checkpointing,
        merged=merged,
        scores=scores,
        adapters=adapted_bytes,
    )
    moments = [
        Kept(unpacked + held.fixed, held.sequence + 5 * logits),
        Kept(unpacked + gradients + again, logits + state),
    ]
    if checkpointing:
        layer = one_layer(model, tokens, passes, scores=scores)
        moments.append(Kept(unpacked + held.fixed, held.sequence + layer + logits))
        moments[1] = Kept(moments[1].fixed, moments[1].sequence + layer)
    return Step(
        resting=resting,
        moments=tuple(moments),
        optimizer=stepping + optimizer.matrix * min(largest, trained),
    )


def passes_in(mode: str) -> str:
    """What the forward and backward passes of a mode keep their activations like."""
    return "bf16" if mode == "master" else mode


def base_bytes(sums: Totals, packing: Packing | None) -> float:
    """Weights of a frozen base: in bf16, or its matrices packed and the rest (embeddings, head, norms) not."""
    if packing is None:
        return 2.0 * sums.parameters
    packed = sum(i * o * n for (i, o), n in sums.adapted.items())
    return packing.packed * packed + packing.other * (sums.parameters - packed)


def _largest_matrix(sums: Totals) -> int:
    """Scalars of the largest matrix inside the layers."""
    return max((i * o for i, o in sums.adapted), default=0)


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
