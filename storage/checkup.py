"""Whether a database is whole: what its own checks say, and whether contents are there and what they are named."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select

from storage import blobs as contents
from storage.database import Database, Transaction
from storage.errors import StorageError
from storage.model import Gap, Manifest, RepoRef
from storage.rows import REPO_COLUMNS, repo_of
from storage.tables import blobs, gaps, head_files, outbox, repos, revisions, subscriptions, watches
from storage.trees import file_entry

_GIT: Final = "git:"
_SHA256: Final = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadOf:
    """The newest revision of a watched repo: its tree, and what could not be read of it."""

    repo: RepoRef
    manifest: Manifest
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who holds a watch, until when."""

    repo: RepoRef
    holder: str
    until: datetime


def broken_pages(db: Database) -> list[str]:
    """What SQLite finds wrong with its file; nothing on PostgreSQL, which checks its pages itself."""
    if not db.is_sqlite:
        return []
    with db.snapshot() as tx:
        found = [str(row[0]) for row in tx.exec_driver_sql("PRAGMA quick_check(5)")]
    return [] if found == ["ok"] else found


def journal_mode(db: Database) -> str:
    """How SQLite writes: ``wal`` lets others read meanwhile."""
    with db.snapshot() as tx:
        return str(tx.exec_driver_sql("PRAGMA journal_mode").scalar_one())


def dangling(db: Database) -> list[str]:
    """The tables with rows that point to nothing; PostgreSQL does not let it come to that."""
    if not db.is_sqlite:
        return []
    with db.snapshot() as tx:
        return sorted({str(row[0]) for row in tx.exec_driver_sql("PRAGMA foreign_key_check")})


def server(db: Database) -> tuple[int, str]:
    """A PostgreSQL server's version (160002 is 16.2), and the encoding of the database."""
    with db.snapshot() as tx:
        version = int(tx.exec_driver_sql("SHOW server_version_num").scalar_one())
        return version, str(tx.exec_driver_sql("SHOW server_encoding").scalar_one())


def heads(db: Database, *, limit: int | None = None) -> Iterator[HeadOf]:
    """The heads of watched repos, the last checked first."""
    with db.snapshot() as tx:
        query = (
            select(watches.c.repo_id, repos.c.ref, *REPO_COLUMNS)
            .join(repos, repos.c.id == watches.c.repo_id)
            .order_by(watches.c.checked_at.desc(), watches.c.id)
            .limit(limit)
        )
        rows = tx.execute(query).all()
    for row in rows:
        with db.snapshot() as tx:
            yield _head(tx, row.repo_id, row.ref, repo_of(row))


def _head(tx: Transaction, repo_id: int, ref: str, repo: RepoRef) -> HeadOf:
    here = select(head_files).where(head_files.c.repo_id == repo_id, head_files.c.ref == ref)
    newest = (
        select(revisions.c.id)
        .where(revisions.c.repo_id == repo_id, revisions.c.ref == ref, revisions.c.fork.is_(None))
        .order_by(revisions.c.position.desc())
        .limit(1)
        .scalar_subquery()
    )
    return HeadOf(
        repo=repo,
        manifest=Manifest(files={row.path: file_entry(row) for row in tx.execute(here)}),
        gaps=tuple(
            Gap(path=row.path, reason=row.reason, detail=row.detail, last_readable=row.last_readable)
            for row in tx.execute(select(gaps).where(gaps.c.revision_id == newest))
        ),
    )


def without(tx: Transaction, keys: Mapping[str, str]) -> list[str]:
    """The paths, of keys to paths, of which the content is not here."""
    return sorted({keys[key] for key in contents.missing(tx, keys)})


def content_keys(db: Database, *, sample: int | None, begin: str = "") -> list[str]:
    """Keys of contents: all, or so many of them from a place on, round to the first."""
    with db.snapshot() as tx:
        query = select(blobs.c.key).order_by(blobs.c.key)
        if sample is None:
            return list(tx.scalars(query))
        found = list(tx.scalars(query.where(blobs.c.key >= begin).limit(sample)))
        return found + list(tx.scalars(query.where(blobs.c.key < begin).limit(sample - len(found))))


def wrong_contents(db: Database, keys: Iterable[str]) -> Iterator[str]:
    """Those of the keys whose content is not what the key says, or cannot be unpacked.

    Headers and parts are named for the file they are of: only that they can be unpacked is looked at.
    """
    for key in keys:
        try:
            with db.snapshot() as tx:
                data = contents.get(tx, key)
        except StorageError as error:
            if error.retryable:
                raise
            yield key
            continue
        except zlib.error:
            yield key
            continue
        if data is not None and not _is_named(key, data):
            yield key


def _is_named(key: str, data: bytes) -> bool:
    if key.startswith(_GIT):
        name = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        return key == _GIT + name
    if key.startswith(_SHA256):
        return key == _SHA256 + hashlib.sha256(data).hexdigest()
    return True


def leases(tx: Transaction) -> list[Lease]:
    """Every watch that somebody holds, or held last."""
    query = (
        select(watches.c.lease_holder, watches.c.lease_until, *REPO_COLUMNS)
        .join(repos, repos.c.id == watches.c.repo_id)
        .where(watches.c.lease_holder.is_not(None))
    )
    return [
        Lease(repo=repo_of(row), holder=row.lease_holder, until=row.lease_until)
        for row in tx.execute(query)
        if row.lease_until is not None
    ]


def unsent(tx: Transaction, before: datetime) -> int:
    """How many outbox items were written before a time and not yet handed on."""
    query = select(func.count()).where(outbox.c.done_at.is_(None), outbox.c.created_at < before)
    return tx.scalar(query) or 0


def addresses(tx: Transaction) -> list[str]:
    """The kinds of address (``https``, ``mailto``) that active subscriptions have."""
    urls = tx.scalars(select(subscriptions.c.url).where(subscriptions.c.disabled_at.is_(None)))
    return sorted({url.partition(":")[0].lower() for url in urls})
