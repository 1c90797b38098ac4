"""Several token tables over each other, the later before the earlier, without making one of them."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import islice, zip_longest
from typing import Final, TypeVar

from tracker.snapshot.tables import InPieces, TokenTable

T = TypeVar("T")

_PIECE: Final = 1 << 13  # entries of a piece of what is no table


def unlike(one: Iterable[Mapping[str, T]], other: Iterable[Mapping[str, T]]) -> tuple[dict[str, T], dict[str, T]]:
    """The entries of each side that the other does not have just so; both sides come in pieces.

    What the two have in common goes away piece by piece, so that no more is held than what differs, as long as
    both are in about the same order.
    """
    left: dict[str, T] = {}
    right: dict[str, T] = {}
    for first, second in zip_longest(one, other):
        left.update(first or {})
        right.update(second or {})
        for entry, _ in left.items() & right.items():
            del left[entry], right[entry]
    return left, right


class _Values(ValuesView[int]):
    """Ids told piece by piece: looked up one by one they would take the square of their number."""

    def __init__(self, layers: Layers) -> None:
        super().__init__(layers)
        self._pieces = layers.pieces

    def __iter__(self) -> Iterator[int]:
        for piece in self._pieces():
            yield from piece.values()


class Layers(Mapping[str, int]):
    """Token to id over some tables. What a later one says of a token counts."""

    __slots__ = ("_layers",)

    def __init__(self, layers: Iterable[Mapping[str, int]]) -> None:
        """Look at these tables; empty ones are left out."""
        self._layers = tuple(layer for layer in layers if layer)

    def pieces(self) -> Iterator[Mapping[str, int]]:
        """What counts, some thousand tokens at a time."""
        for number, layer in enumerate(self._layers):
            later = [_quick(item) for item in self._layers[number + 1 :]]
            for piece in _pieces(layer):
                if any(not other.keys().isdisjoint(piece) for other in later):
                    yield {token: place for token, place in piece.items() if not any(token in x for x in later)}
                else:
                    yield piece

    def each(self) -> Iterator[Mapping[str, int]]:
        """All that any table says, also where a later one says otherwise, some thousand tokens at a time."""
        for layer in self._layers:
            yield from _pieces(layer)

    @property
    def most(self) -> int:
        """The highest id of all tables, also where a later one gives the token another."""
        return max(max(layer.values()) for layer in self._layers)

    def __getitem__(self, token: str) -> int:
        """One id."""
        for layer in reversed(self._layers):
            place = layer.get(token)
            if place is not None:
                return place
        raise KeyError(token)

    def __iter__(self) -> Iterator[str]:
        """The tokens."""
        for piece in self.pieces():
            yield from piece

    def __len__(self) -> int:
        """How many tokens there are; goes through them all."""
        return sum(map(len, self.pieces()))

    def items(self) -> ItemsView[str, int]:
        """Tokens and ids."""
        return InPieces(self, self.pieces)

    def values(self) -> ValuesView[int]:
        """The ids."""
        return _Values(self)

    def __bool__(self) -> bool:
        """Whether there is any token."""
        return bool(self._layers)


def _pieces(layer: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    if isinstance(layer, TokenTable):
        yield from layer.pieces()
    elif len(layer) <= _PIECE:
        yield layer
    else:
        items = iter(layer.items())
        while piece := dict(islice(items, _PIECE)):
            yield piece


def _quick(layer: Mapping[str, int]) -> Mapping[str, int]:
    """A table in which many tokens can be looked up."""
    return dict(layer.items()) if isinstance(layer, TokenTable) else layer
