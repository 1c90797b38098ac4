"""The cards that figures are given for: memory, price, peak speed. Data with a date, never constants."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from storage.model import Json

HEADROOM: Final = 1.08
HEADROOM_REASON: Final = (
    "1.08: peaks measured on an L40S stood up to 8 % above the simulated allocation (0.93 of the measured value "
    "for full fine-tuning, 0.985 to 0.999 for LoRA); the CUDA context of half a gigabyte is in what a card holds "
    "over its name (a 24 GB card has 24 GiB)"
)


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
    """A card by price and speed: dollars an hour, dense bf16 TFLOP/s, GB/s, memory in units of 1e9 bytes."""

    name: str
    gb: int
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
        default = next(card for card in self.priced if card.key == self.default)
        return (self._named(name) if name else None) or default

    def asked(self, name: str | None) -> Card | None:
        """The memory of a card that is asked for by name and is no row of the table; None otherwise."""
        card = self._named(name) if name else None
        if card is None or any(row.gb == card.gb for row in self.fit):
            return None
        return Card(name=card.name, gb=card.gb)

    def row_for(self, name: str) -> str | None:
        """The name of the row that shows a card: its own, or that of the same memory."""
        card = self._named(name)
        if card is None:
            return next((row.name for row in self.fit if _plain(row.name) == _plain(name)), None)
        return next((row.name for row in self.fit if row.gb == card.gb), card.name)

    @property
    def names(self) -> tuple[str, ...]:
        """What cards are called."""
        return tuple(card.key for card in self.priced)

    def _named(self, name: str) -> Price | None:
        wanted = _plain(name)
        if not wanted:
            return None
        tests: tuple[Callable[[Price], bool], ...] = (
            lambda card: wanted in (_plain(card.key), _plain(card.name)),
            lambda card: wanted.startswith(_plain(card.key)),
            lambda card: _plain(card.name).startswith(wanted),
        )
        return next((card for test in tests for card in self.priced if test(card)), None)


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
    uses: Mapping[str, Largest],
    *,
    headroom: float,
    split: Mapping[str, Largest] | None = None,
    asked: str | None = None,
) -> list[dict[str, Json]]:
    """The largest batch of each use on each card, the headroom included; of ``split`` on two such cards.

    A card that is asked for by name and is no row of the table is added to it.
    """
    rows: list[dict[str, Json]] = []
    more = catalogue().asked(asked)
    for card in sorted((*catalogue().fit, *((more,) if more else ())), key=lambda card: card.gb):
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
