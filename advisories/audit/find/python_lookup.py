"""Small look-ups for following values: what a name is bound to here, what a dict or an option gives."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from advisories.audit.find.python_scopes import Binding, Scope, Where

MOST = 64
"""Values that one expression is followed to."""


def bindings(name: str, where: Where) -> list[Binding]:
    """What a name may stand for here: in the nearest scope that binds it, back to the last sure binding."""
    scope: Scope | None = where.scope
    own = True
    while scope is not None:
        if (own or not scope.is_class) and (all_of := scope.names.get(name)):
            before = [item for item in all_of if not own or item.where.position < where.position] or all_of
            found: list[Binding] = []
            for item in reversed(before):
                found.append(item)
                around = where.block if own else ()
                if item.where.block == around[: len(item.where.block)]:
                    break
            return found[::-1][:MOST]
        scope, own = scope.parent, False
    return []


def pairs(node: ast.Dict, kind: str) -> Iterator[ast.expr]:
    """What ``.keys()``, ``.values()`` or ``.items()`` of a dict gives."""
    for key, value in itertools.islice(zip(node.keys, node.values, strict=True), MOST):
        if key is not None:
            pair = ast.Tuple(elts=[key, value], ctx=ast.Load())
            yield {"keys": key, "values": value}.get(kind, pair)


def option_names(call: ast.Call) -> list[str]:
    """The names that an option's flags give its value: ``--model-id`` becomes ``model_id``."""
    flags = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return [flag.lstrip("-").replace("-", "_") for flag in flags]
