"""What a training run costs: 50,000 samples at batch 32 on one card, by a roofline.

FLOPs a step = 2 x multiply-adds a sample x 3 (forward and backward) x 32. A step takes 5 ms and the longer of
computing (at 35 % of the card's peak) and reading the weights (at 80 % of its bandwidth); a run, a minute and
ten passes over the samples.
"""

from __future__ import annotations

from math import ceil

from storage.model import Json
from tracker.estimate.cards import Price

SAMPLES = 50_000
BATCH = 32
PASSES = 10
UTILISATION = 0.35
BANDWIDTH_SHARE = 0.8


def training_cost(macs: float, parameters: int, card: Price) -> dict[str, Json]:
    """Dollars and hours for a run.

    Args:
        macs: Multiply-adds of one sample's forward pass.
        parameters: All parameters, read once a sample of the batch.
        card: What it runs on.

    """
    flops = 2 * max(macs, parameters) * 3 * BATCH
    step = 0.005 + max(
        flops / (card.tflops * 1e12 * UTILISATION), BATCH * parameters / (card.gb_s * 1e9 * BANDWIDTH_SHARE)
    )
    seconds = 60 + PASSES * ceil(SAMPLES / BATCH) * step
    return {"usd": round(seconds / 3600 * card.usd_hour, 2), "card": card.name, "hours": round(seconds / 3600, 2)}
