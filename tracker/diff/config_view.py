"""A config as the values that count: by canonical key, with class defaults filled in on demand.

Two spellings of one thing have one canonical path (``torch_dtype`` is ``dtype``; ``rope_theta`` beside
``rope_scaling`` and inside ``rope_parameters`` are one), so that a renamed key is no changed value. Where the
model type itself was renamed, names of the same meaning find each other (``n_head``,
``num_attention_heads``), if there is no doubt which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from storage.model import DocumentKind, Json, Snapshot
from tracker.diff.config_keys import GENERATION_DEFAULTS, LEGACY_DEFAULTS, ROPE_INSIDE, ROPE_ROOT, SKIPPED
from tracker.diff.values import MAX_LEAVES, value_digest
from tracker.snapshot.defaults import SAME_MEANING, defaults_of, stored_key
from tracker.snapshot.tokenizer import folder_of, ids_of, in_folder

Path = tuple[str, ...]
_MISSING: Final = object()
NOT_MODELS = frozenset({"quantization_config", "compression_config", "generation_config"})
_MODEL_KINDS = frozenset({DocumentKind.CONFIG, DocumentKind.GENERATION_CONFIG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value as written: its canonical path and the keys under which it stands."""

    path: Path
    written: Path
    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The values of one document. ``fallback`` answers for keys that it leaves out (see `view`)."""

    kind: DocumentKind
    entries: Mapping[Path, Entry]
    fallback: Mapping[str, Json] = field(default_factory=dict)
    _types: Mapping[Path, str] = field(default_factory=dict)
    _meanings: Mapping[Path, tuple[Path, ...]] = field(default_factory=dict)

    def find(self, path: Path) -> Entry | None:
        """The entry of a canonical path, else the only entry that means the same."""
        entry = self.entries.get(path)
        if entry is None and self.kind is DocumentKind.CONFIG:
            others = self._meanings.get(_meaning(path), ())
            entry = self.entries[others[0]] if len(others) == 1 else None
        return entry

    def default(self, path: Path) -> Json:
        """What counts where nothing is written: the class's default or the fallback; None where none is known."""
        if len(path) == 1 and path[0] in self.fallback:
            return self.fallback[path[0]]
        for depth in range(len(path) - 1, -1, -1):
            model_type = self._types.get(path[:depth])
            if model_type is None:
                continue
            value: Any = defaults_of(model_type)
            for key in path[depth:]:
                value = value.get(key, _MISSING) if isinstance(value, Mapping) else _MISSING
            if value is not _MISSING:
                return value
        if path[-2:] == (ROPE_ROOT, "rope_type"):
            return "default"
        return LEGACY_DEFAULTS.get(path[-1]) if self._is_model(path[:-1]) else None

    def _is_model(self, path: Path) -> bool:
        """Whether a place of a config.json is a model's own: the top, or a part such as ``text_config``."""
        return self.kind is DocumentKind.CONFIG and all(
            part.endswith("_config") and part not in NOT_MODELS for part in path
        )

    @property
    def model_type(self) -> str | None:
        """``model_type`` at the top of the document."""
        return self._types.get(())

    def effective(self, path: Path) -> Json:
        """The value that counts: the written one, else the default."""
        entry = self.find(path)
        return self.default(path) if entry is None or entry.value is None else entry.value

    def digest(self, path: Path) -> str | None:
        """The digest of the effective value; None where there is none. Eos ids count as a set."""
        value = self.effective(path)
        if path and path[-1] == "eos_token_id" and (ids := ids_of(value)):
            value = sorted(set(ids))
        return None if value is None else value_digest(value)


def view(snapshot: Snapshot, path: str) -> View | None:
    """The view of one document of a snapshot; None where it is not there.

    A generation_config.json that leaves a key out (or is not there) leaves it to config.json and to the
    library's own defaults, so its view exists wherever config.json does.
    """
    document = snapshot.documents.get(path)
    if document is not None:
        return _build(document.kind, document.data, _fallback(snapshot, path, document.kind))
    if path.rpartition("/")[2] == "generation_config.json":
        return _build(
            DocumentKind.GENERATION_CONFIG, {}, _fallback(snapshot, path, DocumentKind.GENERATION_CONFIG)
        )
    return None


def _fallback(snapshot: Snapshot, path: str, kind: DocumentKind) -> Mapping[str, Json]:
    if kind is not DocumentKind.GENERATION_CONFIG:
        return {}
    config = in_folder(snapshot, DocumentKind.CONFIG, folder_of(path))
    data = config.data if config is not None and isinstance(config.data, Mapping) else {}
    inner = data.get("text_config")
    own = {**(inner if isinstance(inner, Mapping) else {}), **data}
    taken = {key: value for key, value in own.items() if key.endswith("_token_id") or key in GENERATION_DEFAULTS}
    return {**GENERATION_DEFAULTS, **taken}


def _build(kind: DocumentKind, data: Json, fallback: Mapping[str, Json]) -> View:
    entries: dict[Path, Entry] = {}
    types: dict[Path, str] = {}
    meanings: dict[Path, tuple[Path, ...]] = {}
    for entry in _entries(kind, data, types):
        kept = entries.setdefault(entry.path, entry)
        # Two spellings in one document: the one that has a value counts, the first of two that have.
        if kept.value is None and kept is not entry:
            entries[entry.path] = entry
    for path in entries:
        meanings[_meaning(path)] = (*meanings.get(_meaning(path), ()), path)
    return View(kind=kind, entries=entries, fallback=fallback, _types=types, _meanings=meanings)


def _meaning(path: Path) -> Path:
    return (*path[:-1], SAME_MEANING.get(path[-1], path[-1])) if path else path


def _entries(kind: DocumentKind, data: Json, types: dict[Path, str]) -> Iterator[Entry]:
    """Leaves in document order; ``types`` learns the model type of each object that has one."""
    aliased = kind in _MODEL_KINDS
    stack: list[tuple[Path, Path, Json]] = [((), (), data)]
    seen = 0
    while stack and seen < MAX_LEAVES:
        path, written, value = stack.pop()
        if not (isinstance(value, Mapping) and (value or not path)):
            seen += 1
            if value is None and path[-1:] == (ROPE_ROOT,) and aliased:
                continue  # no rotary settings: the class's own count, one by one
            yield Entry(path=path, written=written, value=value)
            continue
        own = value.get("model_type")
        model_type = own if isinstance(own, str) else None
        if model_type:
            types[path] = model_type
        below = [
            ((*path, *(_canonical(path, key, value, model_type) if aliased else (key,))), (*written, key), item)
            for key, item in value.items()
            if key not in SKIPPED
        ]
        stack.extend(reversed(below))


def _canonical(path: Path, key: str, siblings: Mapping[str, Json], model_type: str | None) -> Path:
    """The canonical keys, below their object, of a key as written."""
    if path and path[-1] == ROPE_ROOT:
        return ("rope_type",) if key == "type" and "rope_type" not in siblings else (key,)
    stored = stored_key(model_type, key)
    if stored in ROPE_INSIDE:
        return (ROPE_ROOT, stored)
    return (stored,)
