"""A server on loopback that answers by path, for answers that no real Hub would give."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tracker.demo.wire import LoopbackServer, Request, RequestRecord, Response

Reply = Response | Callable[[Request], Response]


def reply(value: Any, status: int = 200, **headers: str) -> Response:
    """An answer with a JSON body (bytes are sent as they are); header names are given with underscores."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Response(status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}, body=body)


class _Counting(LoopbackServer):
    connections = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


@dataclass
class Script:
    """``routes`` by path; ``seen`` lists the requests, ``fallback`` answers what has no route."""

    routes: dict[str, Reply] = field(default_factory=dict)
    fallback: Reply | None = None
    seen: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._server = _Counting(self._answer, _record)

    @property
    def url(self) -> str:
        return self._server.origin

    @property
    def connections(self) -> int:
        """How many connections were opened."""
        return self._server.connections

    @property
    def paths(self) -> list[str]:
        """Path and query of every request."""
        return [request.raw_path + (f"?{request.raw_query}" if request.raw_query else "") for request in self.seen]

    @property
    def tokens(self) -> list[str | None]:
        """The Authorization header of every request."""
        return [request.header("authorization") for request in self.seen]

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    def _answer(self, request: Request, record: RequestRecord) -> Response:
        self.seen.append(request)
        found = self.routes.get(request.raw_path, self.fallback)
        if found is None:
            return reply({"error": "no such route"}, 404)
        made = found(request) if callable(found) else found
        # answers are used up when sent, and a route may be asked again
        return Response(
            status=made.status,
            headers=dict(made.headers),
            body=made.body,
            length=made.length,
            cut_after=made.cut_after,
            reset=made.reset,
        )


def _record(request: Request) -> RequestRecord:
    return RequestRecord(
        method=request.method,
        path=request.path,
        query=request.raw_query,
        kind="api",
        range=request.header("range"),
        authorization=request.header("authorization") is not None,
    )


def model(name: str = "acme/tiny", sha: Any = "a" * 40, **fields: Any) -> Mapping[str, Any]:
    """One model as the API tells it."""
    return {"_id": "621ffdc036468d709f17434d", "id": name, "sha": sha, "private": False, "gated": False} | fields
