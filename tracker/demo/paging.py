"""Pages, as the Hub cuts them: numbered for commits, by an opaque cursor elsewhere; the next one in ``Link``."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tracker.demo.store import Refusal
from tracker.demo.wire import Request


@dataclass(slots=True)
class Pages:
    """How many entries a page has where the request does not say; the Hub's own figures."""

    commits: int = 50
    commits_most: int = 1000
    tree: int = 1000
    tree_expanded: int = 50
    models: int = 1000


def cursor_page(request: Request, rows: Sequence[Any], size: int) -> tuple[Sequence[Any], dict[str, str]]:
    """The page a cursor points at, and the Link to the next."""
    start = 0
    cursor = request.first("cursor")
    if cursor is not None:
        try:
            start = int(json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))["after"])
        except (ValueError, KeyError, TypeError):
            raise Refusal(400, "Invalid cursor") from None
    if start + size >= len(rows):
        return rows[start : start + size], {}
    after = base64.urlsafe_b64encode(json.dumps({"after": start + size}).encode()).decode().rstrip("=")
    others = [(key, value) for key, value in request.query if key not in {"cursor", "limit"}]
    return rows[start : start + size], _next(request, [*others, ("limit", str(size)), ("cursor", after)])


def numbered_page(request: Request, rows: Sequence[Any], size: int) -> tuple[Sequence[Any], dict[str, str]]:
    """The page that ``p`` names, counted from 0, and the Link to the next."""
    number = whole_number(request.first("p"), 0, least=0)
    page = rows[number * size : (number + 1) * size]
    if (number + 1) * size >= len(rows):
        return page, {}
    others = [(key, value) for key, value in request.query if key not in {"p", "limit"}]
    return page, _next(request, [("p", str(number + 1)), ("limit", str(size)), *others])


def whole_number(text: str | None, default: int, *, least: int = 1, most: int = 1 << 31) -> int:
    """Read a number of the query, held between two bounds; refuses what is none."""
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise Refusal(400, f"not a number: {text[:40]}")
    return max(least, min(int(text), most))


def _next(request: Request, query: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {"Link": f'<{request.origin}{request.raw_path}?{urlencode(query)}>; rel="next"'}
