"""Where an audit gets its advisories: a local database, an export folder, a server.

Each source answers the same two questions: which repos it holds, and what it knows of some of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from advisories.audit.match import counts, is_open, listed, mentioned
from advisories.audit.model import Knowledge
from advisories.client import Client, NotThere
from advisories.osv import ECOSYSTEM, purl
from advisories.publish import documents_of
from advisories.query import normalized
from storage import advisories, estimates, history, watches
from storage.database import Database, Transaction
from storage.errors import UsageError
from storage.model import DEFAULT_IDENTITY, RepoRef

_MOST_DOCUMENTS = 2_000_000
_DOCUMENT_BYTES = 8 << 20


class Source(Protocol):
    """Where advisories come from."""

    def repos(self) -> frozenset[str]:
        """The ids of the repos it holds, as far as it can list them."""
        ...

    def know(self, repos: Iterable[str]) -> dict[str, Knowledge]:
        """What it knows of these repos, by the id asked for; those it does not hold are left out."""
        ...


@dataclass(slots=True)
class LocalSource:
    """The local database; repos are those under ``identity``."""

    database: Database
    identity: str = DEFAULT_IDENTITY

    def repos(self) -> frozenset[str]:
        """See `Source`."""
        with self.database.snapshot() as tx:
            return frozenset(repo.id for repo in self._held(tx))

    def know(self, repos: Iterable[str]) -> dict[str, Knowledge]:
        """See `Source`."""
        with self.database.snapshot() as tx:
            held = {repo.id.lower(): repo for repo in self._held(tx)}
            wanted = {name: held[name.lower()] for name in repos if name.lower() in held}
            return {name: self._knowledge(tx, repo) for name, repo in wanted.items()}

    def _held(self, tx: Transaction) -> list[RepoRef]:
        watched = [watch.repo for watch in watches.list_all(tx)]
        return [
            repo for repo in dict.fromkeys([*history.known_repos(tx), *watched]) if repo.endpoint == self.identity
        ]

    def _knowledge(self, tx: Transaction, repo: RepoRef) -> Knowledge:
        head = history.head(tx, repo)
        watch = watches.get(tx, repo)
        read = [row.revision.sha for row in history.revisions(tx, repo, newest_first=False)] if head else []
        found = documents_of(tx, advisories.of_repo(tx, repo))
        estimate = estimates.of(tx, repo, head.revision.sha) if head else None
        facts = {"model_type": estimate.model_type, "architecture": estimate.architecture} if estimate else {}
        return Knowledge(
            repo=repo.id,
            documents=tuple(found),
            ref=watch.ref if watch else "main",
            head=head.revision.sha if head else None,
            read=tuple(read),
            ordered=True,
            facts={key: value for key, value in facts.items() if value},
        )


class ExportSource:
    """A folder in the OSV bulk layout (``hubwatch export``), or any folder of OSV documents.

    Raises UsageError when it holds none.
    """

    def __init__(self, folder: Path, identity: str = DEFAULT_IDENTITY) -> None:
        self._identity = identity
        by_repo: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for document in _documents(folder):
            for name in _packages(document):
                by_repo[name].append(document)
        self._by_repo = dict(by_repo)
        if not by_repo:
            raise UsageError(f"{folder} holds no advisories", help="name a folder that hubwatch export wrote")

    def repos(self) -> frozenset[str]:
        """See `Source`."""
        prefix = f"{normalized(self._identity)}/"
        return frozenset(name.removeprefix(prefix) for name in self._by_repo if name.startswith(prefix))

    def know(self, repos: Iterable[str]) -> dict[str, Knowledge]:
        """See `Source`."""
        return {
            name: from_documents(name, held)
            for name in repos
            if (held := self._by_lowered.get(normalized(f"{self._identity}/{name}").lower())) is not None
        }

    @cached_property
    def _by_lowered(self) -> dict[str, list[Mapping[str, Any]]]:
        return {name.lower(): held for name, held in self._by_repo.items()}


class ServerSource:
    """A hubwatch server: its OSV API for advisories, its REST interface for heads and revisions."""

    def __init__(self, client: Client, identity: str = DEFAULT_IDENTITY) -> None:
        self._client = client
        self._identity = identity

    def repos(self) -> frozenset[str]:
        """See `Source`. Empty where the server does not list its repos."""
        with contextlib.suppress(NotThere):
            return frozenset(str(item["repo"]) for item in self._client.repos() if "repo" in item)
        return frozenset()

    def know(self, repos: Iterable[str]) -> dict[str, Knowledge]:
        """See `Source`."""
        found = {}
        for name in repos:
            knowledge = self._knowledge(name)
            if knowledge is not None:
                found[name] = knowledge
        return found

    def _knowledge(self, name: str) -> Knowledge | None:
        repo = RepoRef.parse(name, endpoint=self._identity)
        documents = self._client.query(purl=purl(repo))
        try:
            about = self._client.repo(name)
            rows = list(self._client.estimates(name))[::-1]
        except NotThere:
            return from_documents(name, documents) if documents else None
        read = tuple(str(row.get("sha")) for row in rows)
        estimate = (rows[-1].get("estimate") if rows else None) or {}
        facts = {key: estimate.get(key) for key in ("model_type", "architecture") if estimate.get(key)}
        return Knowledge(
            repo=name,
            documents=tuple(documents),
            ref=str(about.get("ref") or "main"),
            head=read[-1] if read else None,
            read=read,
            ordered=True,
            facts=facts,
        )


def from_documents(name: str, documents: Iterable[Mapping[str, Any]]) -> Knowledge:
    """What the OSV documents of a repo alone say of it.

    The head is the last commit that the open advisories list, unknown when none is open. A commit without any
    change is named by no document, so that one which is not named may have been read all the same.
    """
    held = tuple(documents)
    # `info` documents list their own commit only; all others that are open list every read commit up to the head
    heads = {listed(item)[-1] for item in held if counts(item) and is_open(item) and listed(item)}
    head = heads.pop() if len(heads) == 1 else None
    read = frozenset().union(*map(mentioned, held))
    return Knowledge(
        repo=name, documents=held, head=head, read=tuple(sorted(read)), ordered=False, everything=False
    )


def _documents(folder: Path) -> Iterator[Mapping[str, Any]]:
    inner = folder / ECOSYSTEM
    place = inner if inner.is_dir() else folder
    try:
        with os.scandir(place) as entries:
            for count, entry in enumerate(entries):
                if count > _MOST_DOCUMENTS:
                    raise UsageError(f"{place} holds too many files", help="name a folder of advisories")
                if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                    document = _document(entry.path)
                    if document is not None:
                        yield document
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be read: {error.strerror}", help="name a folder that hubwatch export wrote"
        ) from error


def _document(path: str) -> Mapping[str, Any] | None:
    """An OSV document; None for what is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _DOCUMENT_BYTES:
                return None
            document = json.loads(file.read(_DOCUMENT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and isinstance(document.get("affected"), list) else None


def _packages(document: Mapping[str, Any]) -> set[str]:
    named = [item.get("package") for item in document["affected"] if isinstance(item, Mapping)]
    return {
        normalized(package["name"])
        for package in named
        if isinstance(package, Mapping)
        and package.get("ecosystem") == ECOSYSTEM
        and isinstance(package.get("name"), str)
    }
