"""Between a snapshot and the estimators: which inputs an estimate has, and what moved between two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from storage.model import DocumentKind, Estimate, EstimateStatus, Json, Snapshot, digest
from tracker.estimate.counted import from_count
from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.interface import Checkpoint, EstimateOptions, Estimator
from tracker.probe.meta import MetaCounter, available

CONFIG = "config.json"
_MEMORY = ("weights_bytes", "full_finetune_bytes", "lora_bytes", "kv_cache_bytes", "activation_bytes")
_FITS = {"full_finetune_batch": "full fine-tune", "lora_batch": "LoRA", "serve_batch": "serving"}
_ADAPTERS = ("adapter_model.", "adapters.")


class Counter(Protocol):
    """What counts a class that the closed forms do not know."""

    def count(self, config: Mapping[str, Json]) -> dict[str, Json]:
        """Figures, or why there are none."""
        ...


class WithTransformers:
    """The ``exact`` profile; a type that it does not know is counted by building transformers' own class.

    An estimate says in ``source`` which way it came, and in ``version`` which transformers counted.
    """

    name = ESTIMATOR.name
    version = ESTIMATOR.version

    def __init__(self, counter: Counter) -> None:
        """Counting starts a child process; it is the caller's to close."""
        self._counter = counter

    def estimate(
        self, config: Json, *, checkpoint: Checkpoint | None = None, options: EstimateOptions | None = None
    ) -> Estimate:
        """Estimate one config; see `tracker.estimate.interface.Estimator`."""
        closed = ESTIMATOR.estimate(config, checkpoint=checkpoint, options=options)
        if closed.status is not EstimateStatus.UNSUPPORTED or not isinstance(config, Mapping):
            return closed
        if not isinstance(config.get("model_type"), str):
            return closed
        return from_count(closed, config, self._counter.count(config), checkpoint, options)


def exact_estimator(transformers: str, counter: MetaCounter) -> Estimator:
    """The ``exact`` profile as the setting wants it (``auto`` or ``off``) and the installation allows."""
    return WithTransformers(counter) if transformers == "auto" and available() else ESTIMATOR


def estimate_snapshot(
    estimator: Estimator, snapshot: Snapshot, options: EstimateOptions | None = None
) -> Estimate | None:
    """The estimate of a revision; None where it has no readable config.json."""
    config = snapshot.get(CONFIG)
    if config is None:
        return None
    return estimator.estimate(config, checkpoint=checkpoint_of(snapshot), options=options)


def inputs_digest(snapshot: Snapshot) -> str:
    """Equal exactly when two revisions give an estimator the same inputs."""
    config = snapshot.documents.get(CONFIG)
    return digest(
        [
            config.content_key if config else None,
            sorted(item.content_key for item in snapshot.tensor_files.values() if _counts(item.path)),
            sorted(doc.content_key for doc in snapshot.by_kind(DocumentKind.WEIGHT_INDEX)),
        ]
    )


def checkpoint_of(snapshot: Snapshot) -> Checkpoint | None:
    """What the published safetensors say of themselves: by headers, else by the index's total size.

    Files in sub-folders are other components or copies, and adapters are not the model: both are left out.
    With a header missing the sum would be wrong, so the index is asked then.
    """
    files = [
        item
        for path, item in sorted(snapshot.tensor_files.items())
        if item.format == "safetensors" and _counts(path)
    ]
    unread = [gap.path for gap in snapshot.gaps if gap.path.endswith(".safetensors") and _counts(gap.path)]
    if files and not unread:
        tensors = {tensor.name: (tensor.dtype, tensor.shape) for item in files for tensor in item.tensors}
        scalars: dict[str, int] = {}
        for dtype, shape in tensors.values():
            scalars[dtype] = scalars.get(dtype, 0) + math.prod(shape)
        return Checkpoint(source="headers", scalars=scalars, tensors=tensors)
    total = (snapshot.get("model.safetensors.index.json") or {}).get("metadata")
    size = total.get("total_size") if isinstance(total, dict) else None
    if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**63:
        return Checkpoint(source="index", total_bytes=size)
    return None


def _counts(path: str) -> bool:
    return "/" not in path and not path.startswith(_ADAPTERS)


def estimate_delta(before: Estimate | None, after: Estimate | None) -> dict[str, Json]:
    """What a revision moved, as advisories carry it; empty when nothing did or the two cannot be compared.

    Only estimates of the same estimator and version are compared: our own upgrade is no change upstream.
    """
    if before is None or after is None:
        return {}
    if (before.estimator, before.version) != (after.estimator, after.version):
        return {}
    moved: dict[str, Json] = {}
    for name, group, keys in (("parameters", "parameters", ("total", "active")), ("memory", "memory", _MEMORY)):
        pairs = {key: (_figure(before, group, key), _figure(after, group, key)) for key in keys}
        changed = {key: {"before": a, "after": b} for key, (a, b) in pairs.items() if a != b}
        if changed:
            moved[name] = changed
    gained, lost = _cards(before, after)
    if gained:
        moved["cards_gained"] = gained
    if lost:
        moved["cards_lost"] = lost
    if before.status != after.status:
        moved["status"] = {"before": str(before.status), "after": str(after.status)}
    return moved


def _figure(estimate: Estimate, group: str, key: str) -> Json:
    return (estimate.body.get(group) or {}).get(key)


def _cards(before: Estimate, after: Estimate) -> tuple[list[str], list[str]]:
    """Uses of cards that became possible, and that ceased to be."""
    old, new = ({card["name"]: card for card in side.body.get("cards") or ()} for side in (before, after))
    gained, lost = [], []
    for name in sorted(old.keys() & new.keys()):
        for key, use in _FITS.items():
            a, b = old[name].get(key), new[name].get(key)
            if not isinstance(a, int) or not isinstance(b, int):
                continue
            if not a and b:
                gained.append(f"{name} for {use}")
            elif a and not b:
                lost.append(f"{name} for {use}")
    return gained, lost
