"""YAML, JSON and TOML as one kind of tree that knows its lines."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from advisories.audit.model import Unreadable

MOST_NODES = 200_000
DEEPEST = 100
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[{}\[\]:,]|[^\s{}\[\]:,"/]+|/', re.DOTALL)
_FLOW = re.compile(r"[\[{\]}]")
_NESTED_ITEMS = re.compile(r"^[ ]*(?:[-?][ ]+){60}", re.MULTILINE)


@dataclass(slots=True, eq=False)
class Scalar:
    """A value and the line it begins at; ``block``: its text begins on the next line (``|``, ``>``)."""

    text: str
    line: int
    block: bool = False


@dataclass(slots=True, eq=False)
class Sequence:
    """A list."""

    items: list[Node] = field(default_factory=list)
    line: int = 1


@dataclass(slots=True, eq=False)
class Mapping:
    """Keys with their lines and values, in order; repeats are kept."""

    entries: list[tuple[str, int, Node]] = field(default_factory=list)
    line: int = 1

    def get(self, *names: str) -> Node | None:
        """The value of the first of these keys that is there."""
        for name in names:
            for key, _, value in self.entries:
                if key == name:
                    return value
        return None

    def text(self, *names: str) -> str | None:
        """As `get`, but only a scalar's text."""
        value = self.get(*names)
        return value.text if isinstance(value, Scalar) else None


Node: TypeAlias = Scalar | Sequence | Mapping


def walk(root: Node) -> Iterator[Node]:
    """Every node, each once, in document order."""
    stack, seen = [root], set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, Sequence):
            stack.extend(reversed(node.items))
        elif isinstance(node, Mapping):
            stack.extend(value for _, _, value in reversed(node.entries))


# --- YAML ----------------------------------------------------------------------------------------


def read_yaml(text: str) -> list[Node]:
    """The documents of a YAML stream; tags are ignored, aliases are the node they stand for.

    Raises Unreadable.
    """
    _refuse_deep(text)
    try:
        composed = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError, IndexError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise Unreadable("parse_error", f"not YAML{where}") from None
    return [_from_yaml(node) for node in composed if node is not None]


def _refuse_deep(text: str) -> None:
    depth = deepest = 0
    for found in _FLOW.finditer(text):
        depth = depth + 1 if found.group() in "[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    if deepest > DEEPEST or _NESTED_ITEMS.search(text):
        raise Unreadable("too_deep", f"nested deeper than {DEEPEST} levels")


def _from_yaml(root: yaml.Node) -> Node:
    made: dict[int, Node] = {}
    top = _shell_of(root)
    made[id(root)] = top
    stack: list[tuple[yaml.Node, Node]] = [(root, top)]

    def child(source: yaml.Node) -> Node:
        known = made.get(id(source))
        if known is None:
            if len(made) > MOST_NODES:
                raise Unreadable("too_large", f"more than {MOST_NODES} values")
            known = made[id(source)] = _shell_of(source)
            stack.append((source, known))
        return known

    while stack:
        source, target = stack.pop()
        if isinstance(target, Sequence):
            target.items.extend(child(item) for item in source.value)
        elif isinstance(target, Mapping):
            for key, value in source.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else ""
                target.entries.append((name, key.start_mark.line + 1, child(value)))
    return top


def _shell_of(node: yaml.Node) -> Node:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return Scalar(node.value, line, node.style in {"|", ">"})
    return Sequence(line=line) if isinstance(node, yaml.SequenceNode) else Mapping(line=line)


# --- JSON ----------------------------------------------------------------------------------------


def read_json(text: str) -> Node:
    """A JSON document, comments and trailing commas forgiven; raises Unreadable."""
    line, at = 1, 0
    root: Node | None = None
    stack: list[Node] = []
    keys: list[tuple[str, int] | None] = []
    count = 0
    for found in _JSON_TOKEN.finditer(text):
        piece = found.group()
        line += text.count("\n", at, found.start())
        at = found.start()
        if piece[0] == "/" or piece in {":", ","}:
            continue
        if piece in {"}", "]"}:
            if not stack:
                raise Unreadable("parse_error", f"not JSON (line {line})")
            stack.pop()
            keys.pop()
            continue
        count += 1
        if count > MOST_NODES or len(stack) > DEEPEST * 10:
            raise Unreadable("too_large", f"more than {MOST_NODES} values or {DEEPEST * 10} levels")
        node: Node
        if piece in {"{", "["}:
            node = Mapping(line=line) if piece == "{" else Sequence(line=line)
        else:
            value = _json_text(piece, line)
            if stack and isinstance(stack[-1], Mapping) and keys[-1] is None:
                keys[-1] = (value, line)
                continue
            node = Scalar(value, line)
        if not stack:
            if root is not None:
                raise Unreadable("parse_error", f"not JSON (line {line})")
            root = node
        elif isinstance(parent := stack[-1], Mapping):
            key = keys[-1]
            if key is None:
                raise Unreadable("parse_error", f"not JSON (line {line})")
            parent.entries.append((*key, node))
            keys[-1] = None
        elif isinstance(parent, Sequence):
            parent.items.append(node)
        if not isinstance(node, Scalar):
            stack.append(node)
            keys.append(None)
    if root is None or stack:
        raise Unreadable("parse_error", "not JSON: it ends too early")
    return root


def _json_text(piece: str, line: int) -> str:
    if not piece.startswith('"'):
        if len(piece) > 2000:
            raise Unreadable("parse_error", f"not JSON (line {line})")
        return piece
    try:
        return str(json.loads(piece, strict=False))
    except ValueError:
        raise Unreadable("parse_error", f"not JSON (line {line})") from None


# --- TOML ----------------------------------------------------------------------------------------


def read_toml(text: str) -> Node:
    """A TOML document. Lines are found by looking for each value again, in order. Raises Unreadable."""
    try:
        data = tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise Unreadable("parse_error", f"not TOML: {str(error)[:100]}") from None
    return _from_toml(data, _TomlLines(text))


class _TomlLines:
    """Finds where a key has a value; each place is given once."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._by_word: dict[str, list[int]] = {}
        self._taken: set[tuple[str, str, int]] = set()

    def find(self, key: str, value: str) -> int:
        if "/" not in value and "-" not in value:
            return 1
        needle = value.split("\n", 1)[0][:200]
        if needle not in self._by_word:
            self._by_word[needle] = [n for n, line in enumerate(self._lines, 1) if needle in line]
        places = self._by_word[needle]
        keyed = [
            n
            for n in places
            if re.match(rf"\s*(?:[\w.\"'-]+\.)?[\"']?{re.escape(key)}[\"']?\s*=", self._lines[n - 1])
        ]
        for line in [*keyed, *places]:
            if (key, value, line) not in self._taken:
                self._taken.add((key, value, line))
                return line
        return places[0] if places else 1


def _from_toml(root: dict[str, Any], lines: _TomlLines) -> Node:
    top = Mapping()
    stack: list[tuple[Any, Node, str]] = [(root, top, "")]
    count = 0

    def child(key: str, value: Any) -> Node:
        nonlocal count
        count += 1
        if count > MOST_NODES:
            raise Unreadable("too_large", f"more than {MOST_NODES} values")
        if not isinstance(value, dict | list):
            text = value if isinstance(value, str) else str(value)
            return Scalar(text, lines.find(key, text))
        made: Node = Mapping() if isinstance(value, dict) else Sequence()
        stack.append((value, made, key))
        return made

    while stack:
        data, node, key = stack.pop()
        if isinstance(node, Sequence):
            node.items.extend(child(key, item) for item in data)
        elif isinstance(node, Mapping):
            for name, item in data.items():
                made = child(name, item)
                node.entries.append((name, made.line, made))
    return top
