"""Commands that a Python program runs: ``subprocess.run(["hf", "download", ...])``, ``os.system("...")``."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable

from advisories.audit.find.python_scopes import last_name
from advisories.audit.model import Form

RUNNING = frozenset({"run", "Popen", "call", "check_call", "check_output", "system", "popen", "getoutput"})
"""The calls that run a command, by the last part of their name."""
_MOST = 200
_UNKNOWN = "$UNKNOWN"
_PYTHON = frozenset({"executable"})


def words(call: ast.Call, texts: Callable[[ast.expr], list[str]]) -> list[str]:
    """The words of the command that a call runs; ``texts`` follows one expression. Empty where it is none.

    A word that cannot be followed stands as one that only the environment knows.
    """
    given = call.args[0] if call.args else next((item.value for item in call.keywords if item.arg == "args"), None)
    if isinstance(given, ast.List | ast.Tuple):
        return [_word(item, texts) for item in given.elts[:_MOST]]
    if isinstance(given, ast.JoinedStr):
        found = ["".join(_part(part, texts) for part in given.values[:_MOST])]
    else:
        found = texts(given) if isinstance(given, ast.Constant | ast.Name) else []
    if len(found) != 1 or " " not in found[0]:
        return []
    try:
        return shlex.split(found[0])[:_MOST]
    except ValueError:
        return []


def form(call: ast.Call) -> Form:
    """How the words of a call's command are written."""
    listed = bool(call.args) and isinstance(call.args[0], ast.List | ast.Tuple)
    return Form.WORDS if listed else Form.PLAIN


def _part(part: ast.expr, texts: Callable[[ast.expr], list[str]]) -> str:
    return _word(part.value if isinstance(part, ast.FormattedValue) else part, texts)


def _word(item: ast.expr, texts: Callable[[ast.expr], list[str]]) -> str:
    if last_name(item) in _PYTHON:  # sys.executable
        return "python"
    found = texts(item)
    return found[0] if len(found) == 1 else _UNKNOWN
