"""Reading config.json: typed look-ups that no JSON value can break, and the parts that nest inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from storage.model import Document, DocumentKind, Json, Snapshot

# Where multi-modal configs keep the language model, in the order transformers looks.
TEXT_PARTS: Final = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")


def main_config(snapshot: Snapshot) -> Document | None:
    """The config.json at the top of the repo."""
    document = snapshot.documents.get("config.json")
    return document if document is not None and document.kind is DocumentKind.CONFIG else None


def integer(config: Json, key: str) -> int | None:
    """An integer value; None for anything else, booleans included."""
    value = config.get(key) if isinstance(config, Mapping) else None
    return value if type(value) is int else None


def number(config: Json, key: str) -> float | int | None:
    """A number; None for anything else."""
    value = config.get(key) if isinstance(config, Mapping) else None
    return value if type(value) in (int, float) else None


def text(config: Json, key: str) -> str | None:
    """A string; None for anything else."""
    value = config.get(key) if isinstance(config, Mapping) else None
    return value if isinstance(value, str) else None


def texts(config: Json, key: str) -> tuple[str, ...]:
    """The strings of a list of strings."""
    value = config.get(key) if isinstance(config, Mapping) else None
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def model_type(config: Json) -> str | None:
    """``model_type``."""
    return text(config, "model_type")


def architecture(config: Json) -> str | None:
    """The first class named in ``architectures``."""
    names = texts(config, "architectures")
    return names[0] if names else None


def parts(config: Json) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The config itself and every object below it that is a config of its own, with their pointers."""
    if not isinstance(config, Mapping):
        return
    yield "", config
    for key, value in config.items():
        if isinstance(value, Mapping) and ("model_type" in value or key.endswith("_config")):
            pointer = "/" + key.replace("~", "~0").replace("/", "~1")
            for below, part in parts(value):
                yield pointer + below, part


def language_part(config: Json) -> tuple[str, Mapping[str, Json]]:
    """The pointer and config of the language model: a nested part, or the whole."""
    if not isinstance(config, Mapping):
        return "", {}
    for key in TEXT_PARTS:
        value = config.get(key)
        if isinstance(value, Mapping) and value:
            return f"/{key}", value
    return "", config
