"""Where revisions stand to each other: the current chain of a ref, and what fell off it when it was rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, case, select, update

from storage.database import Transaction
from storage.model import RecordedRevision, Revision, Span
from storage.rows import chunks, followed_ref
from storage.tables import revisions, spans

NONE_SHARED = -1
"""The ``fork`` of a revision that shares nothing with the current chain."""

OPEN_END = 2**31 - 1
"""The ``until`` of a span that nothing has ended."""

_PLACE_COLUMNS = (
    revisions.c.id,
    revisions.c.sha,
    revisions.c.position,
    revisions.c.fork,
    revisions.c.predecessor_id,
)


def recorded(row: Row[Any]) -> RecordedRevision:
    """The model of a row of ``revisions``."""
    return RecordedRevision(
        revision=Revision(
            sha=row.sha,
            committed_at=row.committed_at,
            author=row.author,
            title=row.title,
            parents=tuple(row.parents),
            parents_unknown=row.parents_unknown,
        ),
        position=row.position,
        observed_at=row.observed_at,
        backfill=row.backfill,
        manifest_digest=row.manifest_digest,
    )


def current(repo_id: int, ref: str) -> Select[Any]:
    """The revisions of the current chain of a ref."""
    return select(revisions).where(
        revisions.c.repo_id == repo_id, revisions.c.ref == ref, revisions.c.fork.is_(None)
    )


def head_row(tx: Transaction, repo_id: int, ref: str) -> Row[Any] | None:
    """The newest revision of the current chain."""
    return tx.execute(current(repo_id, ref).order_by(revisions.c.position.desc()).limit(1)).one_or_none()


def find_row(tx: Transaction, repo_id: int, sha: str, ref: str | None = None) -> Row[Any] | None:
    """A revision by sha: under ``ref``, else under the followed one, else under any."""
    query = select(revisions).where(revisions.c.repo_id == repo_id, revisions.c.sha == sha)
    if ref is not None:
        return tx.execute(query.where(revisions.c.ref == ref)).one_or_none()
    return tx.execute(query.order_by(*preferred(tx, repo_id)).limit(1)).one_or_none()


def preferred(tx: Transaction, repo_id: int) -> tuple[Any, ...]:
    """The order in which one sha's rows are preferred: the followed ref, then what is current."""
    followed = revisions.c.ref == followed_ref(tx, repo_id)
    return case((followed, 0), else_=1), case((revisions.c.fork.is_(None), 0), else_=1), revisions.c.id


def row_ids(tx: Transaction, repo_id: int, shas: Iterable[str]) -> dict[int, str]:
    """The row of each sha that is known, as id to sha."""
    best: dict[str, int] = {}
    for chunk in chunks(shas):
        query = select(revisions.c.id, revisions.c.sha).where(
            revisions.c.repo_id == repo_id, revisions.c.sha.in_(chunk)
        )
        for row in tx.execute(query.order_by(*preferred(tx, repo_id))):
            best.setdefault(row.sha, row.id)
    return {row_id: sha for sha, row_id in best.items()}


# --- ancestry ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    sha: str
    position: int
    fork: int | None
    predecessor: int | None


def window(span: Span, places: Mapping[str, _Place]) -> tuple[int | None, int]:
    """The positions of the current chain that a span covers: first, and until (exclusive).

    First is None where the span began off the chain. An end that fell off counts as its fork.
    """
    first: int | None = 0
    if span.introduced != "0":
        start = places.get(span.introduced)
        first = start.position if start and start.fork is None else None
    if span.open:
        return first, OPEN_END
    end = places.get(span.fixed or span.last_affected or "")
    if end is None:  # not read: only the introducing revision is certain
        return first, (first or 0) + 1
    if end.fork is not None:
        return first, end.fork + 1
    return first, end.position + (0 if span.fixed else 1)


def places_of(tx: Transaction, repo_id: int, ref: str, shas: Iterable[str]) -> dict[str, _Place]:
    """Where these revisions stand; unknown ones are left out."""
    here = (revisions.c.repo_id == repo_id, revisions.c.ref == ref)
    return {
        row.sha: _Place(row.sha, row.position, row.fork, row.predecessor_id)
        for chunk in chunks(shas)
        for row in tx.execute(select(*_PLACE_COLUMNS).where(*here, revisions.c.sha.in_(chunk)))
    }


class Lineage:
    """All revisions read of one ref, for questions about ancestry. Loaded once, pure from there on."""

    def __init__(self, tx: Transaction, repo_id: int, ref: str) -> None:
        query = select(*_PLACE_COLUMNS).where(revisions.c.repo_id == repo_id, revisions.c.ref == ref)
        self._places = {
            row.id: _Place(row.sha, row.position, row.fork, row.predecessor_id)
            for row in tx.execute(query.order_by(revisions.c.position, revisions.c.id))
        }
        self._by_sha = {place.sha: place for place in self._places.values()}
        self.chain = [place.sha for place in self._places.values() if place.fork is None]
        self.fallen = {row_id: place for row_id, place in self._places.items() if place.fork is not None}

    def fork_of(self, row_id: int) -> int:
        """The position of the last revision of the current chain that a fallen one descends from."""
        place: _Place | None = self._places[row_id]
        while place is not None:
            if place.fork is None:
                return place.position
            place = self._places.get(place.predecessor) if place.predecessor is not None else None
        return NONE_SHARED

    def window(self, span: Span) -> tuple[int | None, int]:
        """The positions of the current chain that a span covers, see `window`."""
        return window(span, self._by_sha)

    def covers_fallen(self, span: Span, sha: str) -> bool:
        """Whether a span was open at a revision that fell off the chain."""
        place = self._by_sha[sha]
        return self._descends(place, span.introduced) and not self._past_end(place, span)

    def covered(self, span: Span) -> list[str]:
        """Every revision read at which a span is open, oldest first."""
        first, until = self.window(span)
        on_chain = self.chain[first:until] if first is not None else []
        return on_chain + [place.sha for place in self.fallen.values() if self.covers_fallen(span, place.sha)]

    def _past_end(self, place: _Place, span: Span) -> bool:
        if span.fixed:
            return self._descends(place, span.fixed)
        if span.last_affected:
            return place.sha != span.last_affected and self._descends(place, span.last_affected)
        return False

    def _descends(self, place: _Place, ancestor: str) -> bool:
        """Whether ``place`` is the ancestor or comes after it."""
        if ancestor == "0":
            return True
        other = self._by_sha.get(ancestor)
        if other is None:
            return False
        step: _Place | None = place
        while step is not None and step.fork is not None:
            if step is other:
                return True
            step = self._places.get(step.predecessor) if step.predecessor is not None else None
        return step is not None and other.fork is None and other.position <= step.position


def settle(tx: Transaction, repo_id: int, ref: str) -> None:
    """Work out forks and span windows anew, after the chain itself has changed."""
    lineage = Lineage(tx, repo_id, ref)
    moved = [
        (row_id, fork)
        for row_id, place in lineage.fallen.items()
        if (fork := lineage.fork_of(row_id)) != place.fork
    ]
    for row_id, fork in moved:
        tx.execute(update(revisions).where(revisions.c.id == row_id).values(fork=fork))
    if moved:
        lineage = Lineage(tx, repo_id, ref)
    for row in tx.execute(select(spans).where(spans.c.repo_id == repo_id, spans.c.ref == ref)).all():
        first, until = lineage.window(span_of(row))
        if (first, until) != (row.first, row.until):
            same = (spans.c.advisory_id == row.advisory_id, spans.c.ordinal == row.ordinal)
            tx.execute(update(spans).where(*same).values(first=first, until=until))


def span_of(row: Row[Any]) -> Span:
    """The model of a row of ``spans``."""
    return Span(introduced=row.introduced, fixed=row.fixed, last_affected=row.last_affected)
