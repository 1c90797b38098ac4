"""What was parsed lately, as long as there is room for it: the same files are read with every revision."""

from __future__ import annotations

import json
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from storage.model import Json, TensorFile
from tracker.snapshot.tables import beside_tables, room

T = TypeVar("T")

BUDGET: Final = 64 << 20
"""Bytes that parsed files may take beside the revisions that are being compared."""
_FACTOR: Final = 6  # parsed JSON takes several times the room of its bytes
_LEAST: Final = 200
_TENSOR: Final = 130  # bytes of one tensor without its name; types and shapes are shared


@dataclass(slots=True)
class Memory(Generic[T]):
    """Things by their slots, with the bytes each takes; the one that was not asked for the longest goes first.

    Shared by threads. What takes more than the whole budget is not kept.
    """

    budget: int = BUDGET
    _kept: OrderedDict[tuple[str, str], tuple[T, int]] = field(default_factory=OrderedDict)
    _weight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, slot: tuple[str, str]) -> T | None:
        """What is kept in a slot; None where nothing is."""
        with self._lock:
            found = self._kept.get(slot)
            if found is None:
                return None
            self._kept.move_to_end(slot)
            return found[0]

    def keep(self, slot: tuple[str, str], thing: T, weight: int) -> None:
        """Keep a thing of so many bytes, if there is room for it at all."""
        with self._lock:
            if slot in self._kept or weight > self.budget:
                return
            self._kept[slot] = (thing, weight)
            self._weight += weight
            while self._weight > self.budget:
                _, (_, freed) = self._kept.popitem(last=False)
                self._weight -= freed

    @property
    def weight(self) -> int:
        """Bytes that all that is kept takes, about."""
        return self._weight


def weight_of_value(value: Json, size: int) -> int:
    """Bytes that a document takes which was parsed from so many bytes, about."""
    if isinstance(value, str):
        return _LEAST + sys.getsizeof(value)
    packed = room(value)
    if packed:
        return _LEAST + packed + _FACTOR * len(json.dumps(beside_tables(value, value)))
    return _LEAST + _FACTOR * size


def weight_of_header(file: TensorFile) -> int:
    """Bytes that a parsed weight header takes, about."""
    names = sum(len(tensor.name) for tensor in file.tensors)
    return _LEAST + names + _TENSOR * len(file.tensors) + _FACTOR * len(json.dumps(file.metadata, default=str))
