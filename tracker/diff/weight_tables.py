"""Tensor tables compared: names that came and went, other shapes, other types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from storage.model import Change, Json, Snapshot, Tensor, digest
from tracker.diff.values import capped, examples, short
from tracker.diff.weight_sets import WeightSet, buffer_name, renames


def shapes_of(table: Mapping[str, Tensor]) -> dict[str, Json]:
    """Shape by tensor name."""
    return {tensor.name: list(tensor.shape) for tensor in table.values()}


def dtypes_of(table: Mapping[str, Tensor]) -> dict[str, Json]:
    """Type by tensor name."""
    return {tensor.name: tensor.dtype for tensor in table.values()}


def table_changes(
    was: WeightSet, now: WeightSet, before: Snapshot, after: Snapshot, facts: Mapping[str, Json]
) -> Iterator[Change]:
    """What the tensor tables of one set say: ``weights.keys``, ``weights.shape``, ``weights.dtype``.

    Each is one change over all shards. Without headers only names are compared, by the index. ``facts`` is
    added to every change.
    """
    names = _Names.of(was, now)
    if names and (names.added or names.removed):
        yield names.change(was, now, facts, same_class=_same_class(before, after))
    old, new = was.table, now.table
    if old is None or new is None:
        return
    pairs = [(old[name], new[name]) for name in old if name in new]
    shapes = [(one, other) for one, other in pairs if one.shape != other.shape]
    if shapes:
        yield Change(
            cls="weights.shape",
            path=min(now.files),
            summary=f"{short(now.name, limit=120)}: {len(shapes)} tensors have another shape, "
            f"{short(shapes[0][1].name)} {short(list(shapes[0][0].shape))} -> {short(list(shapes[0][1].shape))}",
            before=capped({one.name: list(one.shape) for one, _ in shapes[:100]}),
            after=capped({other.name: list(other.shape) for _, other in shapes[:100]}),
            facet=f"weights:shapes:{now.name}",
            before_digest=digest(shapes_of(old)),
            after_digest=digest(shapes_of(new)),
            facts={**facts, "tensors": len(shapes)},
        )
    dtypes = [(one, other) for one, other in pairs if one.dtype != other.dtype]
    if dtypes:
        steps = Counter(f"{one.dtype} -> {other.dtype}" for one, other in dtypes)
        yield Change(
            cls="weights.dtype",
            path=min(now.files),
            summary=f"{short(now.name, limit=120)}: {len(dtypes)} tensors have another type: "
            f"{short(', '.join(step for step, _ in steps.most_common(4)), limit=100)}",
            before=_scalars(old),
            after=_scalars(new),
            facet=f"weights:dtypes:{now.name}",
            before_digest=digest(dtypes_of(old)),
            after_digest=digest(dtypes_of(new)),
            facts={
                **facts,
                "tensors": len(dtypes),
                "steps": dict(steps.most_common(100)),
                "bytes_before": was.bytes,
                "bytes_after": now.bytes,
            },
        )


def _scalars(table: Mapping[str, Tensor]) -> dict[str, Json]:
    """Scalars by type."""
    counts: Counter[str] = Counter()
    for tensor in table.values():
        counts[tensor.dtype] += tensor.elements
    return dict(sorted(counts.items())[:100])


def _same_class(before: Snapshot, after: Snapshot) -> bool:
    """Whether the same class loads both revisions: then names that match nothing go unnoticed."""
    old, new = before.get("config.json"), after.get("config.json")
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    return all(old.get(key) == new.get(key) for key in ("architectures", "model_type", "auto_map"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The tensor names that came and went."""

    added: list[str]
    removed: list[str]
    renamed: list[tuple[str, str]]
    by: str

    @classmethod
    def of(cls, was: WeightSet, now: WeightSet) -> _Names | None:
        headers = was.table is not None and now.table is not None
        if not headers and (was.table is not None or now.table is not None):
            return None  # an index beside a header says little about what changed
        if was.names is None or now.names is None:
            return None
        pairs = list(renames(was.table, now.table)) if was.table is not None and now.table is not None else []
        return cls(
            added=sorted(now.names - was.names),
            removed=sorted(was.names - now.names),
            renamed=pairs,
            by="headers" if headers else "index",
        )

    def change(self, was: WeightSet, now: WeightSet, facts: Mapping[str, Json], *, same_class: bool) -> Change:
        path = min(now.files) if self.by == "headers" or now.index is None else now.index[0]
        lost = [name for name in self.removed if not buffer_name(name)]
        shown = " -> ".join(short(name) for name in (*self.removed[:1], *self.added[:1]))
        return Change(
            cls="weights.keys",
            path=path,
            summary=f"{short(now.name, limit=100)}: {len(self.removed)} tensor names gone, "
            f"{len(self.added)} new ({shown})",
            before=examples(self.removed),
            after=examples(self.added),
            facet=f"weights:names:{now.name}",
            before_digest=digest(sorted(was.names or ())),
            after_digest=digest(sorted(now.names or ())),
            facts={
                **facts,
                "added": len(self.added),
                "removed": len(self.removed),
                "renamed": examples([list(pair) for pair in self.renamed]),
                "renamed_count": len(self.renamed),
                "source": self.by,
                "buffers_only": not lost and all(map(buffer_name, self.added)),
                "load_succeeds": same_class and bool(lost) and not self._one_prefix(),
            },
        )

    def _one_prefix(self) -> bool:
        """Whether the names differ by one prefix alone, which loaders add or strip by themselves."""
        if len(self.added) != len(self.removed) or not self.added:
            return False
        short_ones, long_ones = sorted((self.added, self.removed), key=lambda names: len(names[0]))
        prefix = long_ones[0].removesuffix(short_ones[0])
        return prefix.endswith(".") and {f"{prefix}{name}" for name in short_ones} == set(long_ones)
