"""The cards that figures are given for: memory, price, peak speed. Data with a date, never constants."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from storage.model import Json

HEADROOM = 1.15
HEADROOM_REASON = (
    "1.15: measured peaks on an L40S stood up to 8 % above the simulated allocation (0.93 of the measured "
    "value for full fine-tuning, 0.985 to 0.999 for LoRA); the rest is for the CUDA context and fragmentation"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card by memory, in units of 1e9 bytes."""

    name: str
    gb: int

    def budget(self, headroom: float = HEADROOM) -> float:
        """Bytes left to a model after the headroom."""
        return self.gb * 1e9 / headroom


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A card by price and speed: dollars an hour, dense bf16 TFLOP/s, GB/s."""

    name: str
    key: str
    usd_hour: float
    tflops: float
    gb_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The dated table."""

    version: str
    date: str
    fit: tuple[Card, ...]
    priced: tuple[Price, ...]
    default: str

    def price(self, name: str | None) -> Price:
        """The priced card that a name means (``L4``, ``a100-80``, ``L4 24 GB``); the default for any other."""
        wanted = _plain(name or self.default)
        for card in self.priced:
            if _plain(card.key) == wanted or _plain(card.name) == wanted:
                return card
        for card in self.priced:
            if wanted.startswith(_plain(card.key)):
                return card
        return next(card for card in self.priced if card.key == self.default)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def catalogue() -> Catalogue:
    """The table that ships with this version."""
    data = json.loads((resources.files("tracker.estimate") / "data" / "cards.json").read_text("utf-8"))
    return Catalogue(
        version=data["version"],
        date=data["date"],
        fit=tuple(Card(**row) for row in data["fit"]),
        priced=tuple(Price(**row) for row in data["priced"]),
        default=data["default"],
    )


def batches(
    full: Callable[[float], int], lora: Callable[[float], int], serve: Callable[[float], int]
) -> list[dict[str, Json]]:
    """The largest batch of each kind on each card, the headroom included."""
    return [
        {
            "name": card.name,
            "full_finetune_batch": full(card.budget()),
            "lora_batch": lora(card.budget()),
            "serve_batch": serve(card.budget()),
        }
        for card in catalogue().fit
    ]
