"""Every repo that the database holds something of, as lists and as search results."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select, tuple_

from storage.columns import escape
from storage.database import Transaction
from storage.model import KnownRepo, RepoRef, RepoState, Severity
from storage.rows import REPO_COLUMNS, repo_of
from storage.tables import advisories, repos, revisions, watches
from storage.visibility import OPEN_TO_ALL

_HEX = frozenset("0123456789abcdef")

_newest = (
    select(revisions.c.id)
    .where(revisions.c.repo_id == repos.c.id, revisions.c.ref == repos.c.ref, revisions.c.fork.is_(None))
    .order_by(revisions.c.position.desc())
    .limit(1)
    .correlate(repos)
    .scalar_subquery()
)
_open = (
    select(func.count())
    .select_from(advisories)
    .where(
        advisories.c.repo_id == repos.c.id,
        advisories.c.open.is_(True),
        advisories.c.severity > int(Severity.INFO),
    )
    .correlate(repos)
    .scalar_subquery()
)
_SELECT: Select[Any] = (
    select(
        *REPO_COLUMNS,
        *(repos.c[name] for name in ("ref", "state", "canonical", "gated", "private", "public", "restricted")),
        watches.c.id.label("watch_id"),
        watches.c.paused,
        watches.c.checked_at,
        revisions.c.sha,
        revisions.c.position,
        revisions.c.observed_at,
        _open.label("open_advisories"),
    )
    .select_from(repos)
    .outerjoin(watches, watches.c.repo_id == repos.c.id)
    .outerjoin(revisions, revisions.c.id == _newest)
)


def repos_page(
    tx: Transaction,
    *,
    owner: str | None = None,
    text: str | None = None,
    state: RepoState | None = None,
    watched: bool | None = None,
    public_only: bool = False,
    after: tuple[str, str, str] | None = None,
    limit: int | None = None,
) -> list[KnownRepo]:
    """Repos by owner and name. ``text`` is a part of ``owner/name``, in any case.

    ``after``, the (owner, name, endpoint) of the last one seen, continues a list.
    """
    query = _SELECT
    if owner is not None:
        query = query.where(repos.c.owner == owner)
    if text is not None:
        shown = func.lower(repos.c.owner + "/" + repos.c.name)
        query = query.where(shown.contains(escape(text.lower()), autoescape=True))
    if state is not None:
        query = query.where(repos.c.state == state.value)
    if watched is not None:
        query = query.where(watches.c.id.is_not(None) if watched else watches.c.id.is_(None))
    if public_only:
        query = query.where(OPEN_TO_ALL)
    key = tuple_(repos.c.owner, repos.c.name, repos.c.endpoint)
    if after is not None:
        query = query.where(key > tuple_(*after))
    return [_known(row) for row in tx.execute(query.order_by(*key).limit(limit))]


def repo(tx: Transaction, wanted: RepoRef) -> KnownRepo | None:
    """One repo; None when this database never heard of it."""
    here = (repos.c.endpoint == wanted.endpoint, repos.c.owner == wanted.owner, repos.c.name == wanted.name)
    row = tx.execute(_SELECT.where(*here)).one_or_none()
    return None if row is None else _known(row)


def named(tx: Transaction, owner: str, name: str) -> list[RepoRef]:
    """The repos of this owner and name, under whatever identity."""
    query = select(*REPO_COLUMNS).where(repos.c.owner == owner, repos.c.name == name)
    return [repo_of(row) for row in tx.execute(query)]


def find_commits(
    tx: Transaction, prefix: str, *, limit: int, public_only: bool = False
) -> list[tuple[RepoRef, str]]:
    """The revisions whose sha begins so, as (repo, sha), by sha and repo; none for what is no hexadecimal."""
    if not prefix or not set(prefix) <= _HEX:
        return []
    query: Select[Any] = (
        select(*REPO_COLUMNS, revisions.c.sha)
        .join(repos, repos.c.id == revisions.c.repo_id)
        .where(_begins(revisions.c.sha, prefix))
        .distinct()
    )
    query = query.where(OPEN_TO_ALL) if public_only else query
    found = tx.execute(query.order_by(revisions.c.sha, *REPO_COLUMNS).limit(limit))
    return [(repo_of(row), row.sha) for row in found]


def _begins(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """A range that an index answers, which LIKE is not on both databases: 'g' is behind every hex digit."""
    return and_(column >= prefix, or_(column == prefix, column < prefix + "g"))


def _known(row: Row[Any]) -> KnownRepo:
    return KnownRepo(
        repo=repo_of(row),
        ref=row.ref,
        state=RepoState(row.state),
        canonical=row.canonical,
        gated=row.gated,
        private=row.private,
        public=row.public,
        restricted=row.restricted,
        watched=row.watch_id is not None,
        paused=bool(row.paused),
        checked_at=row.checked_at,
        head=row.sha,
        head_observed_at=row.observed_at,
        revisions=0 if row.position is None else row.position + 1,
        open_advisories=row.open_advisories,
    )
