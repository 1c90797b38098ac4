"""Stored advisories as OSV documents: the one place that joins an advisory with the commits it is open at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import pydantic_core

from advisories.osv import document, status, summary
from storage import advisories
from storage.database import Transaction
from storage.model import Advisory, RepoRef, Severity

_BATCH = 500  # advisories whose versions are worked out at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """An advisory in a line."""

    id: str
    severity: str
    state: str
    summary: str
    repo: RepoRef
    published: datetime


def documents(
    tx: Transaction,
    *,
    repo: RepoRef | None = None,
    owner: str | None = None,
    min_severity: Severity | None = None,
    cls: str | None = None,
    state: str = "all",
    limit: int | None = None,
    after: str | None = None,
) -> list[dict[str, Any]]:
    """The OSV documents that fit all that is given, newest first; ``after``, an id, goes on behind it."""
    found = advisories.search(
        tx, repo=repo, owner=owner, min_severity=min_severity, cls=cls, state=state, limit=limit, after=after
    )
    return list(documents_of(tx, found))


def document_of(tx: Transaction, advisory_id: str) -> dict[str, Any] | None:
    """One OSV document; None when there is no such advisory."""
    advisory = advisories.get(tx, advisory_id)
    return None if advisory is None else next(documents_of(tx, [advisory]))


def documents_of(tx: Transaction, found: Iterable[Advisory]) -> Iterator[dict[str, Any]]:
    """The OSV documents of these advisories, in their order.

    ``versions`` is every read commit at which an advisory is open, oldest first; `info` lists only its own
    commit, and a state of the repo none.
    """
    rest = iter(found)
    while batch := list(islice(rest, _BATCH)):
        versions = advisories.versions(tx, batch)
        since = advisories.listed_since(tx, batch)
        for advisory in batch:
            yield _document(advisory, versions.get(advisory.id, ()), since.get(advisory.id))


def newest(
    tx: Transaction, *, limit: int, repo: RepoRef | None = None, public_only: bool = False
) -> list[Headline]:
    """The newest advisories above `info`, in a line each."""
    return [
        Headline(
            id=advisory.id,
            severity=advisory.severity.label,
            state=status(advisory),
            summary=summary(advisory),
            repo=advisory.repo,
            published=advisory.published,
        )
        for advisory in advisories.search(
            tx, repo=repo, min_severity=Severity.LOW, public_only=public_only, limit=limit
        )
    ]


def state_of(made: Mapping[str, Any]) -> str:
    """Where a document's advisory stands: ``open``, ``closed``, ``ended`` or ``withdrawn``."""
    return str(made["database_specific"]["status"])


def to_json(made: Mapping[str, Any]) -> str:
    """A document as it is served and written: two spaces deep, the same text each time."""
    return pydantic_core.to_json(made, indent=2).decode("utf-8") + "\n"  # json writes indented text slowly


def _document(advisory: Advisory, versions: Sequence[str], since: datetime | None) -> dict[str, Any]:
    if advisory.severity is Severity.INFO:
        own = [advisory.introduced] if advisory.introduced in versions else []
        return document(advisory, versions=own)
    return document(advisory, versions=versions, versions_changed_at=since)
