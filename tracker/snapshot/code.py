"""Python sources and requirement lists as text, and the references that make a config run code."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from storage.model import Document, DocumentKind, Json, Snapshot

MAX_PARSED: Final = 512 * 1024  # characters of source that are parsed
MAX_REFERENCES: Final = 1_000
_CROSS_REPO: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*?)--(\S+)")
_JSON_KINDS: Final = frozenset(DocumentKind) - {
    DocumentKind.CODE,
    DocumentKind.REQUIREMENTS,
    DocumentKind.LICENCE,
    DocumentKind.CARD,
    DocumentKind.MERGES,
    DocumentKind.VOCABULARY,
    DocumentKind.WEIGHT_INDEX,
    DocumentKind.TOKENIZER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoMap:
    """One ``auto_map`` of a JSON file: ``references`` are (auto class, ``[owner/name--]module.Class``)."""

    path: str
    pointer: str
    value: Json
    references: tuple[tuple[str, str], ...]

    @property
    def repos(self) -> tuple[str, ...]:
        """The other repos whose code is named, ``owner/name``, sorted."""
        found = (cross_repo(target) for _, target in self.references)
        return tuple(sorted({repo for repo in found if repo}))


def parse_source(text: str) -> ast.Module | None:
    """The syntax tree of a source, None where it is too long or cannot be parsed. Never raises."""
    if len(text) > MAX_PARSED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def cross_repo(reference: str) -> str | None:
    """The ``owner/name`` of ``owner/name--module.Class``, or None for code of the repo itself."""
    match = _CROSS_REPO.fullmatch(reference)
    return match.group(1) if match else None


def auto_maps(snapshot: Snapshot) -> list[AutoMap]:
    """Every ``auto_map`` at any depth of any JSON file, by path and pointer."""
    found: list[AutoMap] = []
    for _, document in sorted(snapshot.documents.items()):
        found.extend(document_auto_maps(document))
    return found


def document_auto_maps(document: Document) -> Iterator[AutoMap]:
    """The ``auto_map`` objects of one document. Also ``custom_pipelines``, which run code all the same."""
    if document.kind not in _JSON_KINDS or isinstance(document.data, str):
        return
    for pointer, value in _find(document.data, ""):
        yield AutoMap(
            path=document.path, pointer=pointer, value=value, references=tuple(_references(value))[:MAX_REFERENCES]
        )


def _find(value: Json, pointer: str) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for key, child in value.items():
            place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if (key == "auto_map" and child) or (key == "custom_pipelines" and isinstance(child, dict) and child):
                yield place, child
            elif isinstance(child, dict | list):
                yield from _find(child, place)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if isinstance(child, dict | list):
                yield from _find(child, f"{pointer}/{index}")


def _references(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _references(child, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for child in value:
            yield from _references(child, name)
