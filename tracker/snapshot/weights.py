"""The headers of safetensors files, read with suspicion: every length, offset, type and shape is checked.

Layout of a safetensors file: 8 bytes little-endian header length N, N bytes of JSON, then the tensors
without holes. A header that does not describe its own file exactly is refused, as its readers refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Any, Final, TypeGuard, TypeVar

from storage.model import Json, Tensor, TensorFile
from tracker.snapshot.json_reader import Unreadable, magic_of, read_json

T = TypeVar("T")

MAX_TENSORS: Final = 500_000
MAX_DIMENSIONS: Final = 16
MAX_HEADER: Final = 100_000_000  # the format's own limit, in bytes

DTYPE_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "F4": 4,
        "F6_E2M3": 6,
        "F6_E3M2": 6,
        **dict.fromkeys(("BOOL", "U8", "I8"), 8),
        **dict.fromkeys(("F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
        **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
        **dict.fromkeys(("I32", "U32", "F32"), 32),
        **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    }
)
_DTYPE_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{0,31}")


def parse_safetensors_header(data: bytes, file_size: int, *, path: str = "", content_key: str = "") -> TensorFile:
    """Read the 8 length bytes and the header that follows them.

    Args:
        data: The first bytes of the file; more than the header does no harm.
        file_size: Bytes of the whole file.
        path: For the result.
        content_key: For the result.

    Returns:
        The tensors in the order of the file's data, and ``__metadata__``.

    Raises:
        Unreadable: ``header`` for a header that lies, ``disguised`` for another kind of file.

    """
    body, length = _header_bytes(data, file_size)
    try:
        value, flaws = read_json(body, need_object=True)
    except Unreadable as error:
        raise Unreadable("header", f"{error.reason}: {error.detail}") from None
    if any(flaw.startswith("duplicate") for flaw in flaws):
        raise _lie("a name occurs twice")  # readers disagree about which one counts
    metadata = value.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict):
        raise _lie("__metadata__ is no object")
    if len(value) > MAX_TENSORS:
        raise Unreadable("too_many", f"{len(value)} tensors, at most {MAX_TENSORS} are read")
    placed = sorted((_tensor(name, entry) for name, entry in value.items()), key=lambda item: item[:2])
    end = 0
    for begin, stop, tensor in placed:
        if begin != end:
            raise _lie(f"hole or overlap before tensor {tensor.name[:80]!r}")
        end = stop
    if end != file_size - 8 - length:
        raise _lie(f"tensors take {end} bytes, the file has {file_size - 8 - length} for them")
    return TensorFile(
        path=path,
        content_key=content_key,
        format="safetensors",
        tensors=tuple(tensor for _, _, tensor in placed),
        metadata=metadata,
    )


def _lie(detail: str) -> Unreadable:
    return Unreadable("header", detail)


def _header_bytes(data: bytes, file_size: int) -> tuple[bytes, int]:
    what = magic_of(data)
    if what is not None:
        raise Unreadable("disguised", f"the first bytes are those of a {what}")
    if len(data) < 8:
        raise _lie("shorter than the 8 bytes of its length")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER or 8 + length > file_size:
        raise _lie(f"announces a header of {length} bytes in a file of {file_size}")
    body = data[8 : 8 + length]
    if len(body) < length:
        raise _lie(f"only {len(body)} of {length} header bytes are there")
    return body, length


def _tensor(name: str, entry: Json) -> tuple[int, int, Tensor]:
    """Begin, end and description of one tensor."""
    if not isinstance(entry, dict):
        raise _lie(f"tensor {name[:80]!r} is no object")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or not _DTYPE_NAME.fullmatch(dtype):
        raise _lie(f"tensor {name[:80]!r} has no dtype")
    if not _naturals(shape) or len(shape) > MAX_DIMENSIONS:
        raise _lie(f"tensor {name[:80]!r} has no shape")
    if not _naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _lie(f"tensor {name[:80]!r} has no place")
    begin, end = offsets
    bits = DTYPE_BITS.get(dtype)  # None: a type newer than this table, taken at its word
    if bits is not None and prod(shape) * bits != (end - begin) * 8:
        raise _lie(f"tensor {name[:80]!r} of {dtype} {shape} does not take {end - begin} bytes")
    return begin, end, Tensor(name=name, dtype=_shared(dtype), shape=_shared(tuple(shape)))


@lru_cache(maxsize=1024)
def _shared(value: T) -> T:
    """One object for all equal ones: 100,000 tensors have few types and shapes."""
    return value


def _naturals(value: Any) -> TypeGuard[list[int]]:
    """Whether value is a list of integers of 0 ... 2**63 - 1."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value)
