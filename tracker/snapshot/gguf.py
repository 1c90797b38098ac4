"""The header of a GGUF file (versions 2 and 3), read from its first bytes.

Layout: ``GGUF``, u32 version, u64 tensor count, u64 key count, the key-value pairs, the tensor infos, then
padding and data. The keys hold a whole vocabulary and are often longer than the bytes at hand: what was
read is kept, and the result says that it is truncated.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from storage.model import Json, Tensor, TensorFile
from tracker.snapshot.json_reader import Unreadable, magic_of
from tracker.snapshot.weights import MAX_TENSORS

MAX_KEYS: Final = 65_536
MAX_STRING: Final = 4 * 1024 * 1024
SHORT_ARRAY: Final = 64  # longer arrays are kept as a count and a digest

_SCALARS: Final[Mapping[int, str]] = MappingProxyType(
    {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
)
_STRING: Final = 8
_ARRAY: Final = 9
_TYPE_NAMES: Final = [
    "UINT8",
    "INT8",
    "UINT16",
    "INT16",
    "UINT32",
    "INT32",
    "FLOAT32",
    "BOOL",
    "STRING",
    "ARRAY",
    "UINT64",
    "INT64",
    "FLOAT64",
]
_GGML_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    dict(
        enumerate(
            [
                "F32",
                "F16",
                "Q4_0",
                "Q4_1",
                "Q4_2",
                "Q4_3",
                "Q5_0",
                "Q5_1",
                "Q8_0",
                "Q8_1",
                "Q2_K",
                "Q3_K",
                "Q4_K",
                "Q5_K",
                "Q6_K",
                "Q8_K",
                "IQ2_XXS",
                "IQ2_XS",
                "IQ3_XXS",
                "IQ1_S",
                "IQ4_NL",
                "IQ3_S",
                "IQ2_S",
                "IQ4_XS",
                "I8",
                "I16",
                "I32",
                "I64",
                "F64",
                "IQ1_M",
                "BF16",
                "Q4_0_4_4",
                "Q4_0_4_8",
                "Q4_0_8_8",
                "TQ1_0",
                "TQ2_0",
                "IQ4_NL_4_4",
                "IQ4_NL_4_8",
                "IQ4_NL_8_8",
                "MXFP4",
                "NVFP4",
            ]
        )
    )
)


class _Ended(Exception):
    """The bytes at hand end here."""


def parse_gguf_header(data: bytes, file_size: int, *, path: str = "", content_key: str = "") -> TensorFile:
    """Read what the first bytes of a GGUF file say.

    Shapes are in the order of the tensor's rows first (the file keeps them the other way round). An array of
    more than 64 values becomes ``{"type", "count", "digest"}``. ``general.version`` and the counts of the
    head are not keys and stand under ``GGUF.version``, ``GGUF.tensor_count`` and ``GGUF.kv_count``.

    Raises:
        Unreadable: ``header`` for what is no GGUF file or contradicts itself, ``disguised`` for another kind
            of file, ``too_many`` above the caps.

    """
    what = magic_of(data)
    if what is not None and what != "GGUF file":
        raise Unreadable("disguised", f"the first bytes are those of a {what}")
    if what is None and len(data) >= 4:
        raise Unreadable("disguised", "the first bytes are not those of a GGUF file")
    if what is None or len(data) < 24:
        raise Unreadable("header", "does not begin as a GGUF file does")
    reader = _open(data)
    version = reader.number("I")
    if version not in (2, 3):
        raise Unreadable("header", f"GGUF version {version} is not known")
    tensor_count, key_count = reader.number("Q"), reader.number("Q")
    if tensor_count > MAX_TENSORS or key_count > MAX_KEYS:
        raise Unreadable("too_many", f"{tensor_count} tensors and {key_count} keys")
    metadata: dict[str, Json] = {
        "GGUF.version": version,
        "GGUF.tensor_count": tensor_count,
        "GGUF.kv_count": key_count,
    }
    tensors: list[Tensor] = []
    truncated = False
    try:
        for _ in range(key_count):
            key = reader.string()
            value = reader.value(reader.number("I"))
            if key in metadata:
                raise Unreadable("header", f"key {key[:80]!r} occurs twice")
            metadata[key] = value
        for _ in range(tensor_count):
            tensors.append(reader.tensor(file_size))  # noqa: PERF401 - keeps what was read when the bytes end
    except _Ended:
        if len(data) >= file_size:
            raise Unreadable("header", "the file ends inside its header") from None
        truncated = True
    return TensorFile(
        path=path,
        content_key=content_key,
        format="gguf",
        tensors=tuple(tensors),
        metadata=metadata,
        truncated=truncated,
    )


def _open(data: bytes) -> _Reader:
    # A big-endian file has its small version number at the other end.
    big = data[4:6] == b"\x00\x00" and data[4:8] != b"\x00\x00\x00\x00"
    return _Reader(data=data, place=4, order=">" if big else "<")


@dataclass(slots=True)
class _Reader:
    """A cursor over the bytes; every method raises _Ended rather than read past them."""

    data: bytes
    place: int
    order: str

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.place:
            raise _Ended
        begin = self.place
        self.place += count
        return self.data[begin : self.place]

    def number(self, code: str) -> int:
        layout = struct.Struct(self.order + code)
        return int(layout.unpack(self.take(layout.size))[0])

    def string(self) -> str:
        length = self.number("Q")
        if length > MAX_STRING:
            raise Unreadable("header", f"a string of {length} bytes")
        return self.take(length).decode("utf-8", "backslashreplace")

    def value(self, kind: int) -> Json:
        if kind in _SCALARS:
            layout = struct.Struct(self.order + _SCALARS[kind])
            return _plain(layout.unpack(self.take(layout.size))[0])
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array()
        raise Unreadable("header", f"a value of unknown type {kind}")

    def array(self) -> Json:
        kind, count = self.number("I"), self.number("Q")
        begin = self.place
        if kind in _SCALARS:
            layout = struct.Struct(self.order + _SCALARS[kind])
            raw = self.take(count * layout.size)
            if count <= SHORT_ARRAY:
                return [_plain(value) for (value,) in layout.iter_unpack(raw)]
        elif kind == _STRING:
            if count <= SHORT_ARRAY:
                return [self.string() for _ in range(count)]
            self._skip_strings(count)
        else:
            raise Unreadable("header", f"an array of type {kind}")
        content = hashlib.sha256(memoryview(self.data)[begin : self.place]).hexdigest()[:32]
        return {"type": _TYPE_NAMES[kind], "count": count, "digest": content}

    def _skip_strings(self, count: int) -> None:
        """Step over a vocabulary without making its strings."""
        layout = struct.Struct(self.order + "Q")
        data, place, size = self.data, self.place, len(self.data)
        for _ in range(count):
            if place + 8 > size:
                raise _Ended
            place += 8 + layout.unpack_from(data, place)[0]
        if place > size:
            raise _Ended
        self.place = place

    def tensor(self, file_size: int) -> Tensor:
        name = self.string()
        dimensions = self.number("I")
        if dimensions > 8:
            raise Unreadable("header", f"tensor {name[:80]!r} has {dimensions} dimensions")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        kind, offset = self.number("I"), self.number("Q")
        if offset > file_size or any(size >= 1 << 63 for size in shape):
            raise Unreadable("header", f"tensor {name[:80]!r} lies outside the file")
        return Tensor(name=name, dtype=_GGML_TYPES.get(kind, f"TYPE_{kind}"), shape=shape[::-1])


def _plain(value: float | bool) -> Json:
    """A number that can be written as JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value
