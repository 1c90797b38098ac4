"""The OSV query API over what is published: what a request asks, what answers it, in which shape.

Withdrawn and `info` documents never answer. A commit is matched against ``versions``, which lists every
commit read at which an advisory is open, and against the events of ranges.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol
from urllib.parse import urlsplit

from packageurl import PackageURL

from advisories.osv import ECOSYSTEM, PURL_TYPE, timestamp
from advisories.publish import document_of, documents_of
from storage import advisories, catalog, visibility
from storage.database import Transaction
from storage.errors import UsageError
from storage.model import DEFAULT_IDENTITY, Json, RepoRef, Severity

PAGE = 500  # documents in one answer
MOST_QUERIES = 1000  # in one batch
_LONGEST = 1000  # characters of any one field
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

Document = Mapping[str, Any]


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
    """Where answers come from. Both kinds come by id, from behind ``query.after`` on."""

    def documents(self, query: Query) -> Iterable[Document]:
        """The documents that answer, whole."""
        ...

    def stamps(self, query: Query) -> Iterable[Document]:
        """The ``id`` and ``modified`` of the same documents."""
        ...

    def get(self, advisory_id: str) -> Document | None:
        """One document by id, also one that answers no query; None when there is none."""
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
    if commit and not _HEX.fullmatch(commit):
        raise UsageError("Invalid hash.")
    if after and not _ID.fullmatch(after):
        raise UsageError("Invalid page token.")
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


def matches(query: Query, document: Document) -> bool:
    """Whether a document answers a query."""
    if document.get("withdrawn") or document.get("database_specific", {}).get("severity") == Severity.INFO.osv:
        return False
    return any(_affects(query, affected) for affected in document.get("affected") or ())


def answer(source: Source, body: Json) -> dict[str, Any]:
    """The answer to ``POST /v1/query``: whole documents, by id. Raises UsageError."""
    return _page(source.documents(parse_query(body)))


def answer_batch(source: Source, body: Json) -> dict[str, Any]:
    """The answer to ``POST /v1/querybatch``: ids and when modified, one result a query. Raises UsageError."""
    queries = body.get("queries") if isinstance(body, Mapping) else None
    if not isinstance(queries, Sequence) or isinstance(queries, str):
        raise UsageError("a batch has a list of queries")
    if len(queries) > MOST_QUERIES:
        raise UsageError(f"a batch has at most {MOST_QUERIES} queries")
    return {"results": [_page(source.stamps(query)) for query in [parse_query(item) for item in queries]]}


def normalized(url: str) -> str:
    """A GIT package name as it is compared: host and path, without scheme, trailing slash and ``.git``.

    What cannot be a URL is compared as it is.
    """
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
    except ValueError:
        return url
    path = parts.path.rstrip("/").removesuffix(".git")
    return f"{parts.netloc.rpartition('@')[2].lower()}{path}"


class DocumentSource:
    """Documents at hand, of any ecosystem: read from an export folder, for instance."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_id = {made["id"]: made for made in sorted(documents, key=lambda made: str(made["id"]))}

    def documents(self, query: Query) -> Iterator[Document]:
        """See `Source`."""
        for name, made in self._by_id.items():
            if (query.after is None or name > query.after) and matches(query, made):
                yield made

    def stamps(self, query: Query) -> Iterator[Document]:
        """See `Source`."""
        return ({"id": made["id"], "modified": made["modified"]} for made in self.documents(query))

    def get(self, advisory_id: str) -> Document | None:
        """See `Source`."""
        return self._by_id.get(advisory_id)


class StoredSource:
    """The documents of a database; ``public_only`` leaves out what is not for everybody."""

    def __init__(self, tx: Transaction, *, public_only: bool = False) -> None:
        self._tx = tx
        self._public_only = public_only

    def documents(self, query: Query) -> Iterator[Document]:
        """See `Source`."""
        return documents_of(self._tx, advisories.by_ids(self._tx, self._ids(query)))

    def stamps(self, query: Query) -> Iterator[Document]:
        """See `Source`."""
        wanted = self._ids(query)
        found = advisories.stamps(self._tx, wanted)
        return ({"id": name, "modified": timestamp(found[name])} for name in wanted)

    def get(self, advisory_id: str) -> Document | None:
        """See `Source`."""
        advisory = advisories.get(self._tx, advisory_id)
        if advisory is None or (self._public_only and not visibility.open_to_all(self._tx, advisory.repo)):
            return None
        return document_of(self._tx, advisory_id)

    def _ids(self, query: Query) -> list[str]:
        """What answers, one more than a page holds at most."""
        repo = None if query.commit else self._repo(query)
        sha = query.commit or (query.version or "").lower()
        options: dict[str, Any] = {
            "min_severity": Severity.LOW,
            "public_only": self._public_only,
            "after": query.after,
            "limit": PAGE + 1,
        }
        if query.commit is None and repo is None:
            return []
        if not sha and repo is not None:
            return advisories.ids_of_package(self._tx, repo, **options)
        return advisories.ids_at_commit(self._tx, sha, repo=repo, **options) if _SHA.fullmatch(sha) else []

    def _repo(self, query: Query) -> RepoRef | None:
        if query.purl is not None:
            wanted = _url_of(query.purl)
        else:
            wanted = normalized(query.name) if query.name and query.ecosystem == ECOSYSTEM else None
        *_, owner, name = ["", "", *(wanted or "").split("/")]
        return next(
            (repo for repo in catalog.named(self._tx, owner, name) if normalized(repo.url) == wanted), None
        )


def _page(found: Iterable[Document]) -> dict[str, Any]:
    """The first of what was found, and where to go on; an empty object where nothing was."""
    page = [dict(made) for made in islice(found, PAGE + 1)]
    if not page:
        return {}
    token = {"next_page_token": page[PAGE - 1]["id"]} if len(page) > PAGE else {}
    return {"vulns": page[:PAGE]} | token


def _affects(query: Query, affected: Document) -> bool:
    if query.commit is not None:
        return query.commit in _commits(affected)
    if not _same_package(query, affected.get("package") or {}):
        return False
    return not query.version or query.version in _commits(affected) or query.version.lower() in _commits(affected)


def _commits(affected: Document) -> set[str]:
    named = {
        event[key]
        for span in affected.get("ranges") or ()
        for event in span.get("events") or ()
        for key in ("introduced", "last_affected")
        if key in event and event[key] != "0"
    }
    return named | set(affected.get("versions") or ())


def _same_package(query: Query, package: Document) -> bool:
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
    if not value.isprintable():
        raise UsageError(f"{name} holds characters that no name has")
    return value
