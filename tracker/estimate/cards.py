"""The cards that figures are given for: memory, price, peak speed. Data with a date, never constants."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from storage.model import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card by memory, in units of 1e9 bytes."""

    name: str
    gb: int

    def budget(self, headroom: float) -> float:
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


Largest = Callable[[float], int]
"""The largest batch that fits into so many bytes."""


def batches(
    uses: Mapping[str, Largest], *, headroom: float, split: Mapping[str, Largest] | None = None
) -> list[dict[str, Json]]:
    """The largest batch of each use on each card, the headroom included; of ``split`` on two such cards."""
    rows: list[dict[str, Json]] = []
    for card in catalogue().fit:
        budget = card.budget(headroom)
        row: dict[str, Json] = {"name": card.name, **{f"{use}_batch": fits(budget) for use, fits in uses.items()}}
        if split is not None:
            row["two_cards"] = {f"{use}_batch": fits(budget) for use, fits in split.items()}
        rows.append(row)
    return rows


def smallest(rows: Sequence[Mapping[str, Json]], batch: int) -> dict[str, Json]:
    """The smallest card that takes this batch, by use; None where none does."""
    uses = [key for key in rows[0] if key.endswith("_batch")]
    return {
        use.removesuffix("_batch"): next((row["name"] for row in rows if row[use] >= batch), None) for use in uses
    }
