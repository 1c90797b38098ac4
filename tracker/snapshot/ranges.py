"""Parts of a large file: read on demand, kept, and read again from what was kept. Pure.

Whoever looks into a file asks for bytes by a `Read`. The first time it leads to the upstream and a `Recorder`
notes every part; later the same look-up runs over the parts, without the upstream.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tracker.snapshot.json_reader import Unreadable

Read = Callable[[int, int], bytes]
"""Gives the bytes of a file from ``start`` up to, without, ``stop``: exactly so many."""

BLOCK: Final = 64 * 1024
"""Bytes asked for at once, at the least: a request costs more than they do."""
BUDGET: Final = 512 * 1024
"""Bytes of one file that are read in all."""


class OverBudget(Unreadable):
    """More of a file would have to be read than is allowed."""

    def __init__(self) -> None:
        super().__init__("too_large", f"more than {BUDGET} bytes would have to be read")


@dataclass(slots=True)
class Recorder:
    """A `Read` that notes what passes through it."""

    read: Read
    parts: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def __call__(self, start: int, stop: int) -> bytes:
        """Read a part, once."""
        if (start, stop) not in self.parts:
            self.parts[start, stop] = self.read(start, stop)
        return self.parts[start, stop]

    def packed(self) -> bytes:
        """All parts as one content to be kept: a line of JSON that says where they belong, then their bytes."""
        places = sorted(self.parts)
        return json.dumps(places).encode() + b"\n" + b"".join(self.parts[place] for place in places)


def unpacked(data: bytes) -> Read:
    """A `Read` over what `Recorder.packed` gave. Asking for any other part raises Unreadable ``fetch``."""
    line, _, rest = data.partition(b"\n")
    parts: dict[tuple[int, int], bytes] = {}
    place = 0
    for start, stop in json.loads(line):
        parts[start, stop] = rest[place : place + stop - start]
        place += stop - start

    def read(start: int, stop: int) -> bytes:
        try:
            return parts[start, stop]
        except KeyError:
            raise Unreadable("fetch", f"bytes {start} to {stop} were not fetched") from None

    return read


class RangeFile(io.RawIOBase):
    """A file whose bytes come by ranges, in blocks, and never more than `BUDGET` of them."""

    def __init__(self, read: Read, size: int) -> None:
        super().__init__()
        self._read, self._size = read, size
        self._place = self._spent = 0
        self._blocks: list[tuple[int, bytes]] = []

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; one before the beginning is refused as files refuse it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("seek before the beginning")
        self._place = base + offset
        return self._place

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, fewer at the end of the file. Raises OverBudget."""
        stop = self._size if size is None or size < 0 else min(self._size, self._place + size)
        data = self.part(self._place, stop)
        self._place += len(data)
        return data

    def part(self, start: int, stop: int) -> bytes:
        """The bytes between two places, as far as the file goes. Raises OverBudget."""
        start, stop = min(start, self._size), min(stop, self._size)
        if start >= stop:
            return b""
        for begin, block in self._blocks:
            if begin <= start and stop <= begin + len(block):
                return block[start - begin : stop - begin]
        begin = min(start, max(0, self._size - BLOCK))
        end = min(self._size, max(stop, begin + BLOCK))
        self._spent += end - begin
        if self._spent > BUDGET:
            raise OverBudget
        block = self._read(begin, end)
        self._blocks.append((begin, block))
        return block[start - begin : stop - begin]
