"""A Python module's scopes and bindings, from its syntax tree: what each name may stand for, and where.

Nothing is run. Loops over the tree keep their own stack, so that nesting cannot exhaust the interpreter's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Block: TypeAlias = tuple[int, ...]
Step: TypeAlias = "int | str"

EACH = "each"
"""The step from a collection to its items; a number is the step to that item."""

_BRANCHES = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.Try: ("body", "orelse"),
    ast.ExceptHandler: ("body",),
    ast.match_case: ("body",),
}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class, function, lambda or comprehension."""

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    members: dict[str, list[Binding]] = field(default_factory=dict)  # of a class: what methods set on self

    @property
    def is_class(self) -> bool:
        """Whether this is a class body, which functions inside do not see."""
        return isinstance(self.node, ast.ClassDef)

    def enclosing_class(self) -> Scope | None:
        """The nearest class around."""
        scope: Scope | None = self
        while scope is not None and not scope.is_class:
            scope = scope.parent
        return scope


@dataclass(frozen=True, slots=True)
class Where:
    """A place in the program: scope, the blocks around it, line and column."""

    scope: Scope
    block: Block
    position: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: its callers say what it is."""

    function: ast.FunctionDef | ast.AsyncFunctionDef
    index: int  # place among the positional ones; -1 for keyword-only
    name: str
    default: ast.expr | None


@dataclass(frozen=True, slots=True)
class Binding:
    """What a name was given: an expression and the steps into it, a parameter, or something unknown (None)."""

    value: ast.expr | Parameter | ast.ClassDef | None
    where: Where
    steps: tuple[Step, ...] = ()


@dataclass(slots=True)
class Program:
    """A module, indexed."""

    module: Scope
    calls: list[tuple[ast.Call, Where]] = field(default_factory=list)
    texts: list[tuple[ast.Constant, Where]] = field(default_factory=list)  # no docstrings
    formatted: list[tuple[ast.JoinedStr, Where]] = field(default_factory=list)
    classes: dict[int, Scope] = field(default_factory=dict)  # by id of the ClassDef
    callers: dict[str, list[tuple[ast.Call, Where]]] = field(default_factory=dict)  # by the function's last name
    imports: dict[str, str] = field(default_factory=dict)  # the module that a top-level name came from


def key_of(node: ast.AST) -> str | None:
    """The name under which something assigned is found again: ``x``, ``x.y``, ``x['y']``."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Name):
            return node.id + "".join(reversed(parts))
        if len(parts) > 6:
            return None
        if isinstance(node, ast.Attribute):
            parts.append(f".{node.attr}")
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(f"[{node.slice.value!r:.80}]")
        else:
            return None
        node = node.value


def last_name(node: ast.AST) -> str | None:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def index(tree: ast.Module) -> Program:
    """Find every scope, binding, call and text of a module."""
    program = Program(module=Scope(tree, None))
    _Indexer(program).run(tree)
    return program


class _Indexer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.stack: list[tuple[ast.AST, Scope, Block]] = []

    def run(self, tree: ast.Module) -> None:
        self.stack.append((tree, self.program.module, ()))
        while self.stack:
            node, scope, block = self.stack.pop()
            self._visit(node, scope, block)

    def _visit(self, node: ast.AST, scope: Scope, block: Block) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._function(node, scope, block)
        elif isinstance(node, ast.ClassDef):
            self._class(node, scope, block)
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node, scope, block)
        else:
            self._note(node, scope, block)
            if isinstance(node, ast.JoinedStr):  # its fixed parts are no texts of their own
                held = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
                self.stack.extend((child, scope, block) for child in held)
            else:
                self._children(node, scope, block)

    def _children(self, node: ast.AST, scope: Scope, block: Block) -> None:
        branches = _BRANCHES.get(type(node), ())
        found: list[tuple[ast.AST, Scope, Block]] = []
        for name, value in ast.iter_fields(node):
            inner = (*block, len(block), id(node), branches.index(name)) if name in branches else block
            found += [(child, scope, inner) for child in _nodes(value)]
        self.stack.extend(reversed(found))

    def _note(self, node: ast.AST, scope: Scope, block: Block) -> None:
        where = Where(scope, block, (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
        match node:
            case ast.Call():
                self.program.calls.append((node, where))
                if name := last_name(node.func):
                    self.program.callers.setdefault(name, []).append((node, where))
            case ast.Constant(value=str()):
                self.program.texts.append((node, where))
            case ast.JoinedStr():
                self.program.formatted.append((node, where))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value, where)
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._bind(target, value, where) if value is not None else None
            case ast.AugAssign(target=target):
                self._bind(target, None, where)
            case ast.For(target=target, iter=each) | ast.AsyncFor(target=target, iter=each):
                inner = Where(scope, (*block, len(block), id(node), 0), where.position)
                self._bind(target, each, inner, (EACH,))
            case ast.withitem(optional_vars=ast.expr() as target):
                self._bind(target, None, Where(scope, block, (target.lineno, target.col_offset)))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                source = getattr(node, "module", None)
                for alias in names:
                    name = (alias.asname or alias.name).partition(".")[0]
                    self.program.imports[name] = source or alias.name
                    self._put(scope, name, Binding(None, where))
            case _:
                pass

    def _bind(self, target: ast.expr, value: ast.expr | None, where: Where, steps: tuple[Step, ...] = ()) -> None:
        pending: list[tuple[ast.expr, ast.expr | None, tuple[Step, ...]]] = [(target, value, steps)]
        while pending:
            target, value, steps = pending.pop()
            if isinstance(target, ast.Tuple | ast.List):
                if any(isinstance(item, ast.Starred) for item in target.elts):
                    value = None
                pending += [(item, value, (*steps, place)) for place, item in enumerate(target.elts)]
            elif isinstance(target, ast.Starred):
                pending.append((target.value, None, ()))
            elif (key := key_of(target)) is not None:
                self._put(where.scope, key, Binding(value, where, steps))
                owner = where.scope.enclosing_class()
                if owner is not None and key.startswith(("self.", "cls.")):
                    owner.members.setdefault(key.partition(".")[2], []).append(Binding(value, where, steps))

    @staticmethod
    def _put(scope: Scope, name: str, binding: Binding) -> None:
        scope.names.setdefault(name, []).append(binding)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope, block: Block
    ) -> None:
        outer = Where(scope, block, (node.lineno, node.col_offset))
        inner = Scope(node, scope)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
        pairs = list(zip(positional, [*defaults, *arguments.defaults], strict=False))
        listed = [(arg, default, place) for place, (arg, default) in enumerate(pairs)]
        listed += [
            (arg, given, -1) for arg, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=False)
        ]
        for arg, given, place in listed:
            value: ast.expr | Parameter | None = given
            if not isinstance(node, ast.Lambda):
                value = Parameter(node, place, arg.arg, given)
            self._put(inner, arg.arg, Binding(value, outer))
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                self._put(inner, rest.arg, Binding(None, outer))
        outside: list[ast.AST] = [*arguments.defaults, *(item for item in arguments.kw_defaults if item)]
        if isinstance(node, ast.Lambda):
            inside: list[ast.AST] = [node.body]
        else:
            self._put(scope, node.name, Binding(None, outer))
            outside += node.decorator_list
            inside = _without_docstring(node.body)
        self.stack.extend((child, inner, ()) for child in reversed(inside))
        self.stack.extend((child, scope, block) for child in reversed(outside))

    def _class(self, node: ast.ClassDef, scope: Scope, block: Block) -> None:
        inner = Scope(node, scope)
        self.program.classes[id(node)] = inner
        self._put(scope, node.name, Binding(node, Where(scope, block, (node.lineno, node.col_offset))))
        self.stack.extend((child, inner, ()) for child in reversed(_without_docstring(node.body)))
        outside = [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
        self.stack.extend((child, scope, block) for child in outside)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope, block: Block
    ) -> None:
        inner = Scope(node, scope)
        for generator in node.generators:
            self._bind(generator.target, generator.iter, Where(inner, (), (0, 0)), (EACH,))
        self.stack.extend((child, inner, ()) for child in _parts(node))


def _parts(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[ast.AST]:
    yield from (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    for generator in node.generators:
        yield generator.iter
        yield from generator.ifs


def _nodes(value: object) -> list[ast.AST]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, ast.AST) and not _is_remark(item)]


def _is_remark(node: ast.AST) -> bool:
    """A text that stands alone as a statement: a docstring, or code put aside."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _without_docstring(body: list[ast.stmt]) -> list[ast.AST]:
    return [statement for statement in body if not _is_remark(statement)]
