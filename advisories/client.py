"""A small client of a hubwatch server, for notebooks and other services.

    from advisories.client import Client

    with Client("http://127.0.0.1:8600") as hubwatch:
        for repo in hubwatch.repos():
            print(repo["repo"])
        for advisory in hubwatch.advisories("acme/tiny-llm", min_severity="high", state="open"):
            print(advisory["id"], advisory["summary"])

Answers are what the server sent, under the keys of its OpenAPI description; lists are read page by page as
they are walked through. Every failure is a `ClientError` with one line that says what to do.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx

from storage.errors import HubwatchError, UsageError

Record: TypeAlias = dict[str, Any]
"""One JSON object of an answer."""

TOKEN_VARIABLE = "HUBWATCH_TOKEN"  # noqa: S105 - the name of a variable
MOST_BYTES = 256 << 20
"""The largest answer that is read."""

_TOKEN = re.compile(r"[\x21-\x7e]{1,1000}")
_PAGE = 200
_MOST_PAGES = 100_000
_BATCH = 500


class ClientError(HubwatchError):
    """The server could not be reached, refused, or answered with something else than hubwatch does."""

    code = "server"


class NotThere(ClientError):
    """The server does not know it (404)."""

    code = "not_found"


class Client:
    """Asks one server. Use it as a context manager, or call `close`.

    Args:
        url: Where the server is, ``http://127.0.0.1:8600``.
        token: A token of the server; else ``HUBWATCH_TOKEN``.
        timeout: Seconds for each step of a request.
        transport: How requests are sent; for tests and special networks.

    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        parsed = _parsed(url)
        token = token if token is not None else os.environ.get(TOKEN_VARIABLE)
        headers = {"Accept": "application/json", "User-Agent": "hubwatch-client"}
        token = (token or "").strip()
        if token:
            if not _TOKEN.fullmatch(token):
                raise UsageError(
                    "the token cannot be sent", help=f"set {TOKEN_VARIABLE} to a token of that server"
                )
            headers["Authorization"] = f"Bearer {token}"
        self.url = str(parsed).rstrip("/")
        # redirects are not followed: they would carry the token elsewhere
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- the REST interface ----------------------------------------------------------------------

    def repos(self, *, owner: str | None = None) -> Iterator[Record]:
        """Every repo that the server has revisions of or watches."""
        return self._listed("/api/v1/repos", "repos", {"owner": owner})

    def repo(self, repo: str) -> Record:
        """One repo; raises NotThere."""
        return self._object(_repo(repo))

    def revisions(self, repo: str, **filters: Any) -> Iterator[Record]:
        """The revisions of a repo, newest first. Filters: ``class_``, ``min_severity``, ``path``, ``since``."""
        return self._listed(f"{_repo(repo)}/revisions", "revisions", filters)

    def revision(self, repo: str, rev: str = "main") -> Record:
        """One revision: files, estimate, open advisories. Raises NotThere."""
        return self._object(f"{_repo(repo)}/revisions/{quote(rev, safe='')}")

    def diff(self, repo: str, before: str, after: str = "main") -> Record:
        """What is different between any two revisions."""
        return self._object(f"{_repo(repo)}/diff", {"from_": before, "to": after})

    def changes(self, repo: str | None = None, **filters: Any) -> Iterator[Record]:
        """What changed, the newest first: in one repo or in all."""
        path = "/api/v1/changes" if repo is None else f"{_repo(repo)}/changes"
        return self._listed(path, "changes", filters)

    def files(self, repo: str, rev: str = "main") -> Iterator[Record]:
        """The files of a revision, by path."""
        return self._listed(f"{_repo(repo)}/revisions/{quote(rev, safe='')}/files", "files", {})

    def estimates(self, repo: str, **filters: Any) -> Iterator[Record]:
        """What each revision costs in parameters and memory, newest first."""
        return self._listed(f"{_repo(repo)}/estimates", "estimates", filters)

    def blame(self, repo: str, path: str, pointer: str | None = None) -> Record:
        """Which revisions set a value, newest first."""
        return self._object(f"{_repo(repo)}/blame", {"path": path, "pointer": pointer})

    def advisories(self, repo: str | None = None, **filters: Any) -> Iterator[Record]:
        """OSV documents, newest first, of one repo or of all. Filters: ``min_severity``, ``class_``, ``state``."""
        path = "/api/v1/advisories" if repo is None else f"{_repo(repo)}/advisories"
        return self._listed(path, "advisories", filters)

    # --- the OSV interface -----------------------------------------------------------------------

    def vulnerability(self, advisory_id: str) -> Record:
        """One OSV document by id, `info` and withdrawn ones too. Raises NotThere."""
        return self._object(f"/v1/vulns/{quote(advisory_id, safe='')}")

    def query(
        self, *, commit: str | None = None, purl: str | None = None, name: str | None = None
    ) -> list[Record]:
        """The OSV documents that touch a commit, a package URL (with or without a sha) or a repo's URL."""
        body: Record = {"commit": commit} if commit else {}
        if purl:
            body["package"] = {"purl": purl}
        elif name:
            body["package"] = {"ecosystem": "GIT", "name": name}
        found: list[Record] = []
        for _ in range(_MOST_PAGES):
            answer = self._send("POST", "/v1/query", body=body)
            found += _objects(answer.get("vulns"))
            token = answer.get("next_page_token")
            if not token:
                return found
            body = {**body, "page_token": token}
        raise ClientError(f"{self.url} never ends a list", help="ask the people who run it")

    def query_many(self, commits: Sequence[str]) -> dict[str, list[str]]:
        """The ids of the advisories at each of these commits."""
        found: dict[str, list[str]] = {}
        for start in range(0, len(commits), _BATCH):
            batch = list(commits[start : start + _BATCH])
            answer = self._send("POST", "/v1/querybatch", body={"queries": [{"commit": sha} for sha in batch]})
            results = answer.get("results")
            if not isinstance(results, list) or len(results) != len(batch):
                raise self._strange()
            for sha, result in zip(batch, results, strict=True):
                found[sha] = [str(item.get("id")) for item in _objects((result or {}).get("vulns"))]
        return found

    # --- requests --------------------------------------------------------------------------------

    def _listed(self, path: str, key: str, filters: Mapping[str, Any]) -> Iterator[Record]:
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = self._object(path, {"limit": _PAGE, **filters, "cursor": cursor})
            items = page.get(key)
            if not isinstance(items, list):
                raise self._strange()
            yield from _objects(items)
            cursor = page.get("next_cursor")
            if not cursor:
                return
        raise ClientError(f"{self.url} never ends a list", help="ask the people who run it")

    def _object(self, path: str, parameters: Mapping[str, Any] | None = None) -> Record:
        given = {name.rstrip("_"): value for name, value in (parameters or {}).items() if value is not None}
        return self._send("GET", path, parameters=given)

    def _send(
        self, method: str, path: str, *, parameters: Mapping[str, Any] | None = None, body: Record | None = None
    ) -> Record:
        try:
            with self._http.stream(method, path, params=parameters, json=body) as response:
                data = self._read(response)
                status = response.status_code
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            why = type(error).__name__
            raise ClientError(
                f"{self.url} cannot be reached ({why})", help="check the URL and that hubwatch runs there"
            ) from error
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if status >= 300:
            raise self._refused(status, answer if isinstance(answer, dict) else {})
        if not isinstance(answer, dict):
            raise self._strange()
        return answer

    def _read(self, response: httpx.Response) -> bytes:
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if len(data) > MOST_BYTES:
                raise ClientError(f"{self.url} answers with more than {MOST_BYTES} bytes", help="ask for less")
        return bytes(data)

    def _refused(self, status: int, problem: Mapping[str, Any]) -> ClientError:
        said = str(problem.get("detail") or problem.get("message") or f"status {status}")[:300]
        if status == 404:
            return NotThere(said, help=str(problem.get("help") or "check the name")[:300])
        if status in {401, 403}:
            return ClientError(
                f"{self.url} refuses: {said}", help=f"set {TOKEN_VARIABLE} to a token of that server"
            )
        return ClientError(f"{self.url} answers {said}", help=str(problem.get("help") or "try again later")[:300])

    def _strange(self) -> ClientError:
        return ClientError(f"{self.url} does not answer like hubwatch", help="check the URL")


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise UsageError("this is not a server's URL", help="write http://host:port") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.userinfo:
        raise UsageError(
            "this is not a server's URL", help=f"write http://host:port; a token goes in {TOKEN_VARIABLE}"
        )
    return parsed


def _repo(repo: str) -> str:
    owner, _, name = repo.partition("/")
    return f"/api/v1/repos/{quote(owner, safe='')}/{quote(name, safe='')}"


def _objects(value: Any) -> list[Record]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
