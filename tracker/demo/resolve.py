"""Files over HTTP: ``/resolve``, ``/raw``, the resolve cache, and the storage that signed links lead to."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote, urlencode

from tracker.demo.objects import TreeItem
from tracker.demo.store import Model, Refusal, Store, commit_of
from tracker.demo.wire import Request, Response, text_response
from tracker.demo.xet import xet_hash

_CHUNK = 256 << 10
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
# Refs with slashes that the Hub also takes unquoted.
_LONG_REF = re.compile(r"refs/(?:pr/\d+|convert/[^/]+)(?=/)")


class Files:
    """Answers requests for files. ``storage_url`` is where signed links lead."""

    def __init__(self, store: Store, *, storage_url: Callable[[], str], clock: Callable[[], float]) -> None:
        self.store = store
        self._storage_url = storage_url
        self._clock = clock
        self._key = hashlib.sha256(str(id(self)).encode()).digest()

    def resolve(self, request: Request) -> Response:
        """``/{id}/resolve/{rev}/{path}``: 307 to the cache, or 302 to storage for LFS files."""
        model, revision, path = self._named(request)
        sha, item = self._find(request, model, revision, path)
        pointer = model.repo.pointer(item.sha)
        common = {"X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if pointer is None:
            tag = f'"{item.sha}"'
            own = request.raw_path + (f"?{request.raw_query}" if request.raw_query else "")
            query = f"{quote(own, safe='')}=&etag={quote(tag, safe='')}"
            location = f"/api/resolve-cache/models/{model.id}/{sha}/{quote(path)}?{query}"
            answer = text_response(f"Temporary Redirect. Redirecting to {location}", status=307)
            answer.headers |= common | {"Location": location, "X-Linked-Etag": tag}
            if request.header("if-none-match") == tag:
                answer.status, answer.body = 304, b""
                answer.headers["ETag"] = tag
            return answer
        tag = f'"{pointer.sha256}"'
        location = self.sign(model, pointer.sha256, pointer.size, life=request.link_life)
        answer = text_response(f"Found. Redirecting to {location}", status=302)
        answer.headers |= common | {
            "Location": location,
            "X-Linked-Etag": tag,
            "X-Linked-Size": str(pointer.size),
        }
        if model.xet:
            xet = xet_hash(pointer.sha256)
            answer.headers["X-Xet-Hash"] = xet
            answer.headers["Link"] = (
                f'<{request.origin}/api/models/{model.id}/xet-read-token/{sha}>; rel="xet-auth", '
                f'<{self._storage_url()}/v1/reconstructions/{xet}>; rel="xet-reconstruction-info"'
            )
        return answer

    def cached(self, request: Request) -> Response:
        """``/api/resolve-cache/models/{id}/{sha}/{path}``: the bytes of a small file."""
        parts = request.raw_path.split("/")
        if len(parts) < 8:
            raise Refusal(404, "Entry not found", "EntryNotFound")
        model = self.store.readable(request, unquote("/".join(parts[4:6])))
        path = unquote("/".join(parts[7:]), errors="replace")
        sha, item = self._find(request, model, parts[6], path)
        tag = f'"{item.sha}"'
        name = path.rpartition("/")[2]
        shown = f"inline; filename*=UTF-8''{quote(name, safe='')}; filename=\"{_ascii(name)}\";"
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "X-Repo-Commit": sha,
            "ETag": tag,
            "Content-Disposition": shown,
        }
        if request.header("if-none-match") == tag:
            return Response(status=304, headers=headers)
        data = model.repo.blob(item.sha)
        return _ranged(request, len(data), lambda start, end: data[start:end], headers)

    def raw(self, request: Request) -> Response:
        """``/{id}/raw/{rev}/{path}``: the blob as git has it, a pointer for LFS files."""
        model, revision, path = self._named(request)
        sha, item = self._find(request, model, revision, path)
        headers = {"Content-Type": "text/plain; charset=utf-8", "X-Repo-Commit": sha}
        return Response(headers=headers, body=model.repo.blob(item.sha))

    def sign(self, model: Model, sha256: str, size: int, *, life: float) -> str:
        """A link to a content in storage that is good for ``life`` seconds."""
        path = f"/xet-bridge/{model.hub_id}/{sha256}"
        query = {"size": str(size), "Expires": str(int(self._clock() + life))}
        query["Signature"] = self._signature(path, query["size"], query["Expires"])
        return f"{self._storage_url()}{path}?{urlencode(query)}"

    def stored(self, request: Request) -> Response:
        """Storage: a signed link's content, by range; 403 when the signature is wrong or has expired."""
        size, expires = request.first("size") or "", request.first("Expires") or ""
        signature = self._signature(request.raw_path, size, expires)
        good = hmac.compare_digest(
            signature.encode(), (request.first("Signature") or "").encode("utf-8", "replace")
        )
        if not good or int(expires) <= self._clock():
            body = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code></Error>'
            return Response(status=403, headers={"Content-Type": "application/xml"}, body=body)
        hub_id, sha256 = request.raw_path.split("/")[-2:]
        try:
            model = next(model for model in self.store.models.values() if model.hub_id == hub_id)
            head = model.repo.head_bytes(sha256)
        except (StopIteration, KeyError):
            return Response(status=404, headers={"Content-Type": "application/xml"}, body=b"<Error/>")
        headers = {"Content-Type": "application/octet-stream", "ETag": f'"{xet_hash(sha256)}"'}
        return _ranged(request, int(size), lambda start, end: _padded(head, start, end), headers)

    # --- inside ------------------------------------------------------------------------------------

    def _named(self, request: Request) -> tuple[Model, str, str]:
        """The model, the revision and the path that a ``/{id}/resolve/...`` address names."""
        _, owner, name, _, *rest = request.raw_path.split("/")
        model = self.store.readable(request, unquote(f"{owner}/{name}"))
        tail = "/".join(rest)
        long = _LONG_REF.match(tail)
        revision, _, path = (long[0], "", tail[long.end() + 1 :]) if long else tail.partition("/")
        return model, unquote(revision, errors="replace"), unquote(path, errors="replace")

    def _find(self, request: Request, model: Model, revision: str, path: str) -> tuple[str, TreeItem]:
        sha = commit_of(model, revision, request.pins)
        item = model.repo.find(sha, path)
        if item is None or item.folder:
            raise Refusal(404, "Entry not found", "EntryNotFound")
        return sha, item

    def _signature(self, path: str, size: str, expires: str) -> str:
        return hmac.new(self._key, f"{path}\n{size}\n{expires}".encode(), hashlib.sha256).hexdigest()


def _padded(head: bytes, start: int, end: int) -> bytes:
    """Bytes ``start`` to ``end`` of a content that is ``head`` and then zeros."""
    return head[start:end].ljust(end - start, b"\0")


def _ranged(request: Request, size: int, read: Callable[[int, int], bytes], headers: dict[str, str]) -> Response:
    """The whole content, or the one range asked for (RFC 9110 section 14)."""
    headers = headers | {"Accept-Ranges": "bytes"}
    start, end, status = 0, size, 200
    found = _RANGE.fullmatch(request.header("range") or "")
    if found and any(found.groups()):
        first, last = found.groups()
        if first:
            start = int(first)
            end = min(size, int(last) + 1) if last else size
        else:
            start = max(0, size - int(last))
        if start >= size or end <= start:
            return Response(status=416, headers=headers | {"Content-Range": f"bytes */{size}"})
        status = 206
        headers |= {"Content-Range": f"bytes {start}-{end - 1}/{size}"}
    if end - start <= _CHUNK:
        return Response(status=status, headers=headers, body=read(start, end))
    return Response(status=status, headers=headers, body=_pieces(read, start, end), length=end - start)


def _pieces(read: Callable[[int, int], bytes], start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end, _CHUNK):
        yield read(at, min(end, at + _CHUNK))


def _ascii(name: str) -> str:
    return re.sub(r"[^ !#-\[\]-~]", "_", name)
