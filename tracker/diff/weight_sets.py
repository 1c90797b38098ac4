"""Weight files gathered to sets: the shards that make one model in one format, whatever their number.

A set is named by its path without the shard number: ``model-00001-of-00003.safetensors`` and
``model.safetensors`` are both the set ``model.safetensors``, so a re-shard stays one subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from storage.model import DocumentKind, Json, Snapshot, Tensor, TensorFile
from tracker.snapshot.kinds import is_pickle, weight_format

_SHARD = re.compile(r"[-_.](\d{2,6})[-_]of[-_](\d{2,6})(?=\.|$)")
_TORCH_SHARD = re.compile(r"(?<=^consolidated)\.\d{2,3}(?=\.)")
# What a trainer leaves beside the weights: opened by trainers only, and new at every save.
_TRAINER = re.compile(
    r"(?:training_args|optimizer|scheduler|scaler|rng_state|trainer_state)\b.*|rng_state_\d+\..*"
)
# Buffers that old checkpoints hold and current classes make anew: nothing is random when they go.
_BUFFER = re.compile(
    r"(?:^|\.)(?:inv_freq|position_ids|masked_bias|attn\.bias|attention\.bias|num_batches_tracked)$"
)


@dataclass(frozen=True, kw_only=True)
class WeightSet:
    """One set at one revision. ``files`` is path to content key, ``sizes`` path to bytes."""

    name: str
    format: str
    files: Mapping[str, str]
    sizes: Mapping[str, int]
    headers: Mapping[str, TensorFile]
    unread: frozenset[str]  # paths whose own header could not be read; an older one may stand in
    index: tuple[str, Set[str]] | None  # path of the index and the tensor names it lists

    @property
    def folder(self) -> str:
        """The folder of the set, "" at the top."""
        parent = str(PurePosixPath(self.name).parent)
        return "" if parent == "." else parent

    @property
    def bytes(self) -> int:
        """Bytes of all its files."""
        return sum(self.sizes.values())

    @property
    def pickle(self) -> bool:
        """Whether loading it runs code it holds."""
        return is_pickle(self.name)

    @cached_property
    def table(self) -> Mapping[str, Tensor] | None:
        """All its tensors by name; None unless every file's header is whole."""
        headers = [self.headers.get(path) for path in sorted(self.files)]
        if not headers or any(header is None or header.truncated for header in headers):
            return None
        return {tensor.name: tensor for header in headers if header for tensor in header.tensors}

    @cached_property
    def names(self) -> Set[str] | None:
        """Its tensor names, from the headers, else from the index."""
        if self.table is not None:
            return self.table.keys()
        return self.index[1] if self.index else None

    @property
    def complete(self) -> bool:
        """Whether every shard that the names announce is there; a set without shard numbers always is."""
        numbers = [found.groups() for path in self.files if (found := _SHARD.search(path))]
        return not numbers or len(numbers) >= max(int(total) for _, total in numbers)

    @property
    def paths(self) -> list[str]:
        """Its files and its index."""
        return sorted({*self.files, *([self.index[0]] if self.index else [])})


def set_name(path: str) -> str:
    """The set a weight file belongs to."""
    head, slash, name = path.rpartition("/")
    return f"{head}{slash}{_TORCH_SHARD.sub('', _SHARD.sub('', name))}"


def trainer_file(path: str) -> bool:
    """Whether a file is a trainer's own state rather than the model."""
    return bool(_TRAINER.match(path.rpartition("/")[2]))


def buffer_name(tensor: str) -> bool:
    """Whether a tensor is a buffer that classes make anew when it is not in the file."""
    return bool(_BUFFER.search(tensor))


def weight_sets(snapshot: Snapshot) -> dict[str, WeightSet]:
    """The sets of a revision by name, trainer state left out."""
    paths: dict[str, list[str]] = {}
    for path in sorted(snapshot.manifest.files):
        if weight_format(path) is not None and not trainer_file(path):
            paths.setdefault(set_name(path), []).append(path)
    gaps = {gap.path for gap in snapshot.gaps}
    return {name: _gather(snapshot, name, members, gaps) for name, members in paths.items()}


def weight_set(snapshot: Snapshot, name: str) -> WeightSet | None:
    """One set by its name, None where the revision does not have it."""
    members = [
        path
        for path in sorted(snapshot.manifest.files)
        if weight_format(path) is not None and set_name(path) == name and not trainer_file(path)
    ]
    return _gather(snapshot, name, members, {gap.path for gap in snapshot.gaps}) if members else None


def _gather(snapshot: Snapshot, name: str, paths: list[str], gaps: Set[str]) -> WeightSet:
    files = snapshot.manifest.files
    index_path = next((path for path in _index_paths(name) if path in snapshot.documents), "")
    document = snapshot.documents.get(index_path)
    listed = weight_map(document.data) if document and document.kind is DocumentKind.WEIGHT_INDEX else {}
    return WeightSet(
        name=name,
        format=weight_format(paths[0]) or "",
        files={path: files[path].content_key for path in paths},
        sizes={path: files[path].size for path in paths},
        headers={path: snapshot.tensor_files[path] for path in paths if path in snapshot.tensor_files},
        unread=frozenset(path for path in paths if path in gaps),
        index=(index_path, listed.keys()) if listed else None,
    )


def _index_paths(name: str) -> list[str]:
    """Where the index of a set stands: beside it, for a variant under the name without the variant."""
    pure = PurePosixPath(name)
    variant = PurePosixPath(pure.stem).suffix
    plain = pure.with_name(PurePosixPath(pure.stem).stem + pure.suffix) if variant else pure
    return [f"{name}.index.json", *([f"{plain}.index{variant}.json"] if variant else [])]


def weight_map(data: Json) -> Mapping[str, str]:
    """Tensor name to file name, of an index."""
    value = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(value, dict):
        return {}
    if set(map(type, value.values())) <= {str}:
        return value
    return {name: file for name, file in value.items() if isinstance(file, str)}


def renames(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Tensors that went and tensors that came, paired by shape in the order of the files."""
    waiting: dict[tuple[int, ...], list[str]] = {}
    for name, tensor in after.items():
        if name not in before:
            waiting.setdefault(tensor.shape, []).append(name)
    for queue in waiting.values():
        queue.reverse()
    for name, tensor in before.items():
        if name not in after and waiting.get(tensor.shape):
            yield name, waiting[tensor.shape].pop()
