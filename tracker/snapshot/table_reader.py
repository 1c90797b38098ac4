"""Reads a tokenizer file whose token table and merge rules are long, without ever holding them whole as objects.

The long object of a weight index, names and files, is read in the same way and becomes a dictionary.

The long containers are cut at commas that look like the end of an entry, and every piece is parsed by itself. A
piece that parses as a whole object (or array) proves that the cut was right: from a known start JSON can be read
in one way only. What is left of the file, with a stand-in for each table, goes through `read_json`.

Whatever is unusual (an entry of another shape, a key twice, a number that is none, an error anywhere) makes the
whole file be read by `read_json`, so that the value, its flaws and its errors are the same in either way.
"""

from __future__ import annotations

import json
import re
import secrets
from array import array
from codecs import utf_8_decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from math import isinf
from operator import itemgetter
from typing import Any, Final

from storage.model import Json
from tracker.snapshot.json_reader import MAX_NODES, Unreadable, count_nodes, read_json
from tracker.snapshot.tables import (
    Numbers,
    RuleTable,
    Table,
    Texts,
    TokenTable,
    Unpackable,
    packed_ids,
    packed_scores,
)

LONG: Final = 1 << 19
"""Bytes from which on a file may have tables worth packing."""
_PIECE: Final = 1 << 17  # bytes of a table that are parsed at a time
_TRIES: Final = 8  # commas tried as the end of a piece
_ATTEMPTS: Final = 32  # containers of a file that are tried as a table
_OPENINGS: Final = 100_000  # containers of a file that are looked at

_TEXT: Final = rb'"(?:[^"\\]++|\\.)*+"'
_NUMBER: Final = rb"-?[0-9.eE+-]++"
_S: Final = rb"[ \t\r\n]*+"
_OPENING: Final = re.compile(rb'(?:[^"{\[]++|' + _TEXT + rb")*+([{\[])", re.DOTALL)


def _several(entry: bytes) -> re.Pattern[bytes]:
    """What the first entries of a long container look like."""
    return re.compile(rb"(?:" + _S + rb"(?:" + entry + rb")" + _S + rb",){8}", re.DOTALL)


_MEMBERS: Final = _several(_TEXT + _S + rb":" + _S + rb"(?:-?\d{1,9}|" + _TEXT + rb")")
_NAMED: Final = re.compile(_S + _TEXT + _S + rb":" + _S + rb'"', re.DOTALL)
_ENTRIES: Final = _several(
    _TEXT + rb"|\[" + _S + _TEXT + _S + rb"," + _S + rb"(?:" + _TEXT + rb"|" + _NUMBER + rb")" + _S + rb"\]"
)
_END_OF_MEMBER: Final = re.compile(rb"\d" + _S + rb"," + _S + rb'(?=")')
_END_OF_TEXT: Final = re.compile(rb'"' + _S + rb"," + _S + rb'(?=")')
_END_OF_PAIR: Final = re.compile(rb"\]" + _S + rb"," + _S + rb"(?=\[)")

# not zip(*pairs), which makes an iterator of every pair
_FIRST: Final = itemgetter(0)
_SECOND: Final = itemgetter(1)


class _Plain(Exception):
    """The file is to be read without tables."""


def read_tables(data: bytes, *, long: int = LONG, need_object: bool = False) -> tuple[Json, tuple[str, ...]]:
    """Parse a tokenizer.json, a vocab.json or a weight index as `read_json` does; long token tables are packed.

    A packed table stands at ``/model/vocab``, at ``/model/merges``, or is the whole value. Raises Unreadable.
    """
    if len(data) >= long and count_nodes(data) <= MAX_NODES:
        try:
            return _Packing(data, long // 4, need_object).read()
        except (_Plain, Unpackable, Unreadable, RecursionError, ValueError):
            pass  # the way below says what it is
    return read_json(data, need_object=need_object)


@dataclass(slots=True)
class _Packing:
    """One file on its way."""

    data: bytes
    least: int
    """Bytes that a container must have at least to be tried."""
    need_object: bool
    mark: str = field(default_factory=lambda: secrets.token_hex(16))
    found: list[Table | dict[str, str]] = field(default_factory=list)

    def read(self) -> tuple[Json, tuple[str, ...]]:
        """The value with its tables; raises _Plain where it has none, and whatever is wrong with it."""
        value, flaws = read_json(b"".join(self._rest()), standing_for=self._table)
        tables = sum(isinstance(item, Table) for item in self.found)
        if not self.found or not isinstance(value, dict if self.need_object else dict | TokenTable):
            raise _Plain
        model = value.get("model") if isinstance(value, dict) else None
        placed = [value, *((model.get("vocab"), model.get("merges")) if isinstance(model, dict) else ())]
        if sum(isinstance(item, Table) for item in placed) != tables:
            raise _Plain
        return value, flaws

    def _table(self, pairs: list[tuple[str, Any]]) -> Table | dict[str, str] | None:
        """The table that an object stands for."""
        return self.found[pairs[0][1]] if len(pairs) == 1 and pairs[0][0] == self.mark else None

    def _rest(self) -> Iterator[bytes]:
        """The file without its tables."""
        kept, place, attempts = 0, 0, 0
        for _ in range(_OPENINGS):
            found = _OPENING.match(self.data, place)
            if found is None or len(self.data) - found.end() < self.least:
                break
            place = found.end()
            is_object = found[1] == b"{"
            if not (_MEMBERS if is_object else _ENTRIES).match(self.data, place):
                continue
            attempts += 1
            if attempts > _ATTEMPTS:
                raise _Plain
            taken = self._members(place) if is_object else self._entries(place)
            if taken is None:
                continue
            table, end = taken
            yield self.data[kept : place - 1]
            yield json.dumps({self.mark: len(self.found)}).encode()
            self.found.append(table)
            kept = place = end
        yield self.data[kept:]

    def _members(self, start: int) -> tuple[Table | dict[str, str], int] | None:
        named = _NAMED.match(self.data, start) is not None
        columns, hashes = [], array("q")
        names: dict[str, str] = {}
        files: dict[str, str] = {}
        count, end = 0, start
        for pairs, end in self._pieces(start, _END_OF_TEXT if named else _END_OF_MEMBER, "{}"):  # noqa: B007
            tokens, values = list(map(_FIRST, pairs)), list(map(_SECOND, pairs))
            if named:
                names.update(zip(tokens, _shared(values, files), strict=True))
                count += len(tokens)
            else:
                columns.append((Texts.of(tokens), packed_ids(values)))
                hashes.extend(map(hash, tokens))
        if end - start < self.least:
            return None
        if len(names) < count:
            raise _Plain
        _each_once(hashes)
        return (names if named else TokenTable(columns)), end

    def _entries(self, start: int) -> tuple[Table, int] | None:
        columns: list[Any] = []
        sizes: list[int] = []
        hashes = array("q")
        end = start
        paired = self.data[start : start + 100].lstrip(b" \t\r\n").startswith(b"[")
        pack = None
        for entries, end in self._pieces(start, _END_OF_PAIR if paired else _END_OF_TEXT, "[]"):  # noqa: B007
            pack = pack or _packer(entries[0])
            columns.append(pack(entries))
            sizes.append(len(entries))
            if isinstance(entries[0], list) and not isinstance(entries[0][1], str):
                hashes.extend(map(hash, map(_FIRST, entries)))
        _each_once(hashes)
        return None if end - start < self.least else (RuleTable(columns, sizes), end)

    def _pieces(self, start: int, boundary: re.Pattern[bytes], brackets: str) -> Iterator[tuple[list[Any], int]]:
        """The entries of a container, piece by piece, each with where it ends; the last with its end."""
        decoder = json.JSONDecoder(object_pairs_hook=list, parse_constant=_refused, parse_float=_finite)
        while (piece := self._piece(decoder, start, boundary, brackets)) is not None:
            yield piece
            start = piece[1] + 1
        window, _ = utf_8_decode(self.data[start : start + 3 * _PIECE], "strict", False)
        entries, end = decoder.raw_decode(brackets[0] + window)
        yield entries, start + len(window[: end - 1].encode("utf-8"))

    def _piece(
        self, decoder: json.JSONDecoder, start: int, boundary: re.Pattern[bytes], brackets: str
    ) -> tuple[list[Any], int] | None:
        """The next entries and the comma behind them; None where no comma close by ends a whole number of them."""
        cuts = boundary.finditer(self.data, start + _PIECE, start + 2 * _PIECE)
        for found in islice(cuts, _TRIES):
            comma = self.data.index(b",", found.start(), found.end())
            text = self.data[start:comma].decode("utf-8")
            with suppress(json.JSONDecodeError):
                return decoder.decode(f"{brackets[0]}{text}{brackets[1]}"), comma
        return None


def _shared(texts: list[Any], known: dict[str, str]) -> list[str]:
    """The same texts, those of a kind one object: a hundred thousand tensors are in a few hundred files."""
    if set(map(type, texts)) != {str}:
        raise Unpackable
    return [known.setdefault(text, text) for text in texts]


def _each_once(hashes: Sequence[int]) -> None:
    """Raise _Plain where a token is there twice, most likely."""
    # in parts, for numbers take more room in a set than in an array
    if sum(len({number for number in hashes if number & 3 == part}) for part in range(4)) < len(hashes):
        raise _Plain


def _packer(first: Any) -> Callable[[list[Any]], tuple[Texts, Texts | Numbers | None]]:
    """What packs entries of the same shape as this one."""
    if isinstance(first, str):
        return lambda entries: (_texts(entries), None)
    seconds = (
        _texts if isinstance(first, list) and len(first) == 2 and isinstance(first[1], str) else packed_scores
    )

    def pack(entries: list[Any]) -> tuple[Texts, Texts | Numbers]:
        if set(map(type, entries)) != {list} or set(map(len, entries)) != {2}:
            raise Unpackable
        return _texts(list(map(_FIRST, entries))), seconds(list(map(_SECOND, entries)))

    return pack


def _texts(texts: Sequence[Any]) -> Texts:
    if set(map(type, texts)) != {str}:
        raise Unpackable
    return Texts.of(texts)


def _refused(word: str) -> Any:
    raise Unpackable(word)


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise Unpackable(text)
    return value
