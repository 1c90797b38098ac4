"""What a weight file is by its first bytes, and whether its name allows that."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from tracker.snapshot.json_reader import magic_of
from tracker.snapshot.opcodes import read_opcodes

PICKLE: Final = "pickle"
ZIP: Final = "zip archive"
NUMPY: Final = "NumPy array"
HDF5: Final = "HDF5 file"
TAR: Final = "tar archive"
COMPRESSED: Final = frozenset({"gzip archive", "bzip2 archive", "xz archive", "zlib stream", "LZ4 frame"})

# What the files of a format may begin as. Anything else that has a name is a disguise.
ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "pytorch": frozenset({ZIP, PICKLE, TAR}),
    "checkpoint": frozenset({ZIP, PICKLE, TAR}),
    "pickle": frozenset({PICKLE, ZIP}) | COMPRESSED,
    "joblib": frozenset({PICKLE, ZIP}) | COMPRESSED,
    "nemo": frozenset({TAR, "gzip archive", ZIP}),
    "torchserve": frozenset({ZIP, TAR, "gzip archive"}),
    "paddle": frozenset({PICKLE, ZIP}),
    "keras": frozenset({ZIP, HDF5}),
    "hdf5": frozenset({HDF5}),
    "numpy": frozenset({NUMPY, ZIP}),
    "onnx": frozenset(),
    "flax": frozenset(),
    "tflite": frozenset(),
    "tensorflow": frozenset(),
}
# Formats that nothing unpickles: only a name that their first bytes belie is looked for.
MAGIC_ONLY: Final = frozenset({"onnx", "flax", "tflite", "tensorflow"})
# Raw formats that share the suffix .bin; no pickle and no archive, so that nothing in them runs.
_RAW: Final = (
    (b"lmgg", "ggml file"),
    (b"tjgg", "ggml file"),
    (b"fmgg", "ggml file"),
    (b"algg", "ggml adapter"),
    (b"\xba\x16\x4f\x2f", "fastText model"),
)
_ZLIB: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_LZ4: Final = b"\x04\x22\x4d\x18"


def container_of(head: bytes) -> str | None:
    """What the first bytes say; None where they are those of nothing known."""
    found = magic_of(head)
    if found is not None:
        return found
    if head[257:262] == b"ustar":
        return TAR
    if head.startswith(_LZ4):
        return "LZ4 frame"
    if head.startswith(_ZLIB):
        return "zlib stream"
    raw = next((what for magic, what in _RAW if head.startswith(magic)), None)
    if raw is not None:
        return raw
    if _ctranslate(head):
        return "CTranslate2 model"
    return PICKLE if _old_pickle(head) else None


def is_raw(container: str) -> bool:
    """Whether it is a format without code under a suffix that pickles have too."""
    return container == "CTranslate2 model" or any(container == what for _, what in _RAW)


def _old_pickle(head: bytes) -> bool:
    """Protocols 0 and 1 have no first bytes of their own: it is one if it ends, or imports something."""
    if head[:1] not in (b"(", b"]", b"}", b")", b"c", b"i", b"I", b"S", b"V", b"F", b"L", b"K", b"J", b"M", b"N"):
        return False
    found = read_opcodes(head)
    return bool(found.pickles or found.imports or found.dangerous)


def _ctranslate(head: bytes) -> bool:
    """A version, then the length and text of the name of a specification, which ends in Spec."""
    if len(head) < 16:
        return False
    version, length = struct.unpack_from("<IH", head)
    return 1 <= version <= 64 and 5 < length <= 64 and head[6 : 6 + length].rstrip(b"\0").endswith(b"Spec")
