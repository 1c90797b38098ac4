"""Token tables and merge rules, packed: a quarter of a million entries in a few megabytes instead of eighty.

A table is a run of pieces of some thousand entries. A piece holds its texts as one UTF-8 block and its numbers as
an array, and is unpacked when somebody looks at it. Whoever goes through a table holds one piece at a time; to
look up a few entries is a search in the blocks, to look up many is what `TokenTable.pieces` is for.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Self, overload

from storage.model import Json

_SEPARATORS: Final = ("\n", "\0", "\U0010ffff")
_MOST: Final = 2**31 - 1
_MASK: Final = 2**64 - 1
_TIGHT: Final = (",", ":")

Numbers = Sequence[Any]
"""A column of numbers: a range, an array, or a tuple where the numbers are of several types."""


class Unpackable(Exception):
    """Entries that no table can hold; they stay as they are."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Some texts, at least one, in one block."""

    block: bytes
    separator: str

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Pack texts; raises Unpackable where they hold everything that could stand between them."""
        for separator in _SEPARATORS:
            whole = separator.join(texts)
            if whole.count(separator) == len(texts) - 1:
                return cls(whole.encode("utf-8", "surrogatepass"), separator)
        raise Unpackable

    def unpack(self) -> list[str]:
        """The texts."""
        return self.block.decode("utf-8", "surrogatepass").split(self.separator)

    def index(self, text: str) -> int | None:
        """The place of the first text that is equal; None where none is."""
        if self.separator in text:
            return None
        mark, wanted = self.separator.encode(), text.encode("utf-8", "surrogatepass")
        if self.block == wanted or self.block.startswith(wanted + mark):
            return 0
        at = self.block.find(mark + wanted + mark)
        if at < 0 and self.block.endswith(mark + wanted):
            at = len(self.block) - len(wanted) - len(mark)
        return None if at < 0 else self.block.count(mark, 0, at) + 1


def packed_ids(numbers: Sequence[Any]) -> Numbers:
    """Token ids as a range where they are one, else as an array; Unpackable for what is no small integer."""
    if set(map(type, numbers)) != {int}:
        raise Unpackable
    first = numbers[0]
    if all(map(int.__eq__, numbers, range(first, first + len(numbers)))):
        return range(first, first + len(numbers))
    if min(numbers) < -_MOST or max(numbers) > _MOST:
        raise Unpackable
    return array("i", numbers)


def packed_scores(numbers: Sequence[Any]) -> Numbers:
    """Scores as an array where all are floats; raises Unpackable where some are no numbers."""
    types = set(map(type, numbers))
    if types == {float}:
        return array("d", numbers)
    if not types <= {int, float}:
        raise Unpackable
    return tuple(numbers)


def _room(column: Texts | Numbers) -> int:
    """Bytes that a column takes, about."""
    if isinstance(column, Texts):
        return len(column.block) + 100
    return len(column) * getattr(column, "itemsize", 0 if isinstance(column, range) else 32) + 100


def _fingerprint(entries: Iterable[tuple[Any, Any]]) -> int:
    """The same for the same entries in any order, and else another, but for chance: a quick no."""
    return sum(map(hash, entries)) & _MASK


class InPieces(ItemsView[str, int]):
    """Entries of a mapping that tells them piece by piece."""

    def __init__(self, mapping: Mapping[str, int], pieces: Callable[[], Iterator[Mapping[str, int]]]) -> None:
        """Look at the mapping whose ``pieces`` these are."""
        super().__init__(mapping)
        self._pieces = pieces

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """The entries."""
        for piece in self._pieces():
            yield from piece.items()


class _Values(ValuesView[int]):
    def __init__(self, table: TokenTable) -> None:
        super().__init__(table)
        self._columns = table.columns

    def __iter__(self) -> Iterator[int]:
        for _, numbers in self._columns:
            yield from numbers


class TokenTable(Mapping[str, int]):
    """Token to id, in the order of the file, each token once."""

    __slots__ = ("_size", "columns")

    def __init__(self, columns: Iterable[tuple[Texts, Numbers]]) -> None:
        """Take the pieces as they are."""
        self.columns = tuple(columns)
        self._size = sum(len(numbers) for _, numbers in self.columns)

    def pieces(self) -> Iterator[dict[str, int]]:
        """The table piece by piece."""
        for texts, numbers in self.columns:
            yield dict(zip(texts.unpack(), numbers, strict=True))

    def __getitem__(self, token: str) -> int:
        """One id, by a search through the table."""
        if isinstance(token, str):
            for texts, numbers in self.columns:
                place = texts.index(token)
                if place is not None:
                    found: int = numbers[place]
                    return found
        raise KeyError(token)

    def __iter__(self) -> Iterator[str]:
        """The tokens."""
        for texts, _ in self.columns:
            yield from texts.unpack()

    def __len__(self) -> int:
        """How many tokens there are."""
        return self._size

    def __eq__(self, other: object) -> bool:
        """Equal to any mapping of the same tokens to the same ids."""
        if not isinstance(other, Mapping) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Mapping) else False
        if _fingerprint(self.items()) != _fingerprint(other.items()):
            return False
        in_order = all(one == two for one, two in zip(self.items(), other.items(), strict=True))
        return in_order or dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]  # as a mapping has none

    def items(self) -> ItemsView[str, int]:
        """Tokens and ids."""
        return InPieces(self, self.pieces)

    def values(self) -> ValuesView[int]:
        """The ids."""
        return _Values(self)

    def written(self) -> Iterator[str]:
        """The table as compact JSON, in parts."""
        for number, piece in enumerate(self.pieces()):
            yield ("," if number else "{") + json.dumps(piece, separators=_TIGHT)[1:-1]
        yield "}" if self.columns else "{}"

    @property
    def room(self) -> int:
        """Bytes that it takes, about."""
        return sum(_room(texts) + _room(numbers) for texts, numbers in self.columns)


class RuleTable(Sequence[Json]):
    """The entries of a long list, all of one shape: a text, two texts, or a text and a number."""

    def __init__(self, columns: Iterable[tuple[Texts, Texts | Numbers | None]], sizes: Iterable[int]) -> None:
        """Take the pieces as they are, with how many entries each has."""
        self.columns = tuple(columns)
        self._ends = tuple(accumulate(sizes))

    def _piece(self, number: int) -> list[Json]:
        first, second = self.columns[number]
        if second is None:
            return list(first.unpack())
        other = second.unpack() if isinstance(second, Texts) else second
        return list(map(list, zip(first.unpack(), other, strict=True)))

    def pieces(self) -> Iterator[list[Json]]:
        """The list piece by piece."""
        return map(self._piece, range(len(self.columns)))

    @cached_property
    def of_texts(self) -> bool:
        """Whether every entry is a text, or two."""
        return all(second is None or isinstance(second, Texts) for _, second in self.columns)

    @cached_property
    def scored(self) -> bool:
        """Whether every entry is a text and a number; no text is there twice then."""
        return not any(second is None or isinstance(second, Texts) for _, second in self.columns)

    @overload
    def __getitem__(self, index: int) -> Json: ...

    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...

    def __getitem__(self, index: int | slice) -> Json:
        """One entry, or some as a list."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        number = bisect_right(self._ends, place)
        return self._piece(number)[place - (self._ends[number - 1] if number else 0)]

    def __iter__(self) -> Iterator[Json]:
        """The entries."""
        for piece in self.pieces():
            yield from piece

    def __len__(self) -> int:
        """How many entries there are."""
        return self._ends[-1] if self._ends else 0

    def __eq__(self, other: object) -> bool:
        """Equal to any list or table of the same entries in the same order."""
        if not isinstance(other, list | RuleTable):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def written(self) -> Iterator[str]:
        """The list as compact JSON, in parts."""
        for number, piece in enumerate(self.pieces()):
            yield ("," if number else "[") + json.dumps(piece, separators=_TIGHT)[1:-1]
        yield "]" if self.columns else "[]"

    @property
    def room(self) -> int:
        """Bytes that it takes, about."""
        return sum(_room(first) + (0 if second is None else _room(second)) for first, second in self.columns)


class Rules(Sequence[str]):
    """Merge rules as texts, ``"a b"``, of a table that holds them so or in pairs."""

    def __init__(self, table: RuleTable) -> None:
        """Look at a table whose entries are texts."""
        self._table = table

    def pieces(self) -> Iterator[list[str]]:
        """The rules piece by piece."""
        for first, second in self._table.columns:
            one = first.unpack()
            yield list(map(" ".join, zip(one, second.unpack(), strict=True))) if isinstance(second, Texts) else one

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One rule, or some."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        found = self._table[index]
        return found if isinstance(found, str) else " ".join(found)

    def __iter__(self) -> Iterator[str]:
        """The rules."""
        for piece in self.pieces():
            yield from piece

    @property
    def told_apart(self) -> bool:
        """Whether every text says which two parts it is made of: no part holds a space, and none is a comment."""
        columns = [column for pair in self._table.columns for column in pair if isinstance(column, Texts)]
        return not any(b" " in column.block or b"#version" in column.block for column in columns)

    def written(self) -> Iterator[str]:
        """The rules as a compact JSON list of texts, in parts."""
        for number, piece in enumerate(self.pieces()):
            yield ("," if number else "[") + json.dumps(piece, separators=_TIGHT)[1:-1]
        yield "]" if len(self) else "[]"

    def __len__(self) -> int:
        """How many rules there are."""
        return len(self._table)


Table = TokenTable | RuleTable


def plain(value: Json, *, levels: int = 2) -> Json:
    """A value with every table as an object or a list; tables are looked for so many levels deep."""
    if isinstance(value, TokenTable):
        return dict(value.items())
    if isinstance(value, RuleTable):
        return list(value)
    if levels and isinstance(value, dict) and any(isinstance(item, dict | Table) for item in value.values()):
        return {key: plain(item, levels=levels - 1) for key, item in value.items()}
    return value


def beside_tables(value: Json, other: Json, *, levels: int = 2) -> Json:
    """A value without its tables, as far as another value has tables in the same places."""
    if isinstance(value, Table) and isinstance(other, Table):
        return None
    if levels and isinstance(value, dict) and isinstance(other, dict):
        return {key: beside_tables(item, other.get(key), levels=levels - 1) for key, item in value.items()}
    return value


def room(value: Json, *, levels: int = 2) -> int:
    """Bytes that the tables of a value take, about; 0 for a value that has none."""
    if isinstance(value, Table):
        return value.room
    inside = value.values() if levels and isinstance(value, dict) else ()
    return sum(room(item, levels=levels - 1) for item in inside)


def written(value: Json, *, levels: int = 2) -> Iterator[str]:
    """A value as compact JSON, in parts; tables are looked for so many levels deep."""
    if isinstance(value, Table | Rules):
        yield from value.written()
    elif levels and isinstance(value, dict) and value:
        for number, (key, item) in enumerate(value.items()):
            yield f"{',' if number else '{'}{json.dumps(key)}:"
            yield from written(item, levels=levels - 1)
        yield "}"
    else:
        yield json.dumps(value, separators=_TIGHT)
