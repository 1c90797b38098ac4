"""What a config says of the weights beside it, for files whose own headers cannot be read.

The facet ``weights:declared:<set>`` is the data type that the config in the set's folder declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from storage.model import Change, Json, Snapshot, digest
from tracker.diff.values import short
from tracker.diff.weight_sets import WeightSet

TOLERANCE: Final = 0.01  # of the byte count: headers, padding, buffers kept in another type
_BYTES: Final[Mapping[str, int]] = {
    "float64": 8,
    "float32": 4,
    "float": 4,
    "float16": 2,
    "half": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}


def declared_dtype(snapshot: Snapshot, found: WeightSet) -> str | None:
    """The type named by the config in the set's folder (``dtype``, before 2025 ``torch_dtype``)."""
    config = snapshot.get(f"{found.folder}/config.json" if found.folder else "config.json")
    if not isinstance(config, dict):
        return None
    values = (config.get(key) for key in ("dtype", "torch_dtype"))
    named = next((value for value in values if isinstance(value, str) and value), None)
    return named.removeprefix("torch.") if named else None


def declared_cast(
    was: WeightSet, now: WeightSet, before: Snapshot, after: Snapshot, facts: Mapping[str, Json]
) -> Change | None:
    """The ``weights.dtype`` that declared types and byte counts speak for; None where they do not agree."""
    old, new = declared_dtype(before, was), declared_dtype(after, now)
    if old is None or new is None or old == new or old not in _BYTES or new not in _BYTES or not was.bytes:
        return None
    expected = was.bytes * _BYTES[new] / _BYTES[old]
    if abs(now.bytes - expected) > TOLERANCE * expected:
        return None
    return Change(
        cls="weights.dtype",
        path=min(now.files),
        summary=f"{short(now.name, limit=100)}: headers cannot be read; the config now says {short(new)} after "
        f"{short(old)}, and {was.bytes} bytes became {now.bytes}",
        before=old,
        after=new,
        facet=f"weights:declared:{now.name}",
        before_digest=digest(old),
        after_digest=digest(new),
        facts={
            **facts,
            "inferred": True,
            "steps": {f"{old} -> {new}": len(now.files)},
            "bytes_before": was.bytes,
            "bytes_after": now.bytes,
        },
    )
