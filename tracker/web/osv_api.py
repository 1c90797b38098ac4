"""The OSV query API and the OSV bulk files, as OSV clients expect them (docs/api.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import pydantic_core
from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from advisories.export import ARCHIVE, ECOSYSTEMS, INDEX
from advisories.osv import ECOSYSTEM
from advisories.publish import to_json
from advisories.query import answer, answer_batch
from storage.errors import NotFound, UsageError
from storage.model import Json
from tracker.web.access import Reader
from tracker.web.bulk import BulkFile, http_date
from tracker.web.context import Here, Web
from tracker.web.osv_schemas import OSV_BATCH, OSV_ERROR, OSV_QUERY, OSV_VULNS
from tracker.web.problems import OPENAPI_PROBLEMS

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
router = APIRouter(tags=["OSV"])
_BLOCK = 1 << 18
_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"description": "refused", "content": {"application/json": {"schema": OSV_ERROR}}}
    for code in (400, 401, 404, 413, 503)
}


class CsvResponse(PlainTextResponse):
    """Lines of values."""

    media_type = "text/csv"


async def _body(request: Request) -> bytes:
    return await request.body()


Body = Annotated[bytes, Depends(_body)]


def _answers(schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    return {**_content(schema), **_ERRORS}


def _content(schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": "the answer", "content": {"application/json": {"schema": schema}}}}


def _asks(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post("/v1/query", responses=_answers(OSV_VULNS), openapi_extra=_asks(OSV_QUERY))
def query(body: Body, web: Here, viewer: Reader) -> Response:
    """The advisories of a commit, or of a package with or without a version; withdrawn and info ones left out."""
    asked = _parsed(body)
    with web.database.snapshot() as tx:
        return _json(answer(web.source(tx, viewer.public_only), asked))


@router.post("/v1/querybatch", responses=_answers({"type": "object"}), openapi_extra=_asks(OSV_BATCH))
def query_batch(body: Body, web: Here, viewer: Reader) -> Response:
    """The ids and times of what each of up to 1,000 queries finds, in their order."""
    asked = _parsed(body)
    with web.database.snapshot() as tx:
        return _json(answer_batch(web.source(tx, viewer.public_only), asked))


@router.get("/v1/vulns/{vuln_id}", responses=_answers({"type": "object"}))
def vuln(vuln_id: str, web: Here, viewer: Reader) -> Response:
    """One advisory by id, withdrawn and info ones, too."""
    return _document(web, viewer.public_only, vuln_id)


# --- bulk ----------------------------------------------------------------------------------------


def _bulk(path: str, **about: Any) -> Callable[[Endpoint], Endpoint]:
    """A route for GET and, left out of the description, for HEAD."""

    def register(endpoint: Endpoint) -> Endpoint:
        router.head(path, include_in_schema=False, response_class=Response)(endpoint)
        router.get(path, **about | {"responses": about.get("responses", {}) | OPENAPI_PROBLEMS})(endpoint)
        return endpoint

    return register


@_bulk("/osv/all.zip", responses={200: {"content": {"application/zip": {}}}}, response_class=Response)
@_bulk("/osv/GIT/all.zip", include_in_schema=False, response_class=Response)
def archive(request: Request, web: Here, viewer: Reader) -> Response:
    """Every advisory as ``<id>.json`` in one zip; ``X-Goog-Hash`` has its CRC-32C."""
    found = web.bulk.file(ARCHIVE, public_only=viewer.public_only)
    size = found.path.stat().st_size
    headers = {
        **_dated(found),
        "X-Goog-Hash": f"crc32c={found.checksum}",
        "ETag": f'W/"{found.checksum}-{size}"',
        "Content-Length": str(size),
    }
    if request.method == "HEAD":
        return Response(headers=headers, media_type="application/zip")
    return StreamingResponse(_blocks(found.path, size), headers=headers, media_type="application/zip")


@_bulk("/osv/modified_id.csv", response_class=CsvResponse)
def root_index(web: Here, viewer: Reader) -> Response:
    """``<modified>,GIT/<id>`` a line, the newest first."""
    return _text(web.bulk.file(INDEX, public_only=viewer.public_only))


@_bulk("/osv/GIT/modified_id.csv", response_class=CsvResponse)
def index(web: Here, viewer: Reader) -> Response:
    """``<modified>,<id>`` a line, the newest first."""
    return _text(web.bulk.file(f"{ECOSYSTEM}/{INDEX}", public_only=viewer.public_only))


@_bulk("/osv/ecosystems.txt", response_class=PlainTextResponse)
def ecosystems(web: Here, viewer: Reader) -> Response:
    """The ecosystems that there are folders of, one a line."""
    return _text(web.bulk.file(ECOSYSTEMS, public_only=viewer.public_only))


@_bulk("/osv/all.json", responses=_content({"type": "array", "items": {"type": "object"}}))
@_bulk("/osv/GIT/all.json", include_in_schema=False)
def listing(web: Here, viewer: Reader) -> Response:
    """``[{id, modified}]``, the newest first, for importers that fetch ``/osv/GIT/<id>.json`` one by one."""
    body, modified = web.bulk.listing(public_only=viewer.public_only)
    headers = {"Last-Modified": http_date(modified)} if modified else {}
    return Response(body, media_type="application/json", headers=headers)


@_bulk("/osv/GIT/{vuln_id}.json", responses=_content({"type": "object"}))
@_bulk("/osv/{vuln_id}.json", include_in_schema=False)
def file(vuln_id: str, web: Here, viewer: Reader) -> Response:
    """One advisory by id."""
    return _document(web, viewer.public_only, vuln_id)


def _document(web: Web, public_only: bool, vuln_id: str) -> Response:
    with web.database.snapshot() as tx:
        made = web.source(tx, public_only).get(vuln_id) if vuln_id.isprintable() else None
    if made is None:
        raise NotFound("Vulnerability not found")
    return Response(
        to_json(made), media_type="application/json", headers={"Last-Modified": http_date(made["modified"])}
    )


def _parsed(body: bytes) -> Json:
    """The body as JSON whatever its type is said to be. Raises UsageError."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON") from None


def _json(value: dict[str, Any]) -> Response:
    return Response(pydantic_core.to_json(value), media_type="application/json")


def _dated(found: BulkFile) -> dict[str, str]:
    return {"Last-Modified": http_date(found.modified)} if found.modified else {}


def _text(found: BulkFile) -> Response:
    kind: Literal["text/csv", "text/plain"] = "text/csv" if found.path.suffix == ".csv" else "text/plain"
    return Response(found.path.read_bytes(), media_type=kind, headers=_dated(found))


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """The first ``size`` bytes; a file that took this one's place is of another length and ends the answer."""
    with path.open("rb") as opened:
        while size > 0 and (block := opened.read(min(_BLOCK, size))):
            size -= len(block)
            yield block
