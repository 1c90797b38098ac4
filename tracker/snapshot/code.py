"""Python sources and requirement lists as text, and the references that make a config run code."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from storage.model import Document, DocumentKind, Json, Snapshot

MAX_PARSED: Final = 512 * 1024  # characters of source that are parsed
MAX_REFERENCES: Final = 1_000
LONGEST_REFERENCE: Final = 1_000  # characters: no module of a longer name can be imported
_CROSS_REPO: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*?)--(\S+)")
_PASSED_ON: Final = frozenset(
    {DocumentKind.PROCESSOR, DocumentKind.TOKENIZER_CONFIG, DocumentKind.EMBEDDING, DocumentKind.ADAPTER}
)
_JSON_KINDS: Final = frozenset(DocumentKind) - {
    DocumentKind.CODE,
    DocumentKind.REQUIREMENTS,
    DocumentKind.LICENCE,
    DocumentKind.CARD,
    DocumentKind.MERGES,
    DocumentKind.VOCABULARY,
    DocumentKind.WEIGHT_INDEX,
    DocumentKind.TOKENIZER,
    DocumentKind.SIGNATURE,
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
    match = _CROSS_REPO.fullmatch(reference) if len(reference) <= LONGEST_REFERENCE else None
    return match.group(1) if match else None


def auto_maps(snapshot: Snapshot) -> list[AutoMap]:
    """Every ``auto_map`` at any depth of any JSON file, by path and pointer."""
    return snapshot.once("auto_maps", _auto_maps)


def _auto_maps(snapshot: Snapshot) -> list[AutoMap]:
    return [found for _, document in sorted(snapshot.documents.items()) for found in document_auto_maps(document)]


def document_auto_maps(document: Document) -> Iterator[AutoMap]:
    """What makes loaders run code, in one document.

    ``auto_map`` and ``custom_pipelines`` at any depth; ``trust_remote_code: true`` where loaders pass it on
    (processors, tokenizers, sentence-transformers); modules and pipelines whose class is none of the library's.
    """
    if document.kind not in _JSON_KINDS or isinstance(document.data, str):
        return
    found = [*_find(document.data, ""), *_trusts(document), *_modules(document), *_pipelines(document)]
    for pointer, value in found[:MAX_REFERENCES]:
        yield AutoMap(
            path=document.path, pointer=pointer, value=value, references=tuple(_references(value))[:MAX_REFERENCES]
        )


def _trusts(document: Document) -> Iterator[tuple[str, Json]]:
    """Switches that make a loader trust the code of whatever repo it loads, without asking anybody."""
    if document.kind in _PASSED_ON:
        yield from ((place, {"trust_remote_code": "any code"}) for place in _true_keys(document.data, ""))


def _true_keys(value: Json, pointer: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if key == "trust_remote_code" and child is True:
                yield place
            elif isinstance(child, dict | list):
                yield from _true_keys(child, place)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            if isinstance(child, dict | list):
                yield from _true_keys(child, f"{pointer}/{index}")


def _modules(document: Document) -> Iterator[tuple[str, Json]]:
    """sentence-transformers: a module whose type is no class of that library is imported from the repo."""
    if PurePosixPath(document.path).name != "modules.json" or not isinstance(document.data, list):
        return
    for index, module in enumerate(document.data):
        kind = module.get("type") if isinstance(module, dict) else None
        if isinstance(kind, str) and "." in kind and not kind.startswith(("sentence_transformers.", "pylate.")):
            yield f"/{index}/type", {"type": kind}


def _pipelines(document: Document) -> Iterator[tuple[str, Json]]:
    """diffusers: a pipeline class given as file and class comes from the repo."""
    name = document.data.get("_class_name") if isinstance(document.data, dict) else None
    if PurePosixPath(document.path).name == "model_index.json" and isinstance(name, list) and len(name) == 2:
        module, cls = name
        if isinstance(module, str) and isinstance(cls, str):
            yield "/_class_name", {"_class_name": f"{module}.{cls}"}


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
