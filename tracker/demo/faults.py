"""Trouble to order: what real pollers met, done to chosen requests.

    hub.faults.add(server_error(503), when=matching(kind="api", path="*/commits/*"), times=2)

An action gets the request and a callable that gives the true answer; it may answer instead, alter the answer,
or wait. Actions made here are safe to share between threads.
"""

from __future__ import annotations

import email.utils
import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from tracker.demo.injection import Action, Answer, Fault, Faults, always, matching
from tracker.demo.wire import Request, Response, json_response

__all__ = ["Action", "Answer", "Fault", "Faults", "always", "matching"]

# --- instead of the answer -----------------------------------------------------------------------


def rate_limited(seconds: int = 55, *, form: str = "ratelimit", now: float | None = None) -> Action:
    """429. ``form``: "ratelimit" (the Hub's headers), "seconds" or "date" (forms of Retry-After), or "none".

    ``now`` is the time, in seconds since 1970, that a date counts from; the real one by default.
    """

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        bucket = "api" if request.kind == "api" else "resolvers"
        message = f"We had to rate limit you, you hit the quota of 500 {bucket} requests per 5 minutes period."
        headers = {
            "ratelimit": {
                "RateLimit": f'"{bucket}";r=0;t={seconds}',
                "RateLimit-Policy": f'"fixed window";"{bucket}";q=500;w=300',
            },
            "seconds": {"Retry-After": str(seconds), "RateLimit": "", "RateLimit-Policy": ""},
            "date": {"Retry-After": _http_date(seconds, now), "RateLimit": "", "RateLimit-Policy": ""},
            "none": {"RateLimit": "", "RateLimit-Policy": ""},
        }[form]
        response = json_response({"error": message}, status=429)
        response.headers |= headers
        return response

    return act


def server_error(status: int = 500, body: str = "Internal Error - We're working hard to fix this!") -> Action:
    """A 5xx in plain text."""
    return lambda request, answer: Response(  # noqa: ARG005
        status=status, headers={"Content-Type": "text/html"}, body=body.encode()
    )


def reset() -> Action:
    """A TCP reset instead of an answer."""
    return lambda request, answer: Response(status=0, reset=True)  # noqa: ARG005


def redirect(location: str, status: int = 307) -> Action:
    """A redirect; ``{path}`` in the location stands for the request's path and query."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        own = request.raw_path + (f"?{request.raw_query}" if request.raw_query else "")
        return Response(status=status, headers={"Location": location.replace("{path}", own)})

    return act


# --- time ----------------------------------------------------------------------------------------


def stall(seconds: float) -> Action:
    """Hold the connection, then reset it; ends early when the server stops."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        request.stopping.wait(seconds)
        return Response(status=0, reset=True)

    return act


def stall_body(seconds: float, *, after: int = 1) -> Action:
    """Send the headers and ``after`` bytes of the body, then nothing for a while, then close."""

    def act(request: Request, answer: Answer) -> Response:
        response = answer()
        data = response.whole()
        response.length = len(data) if response.length is None else response.length
        response.cut_after = after + 1

        def pieces() -> Iterator[bytes]:
            yield data[:after]
            request.stopping.wait(seconds)

        response.body = pieces()
        return response

    return act


def drip(interval: float, *, size: int = 1) -> Action:
    """Send the body ``size`` bytes at a time, with a pause after each: no single read ever times out."""

    def act(request: Request, answer: Answer) -> Response:
        response = answer()
        data = response.whole()
        response.length = len(data) if response.length is None else response.length

        def pieces() -> Iterator[bytes]:
            for at in range(0, len(data), size):
                yield data[at : at + size]
                if request.stopping.wait(interval):
                    return

        response.body = pieces()
        return response

    return act


def endless(piece: bytes = b" " * 65536) -> Action:
    """A chunked body that goes on until the client hangs up or the server stops."""

    def act(request: Request, answer: Answer) -> Response:
        response = answer()

        def pieces() -> Iterator[bytes]:
            yield b"["
            while not request.stopping.is_set():
                yield piece

        response.body, response.length = pieces(), None
        return response

    return act


def delay(seconds: float) -> Action:
    """Answer late."""

    def act(request: Request, answer: Answer) -> Response:
        request.stopping.wait(seconds)
        return answer()

    return act


# --- the answer, altered -------------------------------------------------------------------------


def truncate(keep: int) -> Action:
    """Fewer bytes of body than Content-Length says."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        response.cut_after = keep
        return response

    return act


def corrupt(position: int = 0, count: int = 1) -> Action:
    """Flip every bit of ``count`` bytes of the body, from ``position`` on (counted from the end if negative)."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        data = bytearray(response.whole())
        start = position if position >= 0 else len(data) + position
        for at in range(max(0, start), min(len(data), start + count)):
            data[at] ^= 0xFF
        response.body, response.length = bytes(data), len(data)
        return response

    return act


def flip(chance: random.Random) -> Action:
    """Flip one bit of the body, anywhere: right in size, wrong in content."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        data = bytearray(response.whole())
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        response.body = bytes(data)
        return response

    return act


def shorten(keep: int) -> Action:
    """Only the first ``keep`` bytes of the body, which look like all there is: JSON that stops in the middle."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        response.body, response.length = response.whole()[:keep], None
        return response

    return act


def body(data: bytes, *, declared: int | None = None, **headers: str) -> Action:
    """Another body altogether: garbage, too much; ``declared`` lies about its length."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        response.body, response.length = data, declared
        if declared not in {None, len(data)}:
            response.cut_after = len(data)
        response.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return response

    return act


def garbage() -> Action:
    """A 200 that is not JSON."""
    return body(b'{"error": "<html>\xff\xfe not JSON', Content_Type="application/json; charset=utf-8")


def oversize(size: int, *, declared: int | None = None) -> Action:
    """A body of ``size`` bytes that begins like a JSON list and never ends."""
    return body(b"[" + b" " * (size - 1), declared=declared)


def gzip_bomb(size: int) -> Action:
    """A small gzip body that unpacks to ``size`` bytes."""
    return body(gzip.compress(b"[" + b" " * (size - 1), 9), Content_Encoding="gzip")


def edit_json(edit: Callable[[Any], Any]) -> Action:
    """The JSON that ``edit`` makes of the true one."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        response.body = json.dumps(edit(json.loads(response.whole()))).encode()
        response.length = None
        return response

    return act


def headers(**fields: str) -> Action:
    """Headers set (names with underscores), or removed where the value is empty."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        response.headers |= {name.replace("_", "-"): value for name, value in fields.items()}
        return response

    return act


def foreign_link(origin: str) -> Action:
    """The ``Link`` to the next page leads to another origin."""

    def act(request: Request, answer: Answer) -> Response:
        response = answer()
        if "Link" in response.headers:
            response.headers["Link"] = response.headers["Link"].replace(request.origin, origin.rstrip("/"))
        else:
            response.headers["Link"] = f'<{origin.rstrip("/")}{request.raw_path}?p=1>; rel="next"'
        return response

    return act


def no_link() -> Action:
    """A partial listing that looks whole: the ``Link`` to the next page is left out."""
    return headers(Link="")


def drop_entries(keep: int) -> Action:
    """A partial listing: the first ``keep`` entries, and no ``Link``."""

    def act(request: Request, answer: Answer) -> Response:
        return no_link()(request, lambda: edit_json(lambda rows: rows[:keep])(request, answer))

    return act


def lose(chance: random.Random, share: float = 0.5) -> Action:
    """A partial listing that looks like any other: entries are left out by chance, at least one of them."""

    def some(rows: list[Any]) -> list[Any]:
        kept = [row for row in rows if chance.random() >= share]
        return kept if len(kept) < len(rows) else rows[:-1]

    return edit_json(some)


def wrong_hash() -> Action:
    """ETags (and X-Linked-Etag) that name another content."""

    def act(request: Request, answer: Answer) -> Response:  # noqa: ARG001
        response = answer()
        for name in ("ETag", "X-Linked-Etag"):
            if name in response.headers:
                response.headers[name] = re.sub(r"[0-9a-f]{40,}", _another, response.headers[name])
        return response

    return act


def stale(sha: str, ref: str = "main") -> Action:
    """``ref`` still names an old commit, in every answer but the list of refs and git's own."""

    def act(request: Request, answer: Answer) -> Response:
        request.pins[ref] = sha
        return answer()

    return act


def file_gone() -> Action:
    """A file that the tree lists is not there."""
    return lambda request, answer: Response(  # noqa: ARG005
        status=404, headers={"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}
    )


def expired_links() -> Action:
    """Signed links that have expired when they are made: storage answers 403."""

    def act(request: Request, answer: Answer) -> Response:
        request.link_life = -1.0
        return answer()

    return act


def _another(found: re.Match[str]) -> str:
    return found[0].translate(str.maketrans("0123456789abcdef", "fedcba9876543210"))


def _http_date(seconds: int, now: float | None) -> str:
    start = email.utils.localtime().timestamp() if now is None else now
    return email.utils.formatdate(start + seconds, usegmt=True)
