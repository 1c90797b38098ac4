"""The texts that constants, f-strings, joins and fillings of constants make."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from advisories.audit.find.python_lookup import MOST
from advisories.audit.find.python_scopes import Where

LONGEST = 2000
"""Characters of one text that is followed."""

TextsOf: TypeAlias = Callable[[ast.expr, Where, int], list[str]]
"""Gives the texts an expression may stand for, at a place and a depth."""


def of(node: ast.AST, texts: TextsOf, where: Where, depth: int) -> list[str]:
    """The texts of an expression that is no name; ``texts`` follows what is inside."""
    match node:
        case ast.Constant(value=str(text)):
            return [text] if len(text) <= LONGEST else []
        case ast.JoinedStr(values=parts):
            return _product([of_part(part, texts, where, depth) for part in parts[:MOST]])
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _product([texts(left, where, depth), texts(right, where, depth)])
        case ast.BinOp(op=ast.Mod(), left=left, right=right):
            given = right.elts if isinstance(right, ast.Tuple) else [right]
            return _filled(texts(left, where, depth), [texts(item, where, depth) for item in given[:8]], "%s")
        case ast.Call(func=ast.Attribute(attr="format", value=base), args=args, keywords=[]):
            return _filled(texts(base, where, depth), [texts(item, where, depth) for item in args[:8]], "{}")
        case ast.Call(func=ast.Attribute(attr="join", value=base), args=[ast.List() | ast.Tuple() as listed]):
            glue = texts(base, where, depth)[:1]
            pieces = [part for item in listed.elts[:MOST] for part in (texts(item, where, depth), glue)]
            return _product(pieces[:-1])
        case _:
            return []


def of_part(part: ast.expr, texts: TextsOf, where: Where, depth: int) -> list[str]:
    """The texts of one part of an f-string."""
    if isinstance(part, ast.FormattedValue):
        return [] if part.format_spec else texts(part.value, where, depth)
    return of(part, texts, where, depth)


def _product(parts: Sequence[list[str]]) -> list[str]:
    """Every joining of one text a part, as far as there are not too many and none is too long."""
    if not parts or not all(parts):
        return []
    found = [""]
    for options in parts:
        found = [head + tail for head in found for tail in options if len(head) + len(tail) <= LONGEST][:MOST]
    return found


def _filled(templates: Sequence[str], given: Sequence[list[str]], mark: str) -> list[str]:
    """Templates with plain places only: a width or an attribute in a hostile one could cost or reach anything."""
    found: list[str] = []
    for template in templates:
        pieces = _pieces(template, mark)
        if pieces is None or len(pieces) != len(given) + 1:
            continue
        woven = [
            part for piece, options in zip(pieces, [*given, [""]], strict=True) for part in ([piece], options)
        ]
        found += itertools.islice(_product(woven), MOST)
    return found[:MOST]


def _pieces(template: str, mark: str) -> list[str] | None:
    """The texts between the places; None when there is anything but plain places in order."""
    if mark == "{}":
        for number in range(8):
            template = template.replace(f"{{{number}}}", "{}", 1)
    pieces = template.split(mark)
    return None if any(char in piece for piece in pieces for char in "%{}") else pieces
