"""Small weight files, real to the byte: a safetensors file, a GGUF file, a pickle."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Mapping
from math import prod
from typing import Any

from tracker.snapshot.weights import DTYPE_BITS

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
PICKLE = pickle.dumps({"weight": [1.0, 2.0]})


def safetensors(tensors: Tensors, *, salt: int = 0, metadata: Mapping[str, str] | None = None) -> bytes:
    """A whole file; ``salt`` is the byte that the tensors are filled with."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    place = 0
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * DTYPE_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes([salt]) * place


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<Iq", 11, value)
        case float():
            return struct.pack("<Id", 12, value)
        case str():
            return struct.pack("<I", 8) + _string(value)
        case list() if all(isinstance(item, str) for item in value):
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
        case _:
            return struct.pack("<IIQ", 9, 11, len(value)) + b"".join(struct.pack("<q", item) for item in value)


def gguf(
    keys: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]] | None = None, *, salt: bytes = b""
) -> bytes:
    """A GGUF version 3 file with F16 tensors (type 1)."""
    tensors = tensors or {}
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    parts += [_string(key) + _value(value) for key, value in keys.items()]
    parts += [
        _string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)) + struct.pack("<IQ", 1, 0)
        for name, shape in tensors.items()
    ]
    return b"".join(parts) + b"\0" * 32 + salt
