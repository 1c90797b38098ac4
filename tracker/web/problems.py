"""Every refusal as an RFC 9457 problem; under ``/v1/`` in the shape of the OSV API, for browsers as a page.

``type`` is ``urn:hubwatch:problem:<code>``; ``code`` and ``help`` say the same as on the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from storage.errors import HubwatchError, NotFound, StorageError, UsageError
from tracker.web.headers import HEADERS

MEDIA_TYPE = "application/problem+json"
OSV_API = "/v1/"
_RETRY_SECONDS = 10
# First parts of paths that are for programs: what is refused there is a problem, whoever asks.
_PROGRAMS = frozenset({"api", "v1", "osv", "hooks", "feeds", "healthz", "readyz", "metrics", "openapi.json"})

# What the OSV API calls an HTTP status: the codes of gRPC.
_OSV_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 413: 3, 422: 3, 429: 8, 503: 14}
_INTERNAL = 13

_SCHEMA = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
OPENAPI_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": HTTPStatus(status).phrase, "content": _SCHEMA}
    for status in (400, 401, 404, 422, 429, 503)
}
"""How reading endpoints refuse, for the description of the API."""
OPENAPI_WRITE_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": HTTPStatus(status).phrase, "content": _SCHEMA} for status in (403, 409, 413, 502)
}
"""How writing endpoints refuse beside that."""

log = structlog.get_logger("hubwatch.web")


class Problem(BaseModel):
    """A refusal (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:hubwatch:problem:not_found",
                    "title": "Not Found",
                    "status": 404,
                    "detail": "acme/tiny-llm is not known here",
                    "instance": "/api/v1/repos/acme/tiny-llm",
                    "code": "not_found",
                    "help": "run: hubwatch watch add acme/tiny-llm",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    help: str = ""
    errors: list[dict[str, Any]] | None = Field(default=None, description="what is wrong where, for status 422")


class Refused(HubwatchError):
    """A request refused with a status of its own, and the headers that go with it."""

    code = "refused"
    status = 400

    def __init__(self, message: str, *, help: str = "", headers: Mapping[str, str] | None = None) -> None:  # noqa: A002
        super().__init__(message, help=help)
        self.headers = dict(headers or {})


class Conflict(Refused):
    """What is to be made is there already."""

    code = "conflict"
    status = 409


Refusing = Callable[[int, str, str, Mapping[str, str]], Response]
"""Makes the page of a refusal from its status, what is told, advice and headers."""


def wants_html(request: Request) -> bool:
    """Whether the asker is somebody who looks at pages: names HTML among what it accepts."""
    return "text/html" in request.headers.get("accept", "").lower()


def install(app: FastAPI, page: Refusing | None = None) -> None:
    """Answer every error of an application in one of the shapes; ``page`` makes what a browser is shown."""
    app.state.refusing = page
    app.add_exception_handler(HubwatchError, _ours)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _defect)


def problem_response(
    path: str,
    status: int,
    detail: str,
    code: str,
    help: str = "",  # noqa: A002 - the field's name
    headers: Mapping[str, str] | None = None,
    errors: list[dict[str, Any]] | None = None,
) -> Response:
    """A refusal of a request for ``path``, in the shape that the path's readers expect."""
    if path.startswith(OSV_API):
        body: dict[str, Any] = {"code": _OSV_CODES.get(status, _INTERNAL), "message": detail}
        return Response(_ascii(body), status, dict(headers or {}), "application/json")
    body = {
        "type": f"urn:hubwatch:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": path,
        "code": code,
        "help": help,
    }
    if errors is not None:
        body["errors"] = errors
    return Response(_ascii(body), status, dict(headers or {}), MEDIA_TYPE)


def _answer(
    request: Request,
    status: int,
    detail: str,
    code: str,
    help: str = "",  # noqa: A002 - the field's name
    headers: Mapping[str, str] | None = None,
    errors: list[dict[str, Any]] | None = None,
) -> Response:
    """A refusal: a page where somebody looks at pages, else a problem."""
    path = request.url.path
    page: Refusing | None = request.app.state.refusing
    if page is None or path.lstrip("/").partition("/")[0] in _PROGRAMS:
        return problem_response(path, status, detail, code, help, headers, errors)
    if wants_html(request):
        answer = page(status, detail, help, headers or {})
    else:
        answer = problem_response(path, status, detail, code, help, headers, errors)
    answer.headers.add_vary_header("Accept")
    return answer


def _ascii(body: Mapping[str, Any]) -> bytes:
    # ASCII only: a path or a text from a request may hold what UTF-8 cannot
    return json.dumps(body, ensure_ascii=True).encode("ascii")


def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, HubwatchError)  # noqa: S101 - registered for it
    headers: Mapping[str, str] = {}
    match error:
        case Refused():
            status, headers = error.status, error.headers
        case NotFound():
            status = 404
        case UsageError():
            status = 400
        case StorageError():
            status, headers = 503, {"Retry-After": str(_RETRY_SECONDS)} if error.retryable else {}
            log.error("request failed", path=request.url.path, error=str(error))
            # where the database is and what its driver says is not for whoever asks
            error = StorageError("the database cannot be used now", help="try again; the log says more")
        case _:
            status, headers = 502, {"Retry-After": str(_RETRY_SECONDS)} if error.retryable else {}
    return _answer(request, status, error.message, error.code, error.help, headers)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    code = HTTPStatus(error.status_code).name.lower()
    detail = "nothing has this address" if error.status_code == 404 else str(error.detail)
    return _answer(request, error.status_code, detail, code, headers=error.headers)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    # the value itself is not sent back: it may be a secret, or what JSON cannot hold
    found = [
        {"loc": [str(part)[:200] for part in item["loc"]], "msg": str(item["msg"])[:300], "type": item["type"]}
        for item in error.errors()[:20]
    ]
    where = ".".join(found[0]["loc"]) if found else "request"
    detail = f"{where}: {found[0]['msg']}" if found else "the request is not valid"
    return _answer(
        request, 422, detail, "invalid", "what every place takes is told by /openapi.json", errors=found
    )


async def _gone(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Nobody is there any more to be told anything; it is no defect of ours."""
    return Response(status_code=400)


def _defect(request: Request, error: Exception) -> Response:
    log.exception("request failed", path=request.url.path, exc_info=error)
    told, advice = "this is a defect of hubwatch", "please report it with what the log says"
    # made outside of the layer that sets them
    return _answer(request, 500, told, "defect", advice, HEADERS)
