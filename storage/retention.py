"""What may be forgotten, and forgetting it: contents that nothing needs any more, and old logs.

Never forgotten: advisories, spans, events, revisions, changes, trees, estimates, notices. A **content** (a
blob, a weight header, parts of a pickle) is needed while it is current: in the tree at the head of any ref, or
as what stands in for a file there that cannot be read. It is also needed in the trees on either side of a
revision whose advisory is open. Any other content was current until some revision replaced it; that is when it
**retired**, and how long ago that is decides.

A content that is in no tree at all may be one that a check has just read and not landed yet. Such are left
alone here (see `orphans`).

Everything is done in short transactions, beside a running daemon, and can be stopped and begun again anywhere.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from sqlalchemy import Row, delete, func, select

from storage.columns import EPOCH
from storage.database import Database, Transaction
from storage.model import Severity
from storage.tables import (
    advisories,
    blobs,
    file_changes,
    gaps,
    repos,
    revisions,
    watches,
)

BATCH: Final = 500
"""Rows forgotten by one transaction."""
_HOUR: Final = timedelta(hours=1)
_HOURS: Final = 20  # bits: until the year 2089
_NEEDED: Final = (1 << _HOURS) - 1
_NAME_BITS: Final = 64 - _HOURS


@dataclass(frozen=True, slots=True)
class Contents:
    """How many contents, and their bytes as kept (compressed)."""

    count: int = 0
    bytes: int = 0

    def __add__(self, other: Contents) -> Contents:
        """Both together."""
        return Contents(self.count + other.count, self.bytes + other.bytes)


@dataclass(slots=True)
class Retired:
    """When each content that any tree names ceased to be current, in eight bytes a content.

    A content goes by a 44-bit hash of its key: two that share one are kept as long as the longer kept of them.
    """

    newest_revision: int = 0
    _packed: array[int] = field(default_factory=lambda: array("Q"))
    _sorted: bool = True

    def needed(self, key: str) -> None:
        """Say that a content is needed."""
        self._add(key, _NEEDED)

    def until(self, key: str, when: datetime) -> None:
        """Say that a content was current until a time."""
        self._add(key, _hours(when))

    def when(self, key: str) -> int | None:
        """The hour since 1970 at which a content retired; None for one that is needed or in no tree."""
        if not self._sorted:
            self._packed = array("Q", sorted(self._packed))
            self._sorted = True
        name = _name(key)
        place = bisect_right(self._packed, (name << _HOURS) | _NEEDED) - 1
        if place < 0 or self._packed[place] >> _HOURS != name:
            return None
        hour = self._packed[place] & _NEEDED
        return None if hour == _NEEDED else hour

    def known(self, key: str) -> bool:
        """Whether any tree, or a gap, names a content."""
        if not self._sorted:
            self.when(key)
        low = _name(key) << _HOURS
        place = bisect_left(self._packed, low)
        return place < len(self._packed) and self._packed[place] >> _HOURS == low >> _HOURS

    def _add(self, key: str, hour: int) -> None:
        self._packed.append((_name(key) << _HOURS) | hour)
        self._sorted = False


def content_of(key: str) -> str:
    """The content that a key of ``blobs`` is about: a header and parts go with the file they are of."""
    if key.startswith("header:"):
        return key.removeprefix("header:")
    if key.startswith("parts"):
        return key.split(":", 2)[2] if key.count(":") >= 2 else key
    return key


def retired(db: Database, *, unwatched: bool = False) -> Retired:
    """Read when every content retired, repo by repo.

    With ``unwatched`` nothing of a repo that is watched no longer is needed; its contents retired when its last
    revision was seen.
    """
    found = Retired()
    with db.snapshot() as tx:
        found.newest_revision = tx.scalar(select(func.max(revisions.c.id))) or 0
        rows = tx.execute(
            select(repos.c.id, watches.c.id).outerjoin(watches, watches.c.repo_id == repos.c.id)
        ).all()
    for repo_id, watch_id in rows:
        with db.snapshot() as tx:
            _read_repo(tx, repo_id, found, needed=not (unwatched and watch_id is None))
    return found


def _read_repo(tx: Transaction, repo_id: int, found: Retired, *, needed: bool) -> None:
    refs = tx.scalars(select(revisions.c.ref).where(revisions.c.repo_id == repo_id).distinct()).all()
    for ref in refs:
        _read_ref(tx, repo_id, ref, found, needed=needed)


@dataclass(frozen=True, slots=True)
class _Chain:
    """The current chain of a ref. ``times`` never go back, so that what is kept is one stretch at its end."""

    times: tuple[datetime, ...]
    evidence: tuple[int, ...]  # positions whose tree, and the one before, show what an open advisory warns of

    def shows(self, first: int, until: int) -> bool:
        """Whether a file that is there from ``first``, replaced at ``until``, is in such a tree."""
        place = bisect_left(self.evidence, first)
        return place < len(self.evidence) and self.evidence[place] <= until


def _read_ref(tx: Transaction, repo_id: int, ref: str, found: Retired, *, needed: bool) -> None:
    here = (revisions.c.repo_id == repo_id, revisions.c.ref == ref)
    query = select(
        revisions.c.id,
        revisions.c.sha,
        revisions.c.position,
        revisions.c.fork,
        revisions.c.observed_at,
        revisions.c.committed_at,
        revisions.c.backfill,
    ).where(*here)
    rows = tx.execute(query.order_by(revisions.c.position)).all()
    current = [row for row in rows if row.fork is None]
    open_at = set(
        tx.scalars(
            select(advisories.c.introduced).where(
                advisories.c.repo_id == repo_id,
                advisories.c.ref == ref,
                advisories.c.open.is_(True),
                advisories.c.severity > int(Severity.INFO),
            )
        )
    )
    chain = _Chain(
        times=tuple(accumulate(map(_seen, current), max)),
        evidence=tuple(row.position for row in current if needed and row.sha in open_at),
    )
    fallen = [row for row in rows if row.fork is not None]
    _read_chain(tx, repo_id, ref, chain, found, needed=needed)
    _read_gaps(tx, repo_id, ref, chain, found, needed=needed)
    if fallen:
        # Trees of what fell off are mixed of both chains: as long as the newest of it is kept, all of it is.
        last = max(_seen(row) for row in rows)
        standing = needed and bool(open_at & {row.sha for row in fallen})
        fell = select(file_changes.c.blob_id, file_changes.c.lfs_sha256).join(
            revisions, revisions.c.id == file_changes.c.revision_id
        )
        for row in _streamed(tx, fell.where(*here, revisions.c.fork.is_not(None))):
            if row.blob_id is not None:
                found.needed(_key(row)) if standing else found.until(_key(row), last)


def _read_chain(tx: Transaction, repo_id: int, ref: str, chain: _Chain, found: Retired, *, needed: bool) -> None:
    replaced = func.lead(revisions.c.position).over(
        partition_by=file_changes.c.path_key, order_by=revisions.c.position
    )
    query = (
        select(file_changes.c.blob_id, file_changes.c.lfs_sha256, revisions.c.position, replaced.label("replaced"))
        .join(revisions, revisions.c.id == file_changes.c.revision_id)
        .where(revisions.c.repo_id == repo_id, revisions.c.ref == ref, revisions.c.fork.is_(None))
    )
    for row in _streamed(tx, query):
        if row.blob_id is None:
            continue
        if row.replaced is None:
            found.needed(_key(row)) if needed else found.until(_key(row), chain.times[-1])
        elif chain.shows(row.position, row.replaced):
            found.needed(_key(row))
        else:
            found.until(_key(row), chain.times[row.replaced])


def _read_gaps(tx: Transaction, repo_id: int, ref: str, chain: _Chain, found: Retired, *, needed: bool) -> None:
    """What stands in for an unreadable file is current as long as its revision is the newest."""
    query = (
        select(gaps.c.last_readable, revisions.c.position)
        .join(revisions, revisions.c.id == gaps.c.revision_id)
        .where(
            revisions.c.repo_id == repo_id,
            revisions.c.ref == ref,
            revisions.c.fork.is_(None),
            gaps.c.last_readable.is_not(None),
        )
    )
    last = len(chain.times) - 1
    for row in _streamed(tx, query):
        place = row.position
        if needed and (place == last or chain.shows(place, place + 1)):
            found.needed(row.last_readable)
        else:
            found.until(row.last_readable, chain.times[min(place + 1, last)])


def _streamed(tx: Transaction, query: Any) -> Iterator[Row[Any]]:
    return iter(tx.execute(query.execution_options(yield_per=2000)))


def _seen(row: Row[*tuple[Any, ...]]) -> datetime:
    """When a revision came: for one read as backfill its author's word, as far as it is not in our future."""
    seen: datetime = min(row.committed_at, row.observed_at) if row.backfill else row.observed_at
    return seen


def _key(row: Row[Any]) -> str:
    return f"sha256:{row.lfs_sha256}" if row.lfs_sha256 else f"git:{row.blob_id}"


def _name(key: str) -> int:
    hashed = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(hashed, "big") >> (64 - _NAME_BITS)


def _hours(when: datetime) -> int:
    return min(max((when - EPOCH) // _HOUR, 0), _NEEDED - 1)


# --- contents ------------------------------------------------------------------------------------


def forgettable(db: Database, known: Retired, before: datetime) -> Contents:
    """What `forget` would forget."""
    sizes = (size for _, size in _unneeded(db, known, _hours(before)))
    return sum((Contents(1, size) for size in sizes), Contents())


def forget(db: Database, known: Retired, before: datetime) -> Iterator[Contents]:
    """Forget the contents that retired before a time; gives what each transaction forgot."""
    limit = _hours(before)
    for keys in _batches(key for key, _ in _unneeded(db, known, limit)):
        with db.transaction() as tx:
            doomed = set(keys) - _named_since(tx, known, keys)
            yield _delete(tx, doomed)


def oldest(db: Database, known: Retired, excess: int) -> datetime | None:
    """The time before which so many bytes of contents retired; None when there is nothing to forget.

    Where there is less than ``excess`` it is the time before which all of it did.
    """
    by_hour: dict[int, int] = {}
    for key, size in _unneeded(db, known, _NEEDED - 1):
        hour = known.when(content_of(key)) or 0
        by_hour[hour] = by_hour.get(hour, 0) + size
    total, last = 0, None
    for last in sorted(by_hour):
        total += by_hour[last]
        if total >= excess:
            break
    return None if last is None else EPOCH + last * _HOUR


def _unneeded(db: Database, known: Retired, limit: int) -> Iterator[tuple[str, int]]:
    """The keys whose content retired by an hour, with the bytes kept."""
    for key, size in _all(db):
        hour = known.when(content_of(key))
        if hour is not None and hour <= limit:
            yield key, size


def _all(db: Database) -> Iterator[tuple[str, int]]:
    """Every key and the bytes kept under it, in short transactions."""
    size = func.length(blobs.c.data) if db.is_sqlite else func.octet_length(blobs.c.data)
    last = ""
    while True:
        with db.snapshot() as tx:
            query = select(blobs.c.key, size).where(blobs.c.key > last).order_by(blobs.c.key).limit(BATCH * 4)
            rows = tx.execute(query).all()
        yield from ((row[0], row[1]) for row in rows)
        if not rows:
            return
        last = rows[-1][0]


def _named_since(tx: Transaction, known: Retired, keys: Iterable[str]) -> set[str]:
    """Those of the keys that a revision names which landed after `retired` was read."""
    query = select(file_changes.c.blob_id, file_changes.c.lfs_sha256).where(
        file_changes.c.revision_id > known.newest_revision, file_changes.c.blob_id.is_not(None)
    )
    named = {_key(row) for row in _streamed(tx, query)}
    return {key for key in keys if content_of(key) in named}


def orphans(db: Database, known: Retired, *, now: datetime, dry_run: bool = False) -> Contents | None:
    """Forget contents that no tree names: of checks that died, and of other repos that a card named.

    They are read again when they are needed. None while a check is under way, which may have read some.
    """
    lost = [key for key, _ in _all(db) if not known.known(content_of(key))]
    total = Contents()
    for keys in _batches(lost):
        with db.transaction() as tx:
            if not db.is_sqlite:
                tx.exec_driver_sql("LOCK TABLE watches IN SHARE ROW EXCLUSIVE MODE")  # no check begins meanwhile
            if tx.scalar(select(watches.c.id).where(watches.c.lease_until > now).limit(1)) is not None:
                return None
            doomed = set(keys) - _named_since(tx, known, keys)
            total += _measure(tx, doomed) if dry_run else _delete(tx, doomed)
    return total


def _delete(tx: Transaction, keys: Iterable[str]) -> Contents:
    doomed = sorted(keys)
    gone = _measure(tx, doomed)
    tx.execute(delete(blobs).where(blobs.c.key.in_(doomed)))
    return gone


def _measure(tx: Transaction, keys: Iterable[str]) -> Contents:
    length = func.length if tx.dialect.name == "sqlite" else func.octet_length
    query = select(func.count(), func.sum(length(blobs.c.data))).where(blobs.c.key.in_(sorted(keys)))
    count, size = tx.execute(query).one()
    return Contents(count, int(size or 0))


def _batches(keys: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
