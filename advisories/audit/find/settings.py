"""Model references in YAML, JSON and TOML: values under keys that name models, and commands inside."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisories.audit.find.commands import references, unknown_model, unresolved
from advisories.audit.find.making import NOTHING, Given, reference
from advisories.audit.find.settings_keys import (
    Beside,
    is_list_key,
    is_model_key,
    is_model_variable,
    pin_of,
    reads_revision,
    snake,
    takes_tag,
    variable_pins,
)
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
from advisories.audit.find.words import Token
from advisories.audit.model import Form, Gap, Place, Reading, Reference, Unreadable
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
_EMPTY = frozenset({"", "null", "~", "None"})
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
    gaps = tuple(dict.fromkeys(finder.gaps))
    return Reading(references=tuple(_less_sure_left_out(found)), gaps=gaps)


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
        self._reading_revision: set[int] = set()  # environments of images that take REVISION
        self._items: set[int] = set()  # sequences read as one command already
        self.found: list[Reference] = []
        self.gaps: list[Gap] = []

    def mapping(self, node: Mapping) -> None:
        """Read the entries of one mapping."""
        if (node.text("repo_type", "repoType") or "model") != "model":
            return
        self._container(node)
        beside = _scalars(node)
        for key, line, value in node.entries:
            if snake(key) in _NEVER:
                continue
            if isinstance(value, Scalar):
                self._value(node, key, line, value, beside)
            elif isinstance(value, Sequence):
                self._list(node, key, value)
            elif (is_list_key(key) or is_model_key(key)) and not self._inner(value) and is_list_key(key):
                self._by_role(value, key)
            if key == "auto_map" and isinstance(value, Mapping):
                self._auto_map(value)

    def sequence(self, node: Sequence) -> None:
        """Read a list: ``KEY=value`` items, paths, and a list of arguments."""
        scalars = [item for item in node.items if isinstance(item, Scalar)]
        self._records(node)
        if id(node) in self._items or not scalars:
            return
        given = [found for item in scalars if (found := _ASSIGNMENT.fullmatch(item.text))]
        passed = {item.text: f"${item.text}" for item in scalars if item.text.isidentifier()}
        pins = variable_pins(passed | {found.group(1): expand(found.group(2), {}) for found in given})
        for item in scalars:
            pair = _ASSIGNMENT.fullmatch(item.text)
            if pair and is_model_variable(pair.group(1), pins):
                self._variable(pair.group(1), pair.group(2), item.line, pins, Form.ENTRY, node)
            elif spec := self._names.located(expand(item.text, {})):
                self._add(spec, item.line, str(spec.form))
        if any(item.text.startswith("-") for item in scalars):
            self._tokens([Token(expand(item.text, {}), item.line) for item in scalars])

    # --- values ----------------------------------------------------------------------------------

    def _value(self, node: Mapping, key: str, line: int, value: Scalar, beside: Beside) -> None:
        text = expand(value.text.strip(), {})
        form = Form.VARIABLE if key.isupper() else Form.PLAIN
        if is_model_variable(key, beside) if key.isupper() else is_model_key(key):
            self._variable(key, value.text, line, beside, form, node)
        elif (spec := self._names.located(text)) is not None:
            self._add(spec, line, str(spec.form))
        elif self._names.is_known(text):
            self._add(self._spec(text), line, key, pin_of(key, beside), form)
        if " " in value.text or "\n" in value.text:
            self._command(key, value)

    def _list(self, node: Mapping, key: str, value: Sequence) -> None:
        if not (is_model_key(key) or is_list_key(key)):
            return
        for item in value.items:
            if isinstance(item, Scalar):
                self._add(self._spec(item.text), item.line, key, form=Form.ITEM)
            elif isinstance(item, Mapping):
                self._inner(item)

    def _by_role(self, node: Mapping, key: str) -> None:
        """Models under names of one's own: ``models: {chat: owner/name, embed: {repo: owner/name}}``."""
        for _, line, value in node.entries:
            if isinstance(value, Scalar):
                self._add(self._spec(value.text), line, key, form=Form.ITEM)
            elif isinstance(value, Mapping):
                self._inner(value)

    def _inner(self, node: Mapping) -> bool:
        """A model described by a mapping of its own: ``{name: owner/name, revision: ...}``."""
        for name in _NAME_KEYS:
            for key, line, value in node.entries:
                if key == name and isinstance(value, Scalar) and (spec := self._spec(value.text)) is not None:
                    self._add(spec, line, key, pin_of(key, _scalars(node)))
                    return True
        return False

    def _auto_map(self, node: Mapping) -> None:
        """Code that a config takes from another repo: ``owner/name--module.Class``."""
        for inner in walk(node):
            if isinstance(inner, Scalar) and (found := _AUTO_CLASS.fullmatch(inner.text)):
                self._add(self._spec(found.group(1)), inner.line, "auto_map")

    def _records(self, node: Sequence) -> None:
        """``{name: MODEL_ID, value: owner/name}``, as environments of containers are written."""
        given: dict[str, Scalar] = {}
        for item in node.items:
            name = item.text("name") if isinstance(item, Mapping) else None
            if name and isinstance(item, Mapping):
                value = item.get("value")
                # one without a value has it from elsewhere
                given[name] = value if isinstance(value, Scalar) else Scalar(f"${name}", item.line)
        pins = variable_pins({name: expand(value.text, {}) for name, value in given.items()})
        for name, value in given.items():
            if is_model_variable(name, pins):
                self._variable(name, value.text, value.line, pins, Form.RECORD, node)

    def _variable(self, name: str, value: str, line: int, pins: Beside, form: Form, node: Node) -> None:
        default = "REVISION" if id(node) in self._reading_revision else None
        text = expand(value.strip(), {})
        self._add(self._spec(text, tag=takes_tag(name)), line, name, pin_of(name, pins, default), form)
        gap = unknown_model(name, text, line) if name.isupper() else None
        self.gaps += [gap] if gap else []

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
        environment = node.get("environment", "env")
        if reads_revision(image) and environment is not None:
            self._reading_revision.add(id(environment))
        listed = isinstance(node.get("args") or node.get("command") or node.get("entrypoint"), Sequence)
        if (
            tokens
            and _SERVER_IMAGE.search(image)
            and tokens[0].text not in {"vllm", "python", "python3", "sh", "bash"}
        ):
            tokens = [Token("vllm", tokens[0].line), Token("serve", tokens[0].line), *tokens]
        self._tokens(tokens, Form.WORDS if listed else Form.PLAIN)
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
        reading = script.reading()
        self.found += reading.references
        self.gaps += reading.gaps

    def _tokens(self, tokens: list[Token], form: Form = Form.WORDS) -> None:
        self.found += [made for made, _ in references(tokens, self._names, form)]
        self.gaps += unresolved(tokens)

    def _spec(self, text: str, *, tag: bool = False) -> Spec | None:
        return self._names.loaded(expand(text.strip(), {}), tag=tag)

    def _add(self, spec: Spec | None, line: int, via: str, pin: Given = NOTHING, form: Form = Form.PLAIN) -> None:
        if spec is not None:
            self.found.append(reference(spec, pin, Place(line=line), via, form))


def _scalars(node: Mapping) -> dict[str, tuple[str, str]]:
    """The values of a mapping; a variable without one has it from elsewhere."""
    values = {key: value.text for key, _, value in node.entries if isinstance(value, Scalar)}
    return {
        snake(key): (key, f"${key}" if text in _EMPTY else expand(text, {}))
        for key, text in values.items()
        if text not in _EMPTY or key.isupper()
    }


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
