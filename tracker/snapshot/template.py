"""Chat templates, wherever a repo keeps them, and which of them takes effect.

A template file beats the one inside tokenizer_config.json, as in transformers: where a folder holds
``chat_template.jinja`` or ``additional_chat_templates/*.jinja``, its inline templates are not read.
``chat_template.json`` is the older place of a processor's template and gives way to the file as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from storage.model import Document, DocumentKind, Json, Snapshot

MAX_TEMPLATES: Final = 64
MAX_TEXT: Final = 512 * 1024  # characters of all different templates of a revision that are examined
ADDITIONAL: Final = "additional_chat_templates"
GGUF_KEY: Final = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One template and where it stands. ``pointer`` is None where the whole file is the template.

    ``name`` is ``default``, a named template's own name (``tool_use``), ``processor`` for the processor's,
    with ``folder/`` before it in a sub-folder; the path for a file that no loader takes by itself.
    ``effective`` says whether it is the one of its name that loaders use. ``examined`` is False for what lies
    beyond `MAX_TEXT`: its text counts, and nothing can be said about what is in it.
    """

    name: str
    path: str
    pointer: str | None
    text: str
    effective: bool = True
    examined: bool = True


def templates(snapshot: Snapshot) -> Mapping[str, Template]:
    """The templates that take effect, by name."""
    found: dict[str, Template] = {}
    for item in locations(snapshot):
        if item.effective:
            found.setdefault(item.name, item)
    return found


def locations(snapshot: Snapshot) -> list[Template]:
    """Every place that holds a template, also the ones that another place overrides; effective ones first."""
    by_folder: dict[str, list[Template]] = {}
    for _, document in sorted(snapshot.documents.items()):
        for item in _of_document(document):
            by_folder.setdefault(_folder(document.path), []).append(item)
    every: list[Template] = []
    for folder, items in sorted(by_folder.items()):
        files = {item.name for item in items if item.pointer is None and not _loose(item)}
        every.extend(_placed(item, folder, files) for item in items)
    for path, tensor_file in sorted(snapshot.tensor_files.items()):
        for key, text in sorted(tensor_file.metadata.items()):
            if isinstance(text, str) and (key == GGUF_KEY or key.startswith(f"{GGUF_KEY}.")):
                suffix = key[len(GGUF_KEY) :].lstrip(".")
                name = f"gguf:{path}" + (f":{suffix}" if suffix else "")
                every.append(Template(name=name, path=path, pointer=f"/{_escape(key)}", text=text))
    every.sort(key=lambda item: (not item.effective, item.name, item.path))
    return list(_within(every[:MAX_TEMPLATES]))


def _within(items: Iterable[Template]) -> Iterator[Template]:
    """The templates, those marked that come after `MAX_TEXT` characters; a text that occurs again adds none."""
    seen: set[str] = set()
    size = 0
    for item in items:
        size += 0 if item.text in seen else len(item.text)
        seen.add(item.text)
        yield item if size <= MAX_TEXT else replace(item, examined=False)


def _placed(item: Template, folder: str, files: set[str]) -> Template:
    """A template with the name it has in the repo, and whether it takes effect beside its folder's files."""
    name = item.name
    effective = True
    if item.pointer is not None and files:
        effective = False
        name = "default" if name == "processor" and "default" in files else name
    if folder and not _loose(item):
        name = f"{folder}/{name}"
    return Template(name=name, path=item.path, pointer=item.pointer, text=item.text, effective=effective)


def _of_document(document: Document) -> Iterator[Template]:
    path = document.path
    if document.kind is DocumentKind.CHAT_TEMPLATE and isinstance(document.data, str):
        pure = PurePosixPath(path)
        if pure.name == "chat_template.jinja":
            name = "default"
        elif pure.parent.name == ADDITIONAL:
            name = pure.stem
        else:
            name = path
        yield Template(name=name, path=path, pointer=None, text=document.data)
        return
    if not isinstance(document.data, dict):
        return
    if document.kind is DocumentKind.TOKENIZER_CONFIG:
        yield from _inline(path, document.data.get("chat_template"), "default")
    elif document.kind in (DocumentKind.CHAT_TEMPLATE, DocumentKind.PROCESSOR):
        yield from _inline(path, document.data.get("chat_template"), "processor")


def _inline(path: str, value: Json, name: str) -> Iterator[Template]:
    """The templates in a ``chat_template`` value: a text, named texts, or a list of name and template."""
    if isinstance(value, str):
        yield Template(name=name, path=path, pointer="/chat_template", text=value)
    elif isinstance(value, dict):
        for key, text in value.items():
            if isinstance(text, str):
                yield Template(
                    name=_named(key, name), path=path, pointer=f"/chat_template/{_escape(key)}", text=text
                )
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, dict) and isinstance(entry.get("template"), str):
                given = entry.get("name")
                key = given if isinstance(given, str) else str(index)
                pointer = f"/chat_template/{index}/template"
                yield Template(name=_named(key, name), path=path, pointer=pointer, text=entry["template"])


def _named(key: str, name: str) -> str:
    return name if key == "default" else key


def _loose(item: Template) -> bool:
    return item.name == item.path


def _folder(path: str) -> str:
    parent = PurePosixPath(path).parent
    parent = parent.parent if parent.name == ADDITIONAL else parent
    return "" if str(parent) == "." else str(parent)


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
