"""Model references in YAML, JSON and TOML: values under keys that name models, and commands inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from advisories.audit.find.commands import Token, references
from advisories.audit.find.settings_keys import is_list_key, is_model_key, revision_keys, snake, variable_pins
from advisories.audit.find.shell import Script, expand
from advisories.audit.find.tree_nodes import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    read_json,
    read_toml,
    read_yaml,
    walk,
)
from advisories.audit.model import Gap, Place, Reading, Reference, Unreadable, is_sha
from advisories.audit.names import Names, Spec

_NAME_KEYS = ("name_or_path", "repo_id", "repo", "model", "model_id", "model_name", "id", "name", "path")
_COMMAND_KEYS = frozenset(
    {
        "execstart",
        "args",
        "before_script",
        "cmd",
        "run",
        "commands",
        "after_script",
        "scripts",
        "script",
        "command",
        "entrypoint",
        "shell",
    }
)
_ARGUMENT_KEYS = ("entrypoint", "command", "args")
_NEVER = frozenset(
    {
        "image",
        "uses",
        "repository",
        "package",
        "packages",
        "from",
        "registry",
        "served_model_name",
        "dataset",
        "datasets",
    }
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*)=(.*)", re.DOTALL)
_PLAIN_LINE = re.compile(
    r"^\s*(?:-\s+)?[\"']?([A-Za-z_][\w.-]*)[\"']?\s*:\s+[\"']?([^\s\"'#{}]+)[\"']?\s*(?:#.*)?$"
)
_AUTO_CLASS = re.compile(r"([^\s/]+/[^\s/]+?)--[\w.]+")
_SERVER_IMAGE = re.compile(r"(?:^|/)vllm/vllm-openai(?:[:@].*)?$")


def find_yaml(text: str, names: Names) -> Reading:
    """The references of a YAML file.

    One that does not parse (a template of YAML) is read line by line and is a gap as well. Raises Unreadable.
    """
    try:
        documents = read_yaml(text)
    except Unreadable as error:
        if error.reason != "parse_error":
            raise
        found = tuple(_plain_lines(text, names))
        return Reading(
            references=found, gaps=(Gap(reason=error.reason, detail=f"{error.detail}; read line by line"),)
        )
    return find_nodes(documents, names)


def find_json(text: str, names: Names) -> Reading:
    """The references of a JSON file; raises Unreadable."""
    return find_nodes([read_json(text)], names)


def find_toml(text: str, names: Names) -> Reading:
    """The references of a TOML file; raises Unreadable."""
    return find_nodes([read_toml(text)], names)


def find_nodes(documents: list[Node], names: Names) -> Reading:
    """The references of parsed documents."""
    finder = _Finder(names)
    for root in documents:
        for node in walk(root):
            if isinstance(node, Mapping):
                finder.mapping(node)
            elif isinstance(node, Sequence):
                finder.sequence(node)
    found = sorted(dict.fromkeys(finder.found), key=lambda item: item.place.line)
    return Reading(references=tuple(_less_sure_left_out(found)))


def _less_sure_left_out(found: list[Reference]) -> Iterator[Reference]:
    """One reference a line and repo: the same text may be seen as a value and as a path."""
    seen: set[tuple[int, str, str | None]] = set()
    for item in found:
        key = (item.place.line, item.repo, item.revision)
        if key not in seen:
            seen.add(key)
            yield item


class _Finder:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._items: set[int] = set()  # sequences read as one command already
        self.found: list[Reference] = []

    def mapping(self, node: Mapping) -> None:
        """Read the entries of one mapping."""
        if (node.text("repo_type", "repoType") or "model") != "model":
            return
        self._container(node)
        self._named_variable(node)
        for key, line, value in node.entries:
            if snake(key) in _NEVER:
                continue
            if isinstance(value, Scalar):
                self._value(node, key, line, value)
            elif isinstance(value, Sequence):
                self._list(node, key, value)
            elif is_list_key(key) or is_model_key(key):
                self._inner(value)
            if key == "auto_map" and isinstance(value, Mapping):
                self._auto_map(value)

    def sequence(self, node: Sequence) -> None:
        """Read a list: ``KEY=value`` items, paths, and a list of arguments."""
        scalars = [item for item in node.items if isinstance(item, Scalar)]
        if id(node) in self._items or not scalars:
            return
        given = [found for item in scalars if (found := _ASSIGNMENT.fullmatch(item.text))]
        pins = variable_pins({found.group(1): found.group(2) for found in given})
        for item in scalars:
            pair = _ASSIGNMENT.fullmatch(item.text)
            if pair and is_model_key(pair.group(1)):
                self._add(self._spec(pair.group(2)), item.line, pair.group(1), _pin(pair.group(1), pins))
            elif spec := self._names.located(expand(item.text, {})):
                self._add(spec, item.line, str(spec.form))
        if any(item.text.startswith("-") for item in scalars):
            self._tokens([Token(expand(item.text, {}), item.line) for item in scalars])

    # --- values ----------------------------------------------------------------------------------

    def _value(self, node: Mapping, key: str, line: int, value: Scalar) -> None:
        text = expand(value.text.strip(), {})
        if is_model_key(key):
            self._add(self._spec(text), line, key, _pin(key, _scalars(node)))
        elif (spec := self._names.located(text)) is not None:
            self._add(spec, line, str(spec.form))
        elif self._names.is_known(text):
            self._add(self._spec(text), line, key, _pin(key, _scalars(node)))
        if " " in value.text or "\n" in value.text:
            self._command(key, value)

    def _list(self, node: Mapping, key: str, value: Sequence) -> None:
        if not (is_model_key(key) or is_list_key(key)):
            return
        for item in value.items:
            if isinstance(item, Scalar):
                self._add(self._spec(item.text), item.line, key)
            elif isinstance(item, Mapping):
                self._inner(item)

    def _inner(self, node: Mapping) -> None:
        """A model described by a mapping of its own: ``{name: owner/name, revision: ...}``."""
        for name in _NAME_KEYS:
            for key, line, value in node.entries:
                if key == name and isinstance(value, Scalar) and (spec := self._spec(value.text)) is not None:
                    self._add(spec, line, key, _pin(key, _scalars(node)))
                    return

    def _auto_map(self, node: Mapping) -> None:
        """Code that a config takes from another repo: ``owner/name--module.Class``."""
        for inner in walk(node):
            if isinstance(inner, Scalar) and (found := _AUTO_CLASS.fullmatch(inner.text)):
                self._add(self._spec(found.group(1)), inner.line, "auto_map")

    def _named_variable(self, node: Mapping) -> None:
        """``{name: MODEL_ID, value: owner/name}``, as environments of containers are written."""
        name, value = node.text("name"), node.get("value")
        if name and isinstance(value, Scalar) and is_model_key(name):
            self._add(self._spec(expand(value.text, {})), value.line, name)

    # --- commands --------------------------------------------------------------------------------

    def _container(self, node: Mapping) -> None:
        """``entrypoint``, ``command`` and ``args`` of one mapping are one command line."""
        tokens: list[Token] = []
        for key in _ARGUMENT_KEYS:
            value = node.get(key)
            if isinstance(value, Sequence):
                scalars = [item for item in value.items if isinstance(item, Scalar)]
                if len(scalars) == len(value.items):
                    self._items.add(id(value))
                    tokens += [Token(expand(item.text, {}), item.line) for item in scalars]
            elif isinstance(value, Scalar) and value.text:
                tokens += _words(value)
        image = node.text("image") or ""
        if (
            tokens
            and _SERVER_IMAGE.search(image)
            and tokens[0].text not in {"vllm", "python", "python3", "sh", "bash"}
        ):
            tokens = [Token("vllm", tokens[0].line), Token("serve", tokens[0].line), *tokens]
        self._tokens(tokens)
        scripts = [token for token in tokens if " " in token.text or "\n" in token.text]
        for token in scripts:  # sh -c "..."
            self._script(token.text, token.line)

    def _command(self, key: str, value: Scalar) -> None:
        if snake(key) in _COMMAND_KEYS or key.endswith(("_command", "_cmd", "Command")):
            if snake(key) not in _ARGUMENT_KEYS:
                self._script(value.text, value.line + value.block)
            elif value.block and "\n" in value.text.strip():
                self._script(value.text, value.line + 1)
        elif "hf://" in value.text or " --model" in f" {value.text}":
            self._script(value.text, value.line + value.block)

    def _script(self, text: str, line: int) -> None:
        script = Script(self._names)
        script.run(text, line, whole=False)
        self.found += script.reading().references

    def _tokens(self, tokens: list[Token]) -> None:
        self.found += [reference for reference, _ in references(tokens, self._names)]

    def _spec(self, text: str) -> Spec | None:
        text = expand(text.strip(), {})
        return self._names.loaded(text)

    def _add(self, spec: Spec | None, line: int, via: str, pin: str | None = None) -> None:
        if spec is None:
            return
        revision = spec.revision or pin or None
        lowered = revision.lower() if revision else None
        self.found.append(
            Reference(
                repo=spec.repo,
                endpoint=spec.endpoint,
                revision=lowered if is_sha(lowered) else revision,
                place=Place(line=line),
                via=via if spec.form in {None, "@"} else str(spec.form),
            )
        )


def _scalars(node: Mapping) -> dict[str, str]:
    return {
        snake(key): value.text
        for key, _, value in node.entries
        if isinstance(value, Scalar) and value.text not in {"", "null", "~", "None"}
    }


def _pin(key: str, beside: dict[str, str]) -> str | None:
    return next((beside[name] for name in revision_keys(key) if beside.get(name)), None)


def _words(value: Scalar) -> list[Token]:
    """The words of a command given as one text."""
    line = value.line + value.block
    script = _Words(Names())
    script.run(value.text, line, whole=False)
    return script.tokens


class _Words(Script):
    """Keeps the words of the first command."""

    tokens: list[Token]

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self.tokens = []

    def command(self, tokens: list[Token]) -> None:
        """Keep the words."""
        self.tokens += tokens


def _plain_lines(text: str, names: Names) -> Iterator[Reference]:
    for number, line in enumerate(text.split("\n"), 1):
        found = _PLAIN_LINE.match(line[:2000])
        if found and is_model_key(found.group(1)) and (spec := names.loaded(expand(found.group(2), {}))):
            yield Reference(
                repo=spec.repo,
                endpoint=spec.endpoint,
                revision=spec.revision,
                place=Place(line=number),
                via=found.group(1),
            )


def moved(reading: Reading, lines: list[int]) -> Reading:
    """A reading of text put together from lines of a file, with the file's own line numbers."""

    def line_of(line: int) -> int:
        return lines[min(max(line, 1), len(lines)) - 1] if lines else 1

    return Reading(
        references=tuple(replace(item, place=Place(line=line_of(item.place.line))) for item in reading.references),
        gaps=tuple(replace(gap, line=line_of(gap.line)) if gap.line else gap for gap in reading.gaps),
    )
