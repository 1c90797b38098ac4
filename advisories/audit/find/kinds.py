"""Which files hold references, in which notation, and how each is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from advisories.audit.find import dockerfile, env, notebook, python, sbom, settings, shell
from advisories.audit.model import Notation, Reading
from advisories.audit.names import Names

Find = Callable[[bytes, str, Names], Reading]
"""Reads a file, given its bytes and its text."""

# Lock files, and data of models themselves: large and without references.
_IGNORED = frozenset(
    {
        "package-lock.json",
        "npm-shrinkwrap.json",
        "pnpm-lock.yaml",
        "yarn.lock",
        "poetry.lock",
        "uv.lock",
        "pdm.lock",
        "composer.lock",
        "cargo.lock",
        "pipfile.lock",
        "deno.lock",
        "bun.lock",
        "flake.lock",
        "tokenizer.json",
        "vocab.json",
        "merges.json",
        "added_tokens.json",
        "special_tokens_map.json",
    }
)
_WORTH = re.compile(
    r"model|repo_?id|tokenizer|hf|hugging|pretrained|embed|rerank|llm|checkpoint|adapter|encoder|vllm|lora"
    r"|name_or_path",
    re.IGNORECASE,
)
_SHEBANG = re.compile(rb"#!\s*\S*?(?:/env\s+(?:-S\s+)?)?(?:\S*/)?(python[\d.]*|bash|sh|zsh|dash|ksh)\b")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: its notation, how it is read, how large it may be."""

    notation: Notation
    find: Find
    limit: str = "file_bytes"


def _text(read: Callable[[str, Names], Reading]) -> Find:
    return lambda _, text, names: read(text, names)


def _settings(read: Callable[[str, Names], Reading]) -> Find:
    """Settings are parsed only when anything in them could matter: parsing costs."""

    def find(_: bytes, text: str, names: Names) -> Reading:
        return read(text, names) if _WORTH.search(text) or any(item in text for item in names.known) else Reading()

    return find


def _json(_: bytes, text: str, names: Names) -> Reading:
    if sbom.is_sbom(text[:4000]) and '"pkg:' in text:
        found = sbom.find(text)
        return replace(found, references=tuple(replace(r, notation=Notation.SBOM) for r in found.references))
    return _settings(settings.find_json)(_, text, names)


PYTHON = Kind(Notation.PYTHON, lambda data, _, names: python.find(data, names))
SHELL = Kind(Notation.SHELL, _text(shell.find))
SBOM = Kind(Notation.SBOM, lambda _, text, __: sbom.find(text), "sbom_bytes")
YAML = Kind(Notation.YAML, _settings(settings.find_yaml), "settings_bytes")
JSON = Kind(Notation.JSON, _json)
TOML = Kind(Notation.TOML, _settings(settings.find_toml), "settings_bytes")
ENV = Kind(Notation.ENV, _text(env.find))
DOCKERFILE = Kind(Notation.DOCKERFILE, _text(dockerfile.find))
_MAKE = Kind(Notation.SHELL, _text(lambda text, names: shell.find(text, names, make=True)))
_UNIT = Kind(Notation.SHELL, _text(env.find_unit))
_MODELFILE = Kind(Notation.DOCKERFILE, _text(dockerfile.find_modelfile))

_BY_ENDING = {
    ".py": PYTHON,
    ".pyw": PYTHON,
    ".pyi": PYTHON,
    ".ipynb": Kind(Notation.NOTEBOOK, _text(notebook.find), "notebook_bytes"),
    ".yaml": YAML,
    ".yml": YAML,
    ".toml": TOML,
    ".json": JSON,
    ".jsonc": JSON,
    ".sh": SHELL,
    ".bash": SHELL,
    ".zsh": SHELL,
    ".ksh": SHELL,
    ".envrc": SHELL,
    ".env": ENV,
    ".service": _UNIT,
    ".mk": _MAKE,
    ".dockerfile": DOCKERFILE,
    ".containerfile": DOCKERFILE,
    ".spdx": SBOM,
}
_BY_NAME = {
    "makefile": _MAKE,
    "gnumakefile": _MAKE,
    "justfile": _MAKE,
    "procfile": YAML,
    "modelfile": _MODELFILE,
    ".envrc": SHELL,
}


def kind_of(name: str) -> Kind | None:
    """The kind of a file by its name; None when it holds no references that are understood."""
    low = name.lower()
    if low in _IGNORED or low.endswith(".index.json"):
        return None
    if low in _BY_NAME:
        return _BY_NAME[low]
    if low.startswith(("dockerfile", "containerfile")) and not low.endswith((".md", ".txt", ".sh", ".py")):
        return DOCKERFILE
    if low == ".env" or low.startswith(".env."):
        return ENV
    if low.endswith((".cdx.json", ".spdx.json", ".cdx.xml", ".spdx.xml")) or low in {"bom.json", "bom.xml"}:
        return SBOM
    return _BY_ENDING.get(Path(low).suffix)


def kind_by_start(start: bytes) -> Kind | None:
    """The kind of a file without an ending, by its first line."""
    found = _SHEBANG.match(start)
    if found is None:
        return None
    return PYTHON if found.group(1).startswith(b"python") else SHELL
