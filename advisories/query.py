"""The OSV query API over what is published: what a request asks, what answers it, in which shape.

Withdrawn and `info` documents never answer. A commit is matched against ``versions``, which lists every
commit read at which an advisory is open, and against the events of ranges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import urlsplit

from packageurl import PackageURL

from advisories.osv import ECOSYSTEM, PURL_TYPE
from advisories.publish import documents_of
from storage import advisories, history
from storage.database import Transaction
from storage.errors import UsageError
from storage.model import DEFAULT_IDENTITY, Advisory, Json, RepoRef, Severity

PAGE = 500  # documents in one answer
MOST_QUERIES = 1000  # in one batch
_LONGEST = 1000  # characters of any one field
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked: a commit, or a package with or without a version. ``after`` goes on behind an id."""

    commit: str | None = None
    version: str | None = None
    ecosystem: str | None = None
    name: str | None = None
    purl: PackageURL | None = None
    after: str | None = None


class Source(Protocol):
    """Where documents come from."""

    def candidates(self, query: Query) -> Iterable[Mapping[str, Any]]:
        """Documents that may answer; those that do not are sorted out by `matches`."""
        ...


def parse_query(body: Json) -> Query:
    """Read the body of a request. Raises UsageError, whose message is the API's."""
    if not isinstance(body, Mapping):
        raise UsageError("a query is a JSON object")
    package = body.get("package")
    if package is not None and not isinstance(package, Mapping):
        raise UsageError("package is an object with name and ecosystem, or purl")
    package = package or {}
    commit, version, after = (_field(body, name) for name in ("commit", "version", "page_token"))
    name, ecosystem, purl = (_field(package, key) for key in ("name", "ecosystem", "purl"))
    if commit and version:
        raise UsageError("commit and version exclude each other")
    if not (commit or name or purl):
        raise UsageError("a query names a commit or a package")
    parsed = None
    if purl and not commit:
        if name or ecosystem:
            raise UsageError("purl excludes name and ecosystem")
        parsed = _purl(purl)
        if parsed.version and version:
            raise UsageError("the version stands in the purl and beside it")
        version = version or parsed.version
    elif name and not ecosystem and not commit:
        raise UsageError("a package has a name and an ecosystem")
    return Query(
        commit=commit.lower() if commit else None,
        version=None if commit else version,
        ecosystem=None if commit else ecosystem,
        name=None if commit else name,
        purl=parsed,
        after=after,
    )


def matches(query: Query, document: Mapping[str, Any]) -> bool:
    """Whether a document answers a query."""
    if document.get("withdrawn") or document.get("database_specific", {}).get("severity") == Severity.INFO.osv:
        return False
    return any(_affects(query, affected) for affected in document.get("affected") or ())


def answer(source: Source, body: Json) -> dict[str, Any]:
    """The answer to ``POST /v1/query``: whole documents, by id. Raises UsageError."""
    found, token = _page(source, parse_query(body))
    return _listed([dict(document) for document in found], token)


def answer_batch(source: Source, body: Json) -> dict[str, Any]:
    """The answer to ``POST /v1/querybatch``: ids and when modified, one result a query. Raises UsageError."""
    queries = body.get("queries") if isinstance(body, Mapping) else None
    if not isinstance(queries, Sequence) or isinstance(queries, str):
        raise UsageError("a batch has a list of queries")
    if len(queries) > MOST_QUERIES:
        raise UsageError(f"a batch has at most {MOST_QUERIES} queries")
    results = []
    for query in [parse_query(item) for item in queries]:
        found, token = _page(source, query)
        short = [{"id": document["id"], "modified": document["modified"]} for document in found]
        results.append(_listed(short, token))
    return {"results": results}


def normalized(url: str) -> str:
    """A GIT package name as it is compared: host and path, without scheme, trailing slash and ``.git``."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    path = parts.path.rstrip("/").removesuffix(".git")
    return f"{parts.netloc.rpartition('@')[2].lower()}{path}"


class StoredSource:
    """The documents of a database, as far as the one who asks may see their repos."""

    def __init__(self, tx: Transaction, visible: Callable[[RepoRef], bool] = lambda _: True) -> None:
        self._tx = tx
        self._visible = visible

    def candidates(self, query: Query) -> Iterable[Mapping[str, Any]]:
        """See `Source`."""
        found = (item for item in self._advisories(query) if item.severity > Severity.INFO)
        return documents_of(
            self._tx, [item for item in found if item.withdrawn is None and self._visible(item.repo)]
        )

    def _advisories(self, query: Query) -> list[Advisory]:
        if query.commit is not None:
            return advisories.at_commit(self._tx, query.commit) if _SHA.fullmatch(query.commit) else []
        repo = self._repo(query)
        if repo is None:
            return []
        if query.version:
            return advisories.at_commit(self._tx, query.version.lower(), repo=repo)
        return advisories.of_repo(self._tx, repo, min_severity=Severity.LOW)

    def _repo(self, query: Query) -> RepoRef | None:
        if query.purl is not None:
            return self._by_name.get(_url_of(query.purl) or "")
        return self._by_name.get(normalized(query.name)) if query.name and query.ecosystem == ECOSYSTEM else None

    @cached_property
    def _by_name(self) -> dict[str, RepoRef]:
        return {normalized(repo.url): repo for repo in history.known_repos(self._tx)}


def _page(source: Source, query: Query) -> tuple[list[Mapping[str, Any]], str | None]:
    found = {made["id"]: made for made in source.candidates(query) if matches(query, made)}
    rest = [found[name] for name in sorted(found) if query.after is None or name > query.after]
    return rest[:PAGE], rest[PAGE - 1]["id"] if len(rest) > PAGE else None


def _listed(vulns: list[dict[str, Any]], token: str | None) -> dict[str, Any]:
    if not vulns:
        return {}
    return {"vulns": vulns} | ({"next_page_token": token} if token else {})


def _affects(query: Query, affected: Mapping[str, Any]) -> bool:
    if query.commit is not None:
        return query.commit in _commits(affected)
    if not _same_package(query, affected.get("package") or {}):
        return False
    return not query.version or query.version in _commits(affected) or query.version.lower() in _commits(affected)


def _commits(affected: Mapping[str, Any]) -> set[str]:
    named = {
        event[key]
        for span in affected.get("ranges") or ()
        for event in span.get("events") or ()
        for key in ("introduced", "last_affected")
        if key in event and event[key] != "0"
    }
    return named | set(affected.get("versions") or ())


def _same_package(query: Query, package: Mapping[str, Any]) -> bool:
    if query.purl is not None:
        return bool(package.get("purl")) and _comparable(_purl(package["purl"])) == _comparable(query.purl)
    if package.get("ecosystem") != query.ecosystem or not query.name:
        return False
    if query.ecosystem == ECOSYSTEM:
        return normalized(str(package.get("name"))) == normalized(query.name)
    return package.get("name") == query.name


def _comparable(purl: PackageURL) -> tuple[str | None, ...]:
    return purl.type, purl.namespace, purl.name, _url_of(purl)


def _url_of(purl: PackageURL) -> str | None:
    """The normalized URL of the repo that a purl of the Hub's type names."""
    if purl.type != PURL_TYPE:
        return None
    qualifiers = purl.qualifiers if isinstance(purl.qualifiers, Mapping) else {}
    endpoint = qualifiers.get("repository_url") or DEFAULT_IDENTITY
    return normalized(f"{endpoint.rstrip('/')}/{purl.namespace}/{purl.name}")


def _purl(text: str) -> PackageURL:
    try:
        return PackageURL.from_string(text)
    except ValueError as error:
        raise UsageError("this is not a package URL") from error


def _field(body: Mapping[str, Json], name: str) -> str | None:
    value = body.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise UsageError(f"{name} is a text of at most {_LONGEST} characters")
    return value
