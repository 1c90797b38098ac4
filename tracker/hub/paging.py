"""Lists in pages: ``Link: <...>; rel="next"`` followed on our own origin only, with an end to everything.

The library's own pagination follows the link to any host with the token, has no timeout and sleeps through
errors, so that lists are read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from huggingface_hub.utils import fix_hf_endpoint_in_url  # type: ignore[attr-defined]  # exported lazily

from storage.model import Json
from tracker.hub.answers import ENDPOINT_HELP, FAULT_HELP
from tracker.hub.errors import UpstreamFault
from tracker.hub.wire import Answer, Wire, joined, where

MAX_PAGES = 5_000
MAX_LINK = 16_384
"""Characters of a ``Link`` header that are read; cursors are a few hundred."""

_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_REL = re.compile(r""";\s*rel\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,"']+))""", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list. ``total`` is what ``X-Total-Count`` says, ``more`` whether a next page is named."""

    items: list[Json]
    more: bool
    total: int | None


def parse_next(link: str) -> str | None:
    """The target of ``rel="next"`` in a ``Link`` header, as written; None when there is none. Never raises."""
    for target, parameters in _LINK.findall(link[:MAX_LINK]):
        rel = _REL.search(parameters)
        if rel and "next" in "".join(rel.groups("")).lower().split():
            return str(target).strip() or None
    return None


def next_url(wire: Wire, answer: Answer) -> str | None:
    """The next page of an answer, None at the end.

    Raises:
        UpstreamFault: The link leaves our origin, or asks for another list than this one.

    """
    target = parse_next(answer.headers.get("link", ""))
    if target is None:
        return None
    # a mirror may pass on links with the Hub's own address: the same page is asked of the mirror
    url = fix_hf_endpoint_in_url(joined(answer.url, target), wire.endpoint)
    if not wire.owns(url):
        raise UpstreamFault(
            f"{where(answer.url)}: the next page is said to be on another host, not followed", help=ENDPOINT_HELP
        )
    if _list(url) != _list(answer.url):
        raise UpstreamFault(f"{where(answer.url)}: the next page is of another list", help=ENDPOINT_HELP)
    return url


def _list(url: str) -> list[str]:
    """What a URL lists: ``/api/models``, or a repo's commits or tree. The revision may be spelt another way."""
    return unquote(urlsplit(url).path).lower().split("/")[:6]


def pages(wire: Wire, path: str, params: list[tuple[str, str]]) -> Iterator[Page]:
    """The pages of a list, one request each, for as long as the caller goes on.

    A 5xx deep in the list keeps the cursor: the same page is asked once more, at once.

    Raises:
        UpstreamFault: A page is no list, a link repeats, or there are more than `MAX_PAGES`.

    """
    answer = wire.get(path, params)
    seen = {answer.url}
    for _ in range(MAX_PAGES):
        following = next_url(wire, answer)
        yield Page(items=_items(answer), more=following is not None, total=_total(answer))
        if following is None:
            return
        if following in seen:
            raise UpstreamFault(f"{where(answer.url)}: the pages go round in a circle", help=FAULT_HELP)
        seen.add(following)
        answer = _ask_again_once(wire, following)
    raise UpstreamFault(f"{where(answer.url)}: more than {MAX_PAGES} pages", help=FAULT_HELP)


def _ask_again_once(wire: Wire, url: str) -> Answer:
    try:
        return wire.get_url(url)
    except UpstreamFault as fault:
        if fault.status is None or fault.status < 500:
            raise
    return wire.get_url(url)


def _items(answer: Answer) -> list[Json]:
    if not isinstance(answer.value, list):
        raise UpstreamFault(f"{where(answer.url)}: the answer is not a list", help=ENDPOINT_HELP)
    return answer.value


def _total(answer: Answer) -> int | None:
    text = answer.headers.get("x-total-count", "")
    return int(text) if re.fullmatch(r"\d{1,12}", text, re.ASCII) else None
