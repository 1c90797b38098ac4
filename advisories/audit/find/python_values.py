"""Which texts a Python expression may stand for, following names within the file and running nothing.

Followed are constants, f-strings and joins of constants, conditional expressions, loops over literal
collections, dict and list look-ups, class attributes, what ``self`` was given, parameters with their defaults
and the calls of the file, defaults of ``os.environ.get``, argparse, click, pydantic and dataclass fields.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property

from advisories.audit.find import python_texts
from advisories.audit.find.python_lookup import MOST, bindings, option_names, pairs
from advisories.audit.find.python_scopes import (
    EACH,
    Binding,
    Parameter,
    Program,
    Scope,
    Step,
    Where,
    key_of,
    last_name,
)

_DEEPEST = 24
_STEPS = 200_000  # look-ups for a whole file
_LONGEST = 2000  # characters of one text
_DEFAULTS = frozenset({"Field", "field", "Option", "Argument", "Query", "Form", "Param", "attrib", "ib"})
_SAME = frozenset({"str", "list", "tuple", "set", "sorted", "reversed", "frozenset", "iter"})
_SAME_METHODS = frozenset({"strip", "rstrip", "lstrip", "value", "copy", "as_posix"})
_OPTIONS = frozenset({"option", "argument"})

Node = ast.expr | ast.ClassDef


class Values:
    """Answers for one program. Work is bounded for the program as a whole."""

    def __init__(self, program: Program) -> None:
        self.program = program
        """What is followed in."""
        self._left = _STEPS
        self.touched: set[int] = set()
        """The nodes (by id) whose texts were used since this was last emptied."""

    def texts(self, node: ast.expr, where: Where, depth: int = 0) -> list[str]:
        """The texts an expression may stand for, in the order found; repeats are kept, unknown ones left out."""
        found: list[str] = []
        for item, place in self._resolve(node, where, depth):
            self.touched.add(id(item))
            found += python_texts.of(item, self.texts, place, depth + 1)
            if len(found) >= MOST:
                break
        return found[:MOST]

    def followed(self, node: ast.expr, where: Where, depth: int = 0) -> list[tuple[Node, Where]]:
        """The expressions that one may stand for, each with its place; what cannot be followed may be left out."""
        return self._resolve(node, where, depth)

    def beginning(self, node: ast.JoinedStr, where: Where) -> str:
        """The text an f-string begins with, up to the first part that cannot be followed."""
        text = ""
        for part in node.values[:MOST]:
            found = python_texts.of_part(part, self.texts, where, 0)
            if len(found) != 1:
                break
            text += found[0]
        return text

    def field(self, node: ast.expr, name: str, where: Where) -> tuple[ast.expr, Where] | None:
        """What a dict that an expression stands for holds under a name; None when there is no such dict."""
        key = key_of(node)
        given = list(bindings(f"{key}[{name!r:.80}]", where)) if key else []
        if given and isinstance(given[-1].value, ast.expr) and not given[-1].steps:
            return given[-1].value, given[-1].where
        for item, place in self._resolve(node, where, 0):
            for key, value in self._entries(item, place, 1):
                if key == name:
                    return value, place
        return None

    # --- expressions to what they stand for ------------------------------------------------------

    def _resolve(self, node: Node, where: Where, depth: int) -> list[tuple[Node, Where]]:
        if depth > _DEEPEST or self._left <= 0:
            return []
        self._left -= 1
        found = itertools.islice(self._follow(node, where, depth + 1), MOST)
        return list(found)

    def _follow(self, node: Node, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        match node:
            case ast.Name(id=name):
                yield from self._named(name, where, depth)
            case ast.Attribute():
                yield from self._attribute(node, where, depth)
            case ast.Subscript():
                yield from self._subscript(node, where, depth)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._branch(body, where, depth)
                yield from self._branch(orelse, where, depth)
            case ast.BoolOp(values=values):
                for value in values[:MOST]:
                    yield from self._branch(value, where, depth)
            case ast.NamedExpr(value=value):
                yield from self._resolve(value, where, depth)
            case ast.Call():
                yield from self._called(node, where, depth)
            case _:
                yield node, where

    def _branch(self, node: ast.expr, where: Where, depth: int) -> list[tuple[Node, Where]]:
        """One of several possibilities: one that cannot be followed stays, so that it is not forgotten."""
        return self._resolve(node, where, depth) or [(node, where)]

    def _named(self, name: str, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        for binding in bindings(name, where):
            yield from self._bound(binding, depth)

    def _bound(self, binding: Binding, depth: int) -> Iterator[tuple[Node, Where]]:
        value = binding.value
        if value is None:
            return
        if isinstance(value, Parameter):
            found: Iterable[tuple[Node, Where]] = self._parameter(value, binding.where, depth)
        elif binding.steps and isinstance(value, ast.Call):
            found = [(value, binding.where)]  # what is called to make a collection matters to the steps
        else:
            found = self._resolve(value, binding.where, depth)
        for step in binding.steps:
            found = [item for start in found for item in self._step(start, step, depth)][:MOST]
        if not binding.steps:
            yield from found
            return
        for item, place in found:
            yield from self._resolve(item, place, depth)

    def _step(self, start: tuple[Node, Where], step: Step, depth: int) -> Iterator[tuple[Node, Where]]:
        node, where = start
        for item, place in self._resolve(node, where, depth) if not isinstance(node, ast.Call) else [start]:
            if step == EACH:
                yield from self._items(item, place, depth)
            elif isinstance(item, ast.Tuple | ast.List) and isinstance(step, int) and step < len(item.elts):
                yield item.elts[step], place

    def _items(self, node: Node, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        if depth > _DEEPEST or self._left <= 0:
            return
        self._left -= 1
        match node:
            case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                yield from ((item, where) for item in elts[:MOST])
            case ast.Dict(keys=keys):
                yield from ((key, where) for key in keys[:MOST] if key is not None)
            case ast.ClassDef():
                for bindings in self.program.classes[id(node)].names.values():
                    yield from ((item.value, item.where) for item in bindings if isinstance(item.value, ast.expr))
            case ast.Call(func=ast.Attribute(attr="values" | "items" | "keys" as kind, value=base), args=[]):
                for item, place in self._resolve(base, where, depth):
                    if isinstance(item, ast.Dict):
                        yield from ((made, place) for made in pairs(item, kind))
            case ast.Call(func=ast.Name(id="enumerate"), args=[first, *_]):
                for item, place in self._each(first, where, depth + 1):
                    if isinstance(item, ast.expr):
                        yield ast.Tuple(elts=[ast.Constant(value=0), item], ctx=ast.Load()), place
            case ast.Call(func=ast.Name(id="zip"), args=args):
                columns = [list(self._each(arg, where, depth + 1)) for arg in args[:4]]
                for row in zip(*columns, strict=False):
                    elts = [item for item, _ in row if isinstance(item, ast.expr)]
                    yield ast.Tuple(elts=elts, ctx=ast.Load()), where
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _SAME:
                yield from self._each(first, where, depth + 1)
            case _:
                return

    def _each(self, node: ast.expr, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        starts = [(node, where)] if isinstance(node, ast.Call) else self._resolve(node, where, depth)
        for item, place in starts:
            yield from self._items(item, place, depth)

    # --- attributes and look-ups -----------------------------------------------------------------

    def _attribute(self, node: ast.Attribute, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        key = key_of(node)
        direct = list(bindings(key, where)) if key else []
        if direct:
            for binding in direct:
                yield from self._bound(binding, depth)
            return
        base = node.value
        if isinstance(base, ast.Name) and base.id in {"self", "cls"}:
            owner = where.scope.enclosing_class()
            if owner is not None:
                yield from self._member(owner, node.attr, depth)
            return
        if node.attr in _SAME_METHODS:  # the value of an Enum's member
            yield from self._resolve(base, where, depth)
            return
        known = False
        for item, place in self._resolve(base, where, depth):
            if isinstance(item, ast.ClassDef):
                known = True
                yield from self._member(self.program.classes[id(item)], node.attr, depth)
            elif isinstance(item, ast.Call):
                given = [keyword.value for keyword in item.keywords if keyword.arg == node.attr]
                for value in given:
                    known = True
                    yield from self._resolve(value, place, depth)
                if not given and (made := self._class_of(item, place, depth)) is not None:
                    known = True
                    yield from self._member(made, node.attr, depth)
        if not known and (flag := self._arguments.get(node.attr)) is not None:
            yield from self._resolve(flag[0], flag[1], depth)

    def _class_of(self, call: ast.Call, where: Where, depth: int) -> Scope | None:
        for item, _ in self._resolve(call.func, where, depth):
            if isinstance(item, ast.ClassDef):
                return self.program.classes[id(item)]
        return None

    def _member(self, owner: Scope, name: str, depth: int) -> Iterator[tuple[Node, Where]]:
        found = [*owner.names.get(name, ()), *owner.members.get(name, ())]
        for binding in found:
            yield from self._bound(binding, depth)
        if found or not isinstance(owner.node, ast.ClassDef) or owner.parent is None or depth > _DEEPEST:
            return
        for base in owner.node.bases[:8]:
            for item, _ in self._resolve(base, Where(owner.parent, (), (owner.node.lineno, 0)), depth):
                if isinstance(item, ast.ClassDef):
                    yield from self._member(self.program.classes[id(item)], name, depth + 1)

    def _subscript(self, node: ast.Subscript, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        key = key_of(node)
        direct = list(bindings(key, where)) if key else []
        if direct:
            for binding in direct:
                yield from self._bound(binding, depth)
            return
        for item, place in self._resolve(node.value, where, depth):
            yield from self._looked_up(item, place, node.slice, where, depth)

    def _looked_up(
        self, item: Node, place: Where, key: ast.expr, where: Where, depth: int
    ) -> Iterator[tuple[Node, Where]]:
        if isinstance(item, ast.List | ast.Tuple):
            number = key.value if isinstance(key, ast.Constant) else None
            known = isinstance(number, int) and -len(item.elts) <= number < len(item.elts)
            for value in [item.elts[number]] if known and isinstance(number, int) else item.elts[:MOST]:
                yield from self._resolve(value, place, depth)
        elif isinstance(item, ast.ClassDef):  # an Enum by name
            for name in self.texts(key, where, depth):
                yield from self._member(self.program.classes[id(item)], name, depth)
        else:
            keys = set(self.texts(key, where, depth))
            for name, value in self._entries(item, place, depth):
                if not keys or name in keys:
                    yield from self._resolve(value, place, depth)

    def _entries(self, node: Node, where: Where, depth: int) -> Iterator[tuple[str, ast.expr]]:
        if isinstance(node, ast.Dict):
            for key, value in itertools.islice(zip(node.keys, node.values, strict=True), MOST * 4):
                if isinstance(key, ast.Constant):
                    yield str(key.value)[:_LONGEST], value
                elif key is not None:
                    yield from ((text, value) for text in self.texts(key, where, depth))
        elif isinstance(node, ast.Call) and last_name(node.func) == "dict":
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)

    # --- calls -----------------------------------------------------------------------------------

    def _called(self, node: ast.Call, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        name = last_name(node.func)
        if name == "get" and isinstance(node.func, ast.Attribute) and node.args:
            for item, place in self._resolve(node.func.value, where, depth):
                yield from self._looked_up(item, place, node.args[0], where, depth)
        if name in {"get", "getenv", "getattr"} and node.args:
            for default in [*node.args[1:], *(k.value for k in node.keywords if k.arg == "default")][-1:]:
                yield from self._resolve(default, where, depth)
        elif name in _DEFAULTS:
            yield from self._default(node, where, depth)
        elif name in _SAME and node.args:
            yield from self._resolve(node.args[0], where, depth)
        elif name in _SAME_METHODS and isinstance(node.func, ast.Attribute):
            yield from self._resolve(node.func.value, where, depth)
        else:
            yield node, where

    def _default(self, node: ast.Call, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        for keyword in node.keywords:
            if keyword.arg == "default":
                yield from self._resolve(keyword.value, where, depth)
                return
        if node.args:
            yield from self._resolve(node.args[0], where, depth)

    def _parameter(self, parameter: Parameter, where: Where, depth: int) -> Iterator[tuple[Node, Where]]:
        if parameter.default is not None:
            yield from self._resolve(parameter.default, where, depth)
        for decorator in parameter.function.decorator_list:
            if isinstance(decorator, ast.Call) and last_name(decorator.func) in _OPTIONS:
                given = [keyword.value for keyword in decorator.keywords if keyword.arg == "default"]
                if given and parameter.name in option_names(decorator):
                    yield from self._resolve(given[0], where, depth)
        name, skipped = parameter.function.name, 0
        owner = where.scope.node
        if isinstance(owner, ast.ClassDef):
            skipped = (
                0 if any(last_name(item) == "staticmethod" for item in parameter.function.decorator_list) else 1
            )
            name = owner.name if name == "__init__" else name
        for call, place in self.program.callers.get(name, ())[:MOST]:
            if not self._calls(call, owner):
                continue
            given = [keyword.value for keyword in call.keywords if keyword.arg == parameter.name]
            index = parameter.index - skipped
            if not given and 0 <= index < len(call.args):
                given = [call.args[index]]
            if given and not isinstance(given[0], ast.Starred):
                yield from self._resolve(given[0], place, depth)

    def _calls(self, call: ast.Call, owner: ast.AST) -> bool:
        """Whether a call by a function's name can be of that function: methods have a receiver of this file."""
        if not isinstance(call.func, ast.Attribute):
            return True
        base = call.func.value
        return isinstance(owner, ast.ClassDef) and not (
            isinstance(base, ast.Name) and base.id in self.program.imports
        )

    @cached_property
    def changed(self) -> frozenset[str | None]:
        """The names of dicts that are changed by ``update`` or ``setdefault`` somewhere in the file."""
        calls = [*self.program.callers.get("update", ()), *self.program.callers.get("setdefault", ())]
        return frozenset(key_of(call.func.value) for call, _ in calls if isinstance(call.func, ast.Attribute)) - {
            None
        }

    @cached_property
    def _arguments(self) -> dict[str, tuple[ast.expr, Where]]:
        """Defaults of argparse options by the attribute they become."""
        found = {}
        for call, where in self.program.callers.get("add_argument", ()):
            default = next((keyword.value for keyword in call.keywords if keyword.arg == "default"), None)
            if default is not None:
                dest = next((k.value for k in call.keywords if k.arg == "dest"), None)
                names = [dest.value] if isinstance(dest, ast.Constant) else option_names(call)
                found.update({str(name): (default, where) for name in names})
        return found
