"""The model card: YAML front matter and the text below it."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from storage.model import Json, Snapshot
from tracker.snapshot.json_reader import MAX_DEPTH, Unreadable

MAX_FRONT_MATTER: Final = 1024 * 1024
MAX_NODES: Final = 100_000
MAX_ALIASES: Final = 100
MAX_DIGITS: Final = 4_300
CARD_PATH: Final = "README.md"
_FRONT = re.compile(r"\A\s*---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


class _Loader(yaml.SafeLoader):
    """The safe loader, within bounds: alias bombs and deep nesting are refused before anything is built."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._aliases = 0
        self._depth = 0

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Only numbers of as many digits as Python reads: 1:1:1:... costs the square of its length."""
        if len(node.value) > MAX_DIGITS:
            raise Unreadable("parse_error", "front matter holds an integer of too many digits")
        return super().construct_yaml_int(node)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            self._aliases += 1
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES or self._aliases > MAX_ALIASES:
            raise Unreadable("too_many", "front matter of too many values or aliases")
        if self._depth > MAX_DEPTH:
            raise Unreadable("too_deep", f"front matter of more than {MAX_DEPTH} levels")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def parse_card(text: str) -> tuple[dict[str, Json], list[str]]:
    """Split and parse a card into ``{"metadata": object, "body": text}``; returns it and its flaws.

    Front matter that is no object counts as empty, with a flaw.

    Raises:
        Unreadable: ``parse_error``, ``too_large``, ``too_many``, ``too_deep`` in the front matter.

    """
    match = _FRONT.match(text)
    if match is None:
        return {"metadata": {}, "body": text}, []
    front, body = match.group(1), text[match.end() :].removeprefix("\r").removeprefix("\n")
    if len(front) > MAX_FRONT_MATTER:
        raise Unreadable("too_large", f"front matter of {len(front)} characters")
    budget = [MAX_NODES]
    try:
        value = _plain(yaml.load(front, _Loader), MAX_DEPTH, budget)  # noqa: S506 - a SafeLoader within bounds
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        raise Unreadable("parse_error", f"front matter is not YAML{where}") from None
    except RecursionError:
        raise Unreadable("too_deep", "front matter nested too deep") from None
    except (ValueError, OverflowError, TypeError, AttributeError, IndexError, KeyError):
        # PyYAML's constructors let these out on dates and numbers that look right and are not.
        raise Unreadable("parse_error", "front matter holds a value that cannot be read") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        return {"metadata": {}, "body": body}, ["front matter is no object"]
    return {"metadata": value, "body": body}, []


def _plain(value: Any, levels: int, budget: list[int]) -> Json:
    """YAML values as JSON: dates as ISO text, sets as sorted lists, keys as text. Aliases are copied."""
    budget[0] -= 1
    if budget[0] < 0:
        raise Unreadable("too_many", "front matter whose aliases grow it beyond bounds")
    if levels < 0:
        raise Unreadable("too_deep", "front matter nested too deep")
    if isinstance(value, dict):
        return {_key(key): _plain(child, levels - 1, budget) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(child, levels - 1, budget) for child in value]
    if isinstance(value, set | frozenset):
        return sorted(_key(child) for child in value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 14_000:
        raise Unreadable("parse_error", "front matter holds an integer of too many digits")
    return value


def _key(key: Any) -> str:
    """A mapping's key as JSON has it."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return str(key)


def metadata(snapshot: Snapshot) -> Mapping[str, Json]:
    """The card's front matter; empty without a card."""
    for path in sorted(snapshot.documents):
        if path.lower() == CARD_PATH.lower():
            data = snapshot.documents[path].data
            return data.get("metadata", {}) if isinstance(data, dict) else {}
    return {}


def base_models(snapshot: Snapshot) -> tuple[str, ...]:
    """The repos that the card names as ``base_model``, in order, at most eight."""
    value = metadata(snapshot).get("base_model")
    names = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and "/" in name))[:8]


def is_embedding_model(snapshot: Snapshot) -> bool:
    """Whether the card tags the model for sentence similarity or feature extraction."""
    front = metadata(snapshot)
    tags = front.get("tags")
    words = {front.get("pipeline_tag") if isinstance(front.get("pipeline_tag"), str) else None}
    words.update(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else None
    return bool(words & {"sentence-similarity", "feature-extraction", "sentence-transformers"})
