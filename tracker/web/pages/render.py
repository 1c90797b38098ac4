"""How a page is made: templates, what they may print, and what a browser is told when there is nothing.

Whatever comes from a repo is printed by way of `finalize`: hidden characters are made visible, and autoescape
does the rest. No page has a script or an inline style, which the Content-Security-Policy forbids.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from advisories.text import one_line, visible
from storage.model import canonical_json
from tracker.money import usd
from tracker.spans import write_span
from tracker.web.pages import figures

LINE = 300  # characters of an upstream text on one line
_LONGEST_ESCAPE = 5  # characters that one becomes: &#34;
BLOCK = 4000  # characters of one shown in full


def _finalize(value: Any) -> Any:
    """Last gate of everything that is printed: nothing invisible, nothing that UTF-8 cannot hold."""
    if value is None:
        return ""
    return visible(value, keep="\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value


def short(value: object, limit: int = LINE) -> str:
    """A text from upstream on one line; shorter where escaping makes much of it, so that pages stay small."""
    return _fitting(one_line(str(value), limit), 2 * limit)


def _fitting(text: str, room: int) -> str:
    """As much of a text as takes ``room`` characters of a page."""
    if len(text) * _LONGEST_ESCAPE <= room or len(escape(text)) <= room:
        return text
    kept = 0
    for kept, char in enumerate(text):  # noqa: B007 - read below
        room -= len(escape(char))
        if room < 1:
            break
    return f"{text[:kept]}…"


def block(value: object, limit: int = BLOCK) -> str:
    """A text from upstream with its line breaks."""
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def value(data: object, limit: int = LINE) -> str:
    """A JSON value in words: text as it is, everything else as JSON, on one line; absent is a dash."""
    if data is None:
        return "–"
    if isinstance(data, dict) and data.get("capped"):
        return f"{short(data.get('head', ''), limit)} ({figures.size(data.get('size'))} in all)"
    return short(data if isinstance(data, str) else canonical_json(data), limit) or '""'


def when(moment: datetime | str | None) -> str:
    """A time in UTC to the minute."""
    if moment is None:
        return "never"
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tracker.web"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "line": short,
        "block": block,
        "value": value,
        "when": when,
        "count": figures.count,
        "size": figures.size,
        "gb": figures.gigabytes,
        "usd": usd,
        "span": write_span,
    }
    return made


TEMPLATES = _environment()


def html(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page from a template."""
    return HTMLResponse(TEMPLATES.get_template(template).render(**values), status_code=status)


class PageRoute(APIRoute):
    """A route whose answer depends on whether a browser asks; its refusals are those of `tracker.web.problems`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            answer = await handler(request)
            answer.headers.add_vary_header("Accept")
            return answer

        return handle


_TITLES = {
    400: "That cannot be asked for",
    401: "A token is needed",
    403: "The token is not good for that",
    404: "That is not here",
    405: "That cannot be done here",
    422: "That is not valid",
    429: "Asked too often",
    500: "Something is wrong with hubwatch",
    502: "The Hub did not answer",
    503: "Not now",
}


def refused(status: int, told: str, advice: str, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """A page that says why there is no other."""
    title = _TITLES.get(status, "That is not possible")
    page = html("error.html", status, number=status, title=title, told=told, advice=advice)
    page.headers.update(headers or {})
    return page
