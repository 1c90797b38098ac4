"""Files too large for git: their first bytes, a size, a hash. The rest is zeros that are never stored.

`safetensors` and `gguf` make files whose headers are valid and whose sizes agree with them.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracker.demo.objects import Pointer

# Up to here the content's real sha256 is worked out; above, hashing zeros would take too long.
TRUE_HASH_LIMIT = 8 << 20

_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

# GGML type: id, elements in a block, bytes of a block (ggml.h, ggml-common.h)
_GGML = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "Q8_K": (15, 256, 292),
    "I8": (24, 1, 1), "I16": (25, 1, 2), "I32": (26, 1, 4), "I64": (27, 1, 8), "F64": (28, 1, 8),
    "BF16": (30, 1, 2),
}  # fmt: skip
_GGUF_ALIGNMENT = 32

GgufValue = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]


@dataclass(frozen=True, slots=True)
class LargeFile:
    """A file kept outside git: ``header`` and then zeros up to ``size`` bytes.

    ``sha256`` may be given (a recorded one); otherwise it is the content's own up to 8 MiB, and above
    that a stand-in which depends on the header and the size alone.
    """

    header: bytes
    size: int
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.sha256:
            object.__setattr__(self, "sha256", _content_hash(self.header, self.size))

    @property
    def pointer(self) -> Pointer:
        """The LFS pointer that stands for it in git."""
        return Pointer(self.sha256, self.size)


class LfsFile(LargeFile):
    """A small file kept in LFS all the same (a tokenizer.json), with its true sha256."""

    __slots__ = ()

    def __init__(self, data: bytes) -> None:
        super().__init__(data, len(data), hashlib.sha256(data).hexdigest())


def safetensors(
    tensors: Mapping[str, tuple[str, Sequence[int]]],
    *,
    metadata: Mapping[str, str] | None = None,
    salt: str = "",
) -> LargeFile:
    """A safetensors file with these tensors, ``{name: (dtype, shape)}``, laid out in the order given.

    Another ``salt`` gives other weights under the same header: only the sha256 differs.
    """
    table: dict[str, object] = {"__metadata__": dict(metadata)} if metadata is not None else {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + (math.prod(shape) * _BITS[dtype] + 7) // 8
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(table, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    header = struct.pack("<Q", len(text)) + text
    return LargeFile(header + _salted(salt, end), len(header) + end)


def gguf(
    metadata: Mapping[str, GgufValue],
    tensors: Mapping[str, tuple[str, Sequence[int]]] | None = None,
    *,
    salt: str = "",
) -> LargeFile:
    """A GGUF v3 file: keys and ``{name: (type, dimensions)}``, dimensions in the file's order (fastest first).

    Whole numbers become u32, or i32, u64, i64 where they do not fit; other numbers f32.
    """
    tensors = tensors or {}
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        parts += [_gguf_string(key), _gguf_value(value)]
    offset = 0
    for name, (kind, shape) in tensors.items():
        number, block, size = _GGML[kind]
        parts.append(_gguf_string(name) + struct.pack("<I", len(shape)))
        parts.append(b"".join(struct.pack("<Q", side) for side in shape) + struct.pack("<IQ", number, offset))
        offset += -(-math.prod(shape) // block) * size
        offset += -offset % _GGUF_ALIGNMENT
    header = b"".join(parts)
    header += b"\0" * (-len(header) % _GGUF_ALIGNMENT)
    return LargeFile(header + _salted(salt, offset), len(header) + offset)


def _salted(salt: str, room: int) -> bytes:
    return hashlib.sha256(salt.encode("utf-8")).digest()[:room] if salt else b""


def _content_hash(header: bytes, size: int) -> str:
    if size <= TRUE_HASH_LIMIT:
        return hashlib.sha256(header[:size].ljust(size, b"\0")).hexdigest()
    return hashlib.sha256(b"large file of %d bytes\0" % size + header).hexdigest()


def _gguf_string(text: str) -> bytes:
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _gguf_value(value: GgufValue) -> bytes:
    if isinstance(value, Sequence) and not isinstance(value, str):
        kind = _gguf_kind(*value)
        packed = b"".join(_gguf_pack(kind, item) for item in value)
        return struct.pack("<IIQ", 9, kind, len(value)) + packed
    kind = _gguf_kind(value)
    return struct.pack("<I", kind) + _gguf_pack(kind, value)


def _gguf_kind(*values: str | bool | int | float) -> int:
    """The GGUF type number that holds all the values."""
    if values and all(isinstance(value, str) for value in values):
        return 8
    if values and all(isinstance(value, bool) for value in values):
        return 7
    if any(isinstance(value, float) for value in values):
        return 6
    low, high = (int(min(values)), int(max(values))) if values else (0, 0)
    if low >= 0:
        return 4 if high < 1 << 32 else 10
    return 5 if low >= -(1 << 31) and high < 1 << 31 else 11


def _gguf_pack(kind: int, value: str | bool | int | float) -> bytes:
    if isinstance(value, str):
        return _gguf_string(value)
    return struct.pack({4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q"}[kind], value)
