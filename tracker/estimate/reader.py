"""Read a config as its class would: typed, by its own names and aliases, with the class's defaults.

Everything in a config is hostile. Every accessor gives a value of the type it promises or raises
`ConfigError` with a sentence for people; nothing is guessed. What reads oddly but can still be counted is
kept in ``doubts``, which turns an exact estimate into a partial one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storage.model import Json
from tracker.estimate.defaults import ClassDefaults, class_defaults

# No published model has a dimension over a few million, or a count over a few hundred thousand. The cap
# keeps the figures inside what a database column and a reader can hold.
LARGEST = 10**12
DEEPEST = 8
_MISSING: Any = object()


class ConfigError(ValueError):
    """A value that a count needs is not there, or is not what its class takes."""


class Config:
    """One (sub-)config, read through its class's aliases and defaults.

    Args:
        raw: The parsed JSON object.
        model_type: What decides class and defaults; read from ``raw`` when it says so.
        path: Where it stands in the document, for messages (``text_config.``).
        doubts: Shared with the parent config.
        depth: Nesting so far; past ``DEEPEST`` is a `ConfigError`.

    """

    __slots__ = ("_aliases", "_defaults", "depth", "doubts", "model_type", "path", "raw")

    def __init__(
        self,
        raw: Mapping[str, Json],
        model_type: str | None = None,
        *,
        path: str = "",
        doubts: list[str] | None = None,
        depth: int = 0,
    ) -> None:
        if depth > DEEPEST:
            raise ConfigError(f"{path.rstrip('.')} is nested too deep")
        own = raw.get("model_type")
        self.raw = raw
        self.model_type: str = own if isinstance(own, str) else (model_type or "")
        self.path = path
        self.doubts: list[str] = [] if doubts is None else doubts
        self.depth = depth
        self._defaults: ClassDefaults = class_defaults(self.model_type)
        self._aliases = self._defaults.aliases

    def doubt(self, reason: str) -> None:
        """Note why the count may differ from the class's own."""
        if reason not in self.doubts:
            self.doubts.append(reason)

    def value(self, *keys: str, default: Json = _MISSING) -> Json:
        """The first of these keys that the config gives, else the class's default, else ``default``.

        A JSON null is a value (None). Raises ConfigError when no key is given and nothing stands in.
        """
        for key in keys:
            found = self._given(key)
            if found is not _MISSING:
                return found
        for key in keys:
            name = self._aliases.get(key, key)
            if name in self._defaults.derived:
                return None
            if name in self._defaults.values:
                return self._defaults.values[name]
        if default is not _MISSING:
            return default
        raise ConfigError(
            f"{self.path}{keys[0]} is not given and {self.model_type or 'the config'} has no default for it"
        )

    def _given(self, key: str) -> Json:
        old = self._defaults.legacy.get(key)
        if old is not None and old in self.raw:
            return self.raw[old]
        name = self._aliases.get(key, key)
        given = [spelling for spelling in self._defaults.spellings.get(name, (key,)) if spelling in self.raw]
        if not given:
            return self.raw.get(key, _MISSING)
        value = self.raw[given[0]]
        if any(self.raw[other] != value for other in given[1:]):
            self.doubt(f"{self.path}{given[1]} and its alias {given[0]} are both given and differ")
        return value

    def given(self, *keys: str) -> bool:
        """Whether the document itself names one of these keys."""
        return any(self._given(key) is not _MISSING for key in keys)

    def _fail(self, key: str, value: Json, wanted: str) -> ConfigError:
        return ConfigError(f"{self.path}{key} is {_show(value)}, not {wanted}")

    def __getitem__(self, key: str) -> int:
        """A whole number of at least 1."""
        return self.whole(key)

    def whole(self, *keys: str, minimum: int = 1, default: Json = _MISSING) -> int:
        """A whole number of at least ``minimum``; booleans, floats, texts and lists are refused."""
        return self._whole(keys[0], self.value(*keys, default=default), minimum)

    def _whole(self, key: str, value: Json, minimum: int) -> int:
        if type(value) is not int:
            raise self._fail(key, value, "a whole number")
        if value < minimum:
            raise self._fail(key, value, f"at least {minimum}")
        if value > LARGEST:
            raise self._fail(key, value, "a size that any model has")
        return value

    def maybe(self, *keys: str, minimum: int = 1) -> int | None:
        """A whole number, or None where the config or its class leaves it open."""
        value = self.value(*keys, default=None)
        return None if value is None else self._whole(keys[0], value, minimum)

    def flag(self, *keys: str, default: Json = _MISSING) -> bool:
        """True or false."""
        value = self.value(*keys, default=default)
        if value is None:
            return False
        if type(value) is not bool:
            raise self._fail(keys[0], value, "true or false")
        return value

    def text(self, *keys: str, default: Json = _MISSING) -> str:
        """A text, or "" for null."""
        value = self.value(*keys, default=default)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._fail(keys[0], value, "a text")
        return value

    def number(self, *keys: str, default: Json = _MISSING) -> float:
        """A finite number."""
        value = self.value(*keys, default=default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
            raise self._fail(keys[0], value, "a finite number")
        return value

    def items(self, *keys: str, default: Json = _MISSING) -> Sequence[Json]:
        """A list; null gives an empty one."""
        value = self.value(*keys, default=default)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise self._fail(keys[0], value, "a list")
        return value

    def ints(self, *keys: str, minimum: int = 0, default: Json = _MISSING) -> tuple[int, ...]:
        """A list of whole numbers; null gives an empty one."""
        return tuple(self._whole(keys[0], item, minimum) for item in self.items(*keys, default=default))

    def pair(self, *keys: str, default: Json = _MISSING) -> tuple[int, int]:
        """Height and width: one number for both, or a list of two."""
        value = self.value(*keys, default=default)
        if isinstance(value, list | tuple):
            if len(value) != 2:
                raise self._fail(keys[0], value, "one number or two")
            return self._whole(keys[0], value[0], 1), self._whole(keys[0], value[1], 1)
        size = self._whole(keys[0], value, 1)
        return size, size

    def sub(self, key: str, model_type: str | None = None, *, fixed: bool = False) -> Config:
        """A nested config; left out, it is the class's own default for it.

        Args:
            key: ``text_config``, ``vision_config``, ...
            model_type: The class's default type for it, where the nested config names none.
            fixed: The class builds that type whatever the nested config says.

        """
        given = self._given(key)
        default = self._defaults.values.get(self._aliases.get(key, key))
        raw = default if given is _MISSING or given is None else given
        if not isinstance(raw, Mapping):
            raise self._fail(key, raw, "an object")
        if model_type is None and isinstance(default, Mapping) and isinstance(default.get("model_type"), str):
            model_type = default["model_type"]
        if fixed and model_type is not None:
            raw = {**raw, "model_type": model_type}
        return Config(raw, model_type, path=f"{self.path}{key}.", doubts=self.doubts, depth=self.depth + 1)

    def labels(self) -> int:
        """Classes of a classification head: the length of ``id2label``, else ``num_labels``, else 2."""
        names = self.raw.get("id2label")
        if isinstance(names, Mapping):
            return len(names)
        if names is not None:
            raise self._fail("id2label", names, "an object")
        given = self.raw.get("num_labels")
        if given is not None:
            return self._whole("num_labels", given, 0)
        return self._defaults.labels


def _show(value: Json) -> str:
    """A short, safe rendering of any JSON value."""
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return "an object"
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def every(total: int, step: int, offset: int = 0) -> int:
    """How many i in [0, total) have ``i % step == offset``, in closed form."""
    if step <= 0:
        raise ConfigError("a layer pattern's step is not positive")
    offset %= step
    return 0 if total <= offset else (total - offset - 1) // step + 1


def within(indices: Iterable[Json], total: int) -> set[int]:
    """The distinct whole numbers among these that are layer indices."""
    return {i for i in indices if type(i) is int and 0 <= i < total}
