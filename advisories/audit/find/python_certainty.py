"""What is certain of a Python expression: that all it may stand for is known, that it is None or no repo."""

from __future__ import annotations

import ast

from advisories.audit.find import python_texts
from advisories.audit.find.python_loaders import LOADERS
from advisories.audit.find.python_lookup import MOST, bindings
from advisories.audit.find.python_scopes import Parameter, Where, key_of, last_name
from advisories.audit.find.python_values import Node, Values

_LOCAL = frozenset(
    ["Path", "PurePath", "PosixPath", "join", "abspath", "realpath", "expanduser", "dirname", "mkdtemp", "getcwd"]
)


def is_settled(node: ast.AST) -> bool:
    """Whether an expression certainly names no repo: no text at all, a local path, what a download gave back.

    A look-up in the environment is settled, too, where it is one of several: what else is there is its default.
    """
    match node:
        case ast.Constant(value=value):
            return not isinstance(value, str)
        case ast.BinOp(op=ast.Div()):
            return True
        case ast.Call(func=function):
            name = last_name(function) or ""
            base = function.value if isinstance(function, ast.Attribute) else function
            from_environment = name == "getenv" or (name == "get" and last_name(base) == "environ")
            return name in _LOCAL or name in LOADERS or from_environment
        case _:
            return False


def complete(values: Values, node: ast.expr, where: Where) -> bool:
    """Whether everything an expression may stand for is a text, or certainly no repo: nothing, a local path."""
    found = values.followed(node, where)
    return bool(found) and all(
        is_settled(item) or bool(python_texts.of(item, values.texts, place, 1)) for item, place in found
    )


def is_none(values: Values, node: ast.expr, where: Where) -> bool:
    """Whether an expression is certainly None; a parameter that is None by default is not certain."""
    if isinstance(node, ast.Name) and any(isinstance(item.value, Parameter) for item in bindings(node.id, where)):
        return False
    found = values.followed(node, where)
    return bool(found) and all(isinstance(item, ast.Constant) and item.value is None for item, _ in found)


def is_closed(values: Values, node: ast.expr, where: Where, depth: int = 0) -> bool:
    """Whether all keys of what is spread into a call (``**node``) are known from the file."""
    if key_of(node) in values.changed:
        return False
    found = values.followed(node, where, depth)
    return bool(found) and all(_has_known_keys(values, item, place, depth + 1) for item, place in found)


def _has_known_keys(values: Values, node: Node, where: Where, depth: int) -> bool:
    if isinstance(node, ast.Dict):
        pairs = list(zip(node.keys, node.values, strict=True))
        return (
            all(
                isinstance(key, ast.Constant) if key is not None else is_closed(values, value, where, depth)
                for key, value in pairs[: MOST * 4]
            )
            and len(pairs) <= MOST * 4
        )
    if not isinstance(node, ast.Call) or last_name(node.func) != "dict" or node.args:
        return False
    return all(keyword.arg is not None for keyword in node.keywords)
