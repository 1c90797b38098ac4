"""Repos and owners under watch: what is followed, how, and when it is due.

What a person chooses (pause, interval, visibility) and what a check learns are written by different
functions, so that a check which began before ``hubwatch watch pause`` does not undo it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any

from sqlalchemy import Row, delete, func, insert, or_, select, update

from storage.database import Transaction
from storage.errors import NotFound, UsageError
from storage.model import DEFAULT_IDENTITY, OwnerWatch, RepoRef, RepoState, Urgency, Watch
from storage.rows import REPO_COLUMNS, ensure_repo, find_repo, repo_of
from storage.tables import owner_watches, repos, watches
from storage.visibility import OPEN_TO_ALL

_SELECT = select(
    watches,
    *REPO_COLUMNS,
    repos.c.ref,
    repos.c.hub_id,
    repos.c.canonical,
    repos.c.created_at.label("repo_created_at"),
    repos.c.state,
    repos.c.gated,
    repos.c.private,
    repos.c.public,
    repos.c.restricted,
    repos.c.downloads,
).join(repos, repos.c.id == watches.c.repo_id)


def add(
    tx: Transaction,
    repo: RepoRef,
    *,
    now: datetime,
    ref: str = "main",
    every: timedelta | None = None,
    since: datetime | None = None,
    from_head: bool = False,
    public: bool = False,
    restricted: bool = False,
) -> Watch:
    """Put a repo under watch, due at once. History kept from an earlier watch is taken up again.

    ``restricted`` says that it can be read only with a token; what an earlier watch knew of that stays.

    Raises UsageError when the repo is already watched.
    """
    repo_id = ensure_repo(tx, repo, ref)
    if tx.scalar(select(watches.c.id).where(watches.c.repo_id == repo_id)) is not None:
        raise UsageError(
            f"{repo.id} is already watched", help=f"to change how: hubwatch watch remove {repo.id}, then add"
        )
    tx.execute(update(repos).where(repos.c.id == repo_id).values(ref=ref, public=public, state=RepoState.OK.value))
    if restricted:
        tx.execute(update(repos).where(repos.c.id == repo_id).values(restricted=True))
    tx.execute(
        insert(watches).values(
            repo_id=repo_id,
            every=every,
            since=since,
            from_head=from_head,
            paused=False,
            created_at=now,
            next_check_at=now,
            errors=0,
            missing_count=0,
            urgency=Urgency.MOVING.value,
        )
    )
    return require(tx, repo)


def get(tx: Transaction, repo: RepoRef) -> Watch | None:
    """The watch of a repo; None when it is not watched."""
    repo_id = find_repo(tx, repo)
    row = tx.execute(_SELECT.where(watches.c.repo_id == repo_id)).one_or_none() if repo_id else None
    return _watch(row) if row else None


def require(tx: Transaction, repo: RepoRef) -> Watch:
    """The watch of a repo; raises NotFound when it is not watched."""
    watch = get(tx, repo)
    if watch is None:
        raise NotFound(f"{repo.id} is not watched", help=f"run: hubwatch watch add {repo.id}")
    return watch


def list_all(tx: Transaction, *, owner: str | None = None, public_only: bool = False) -> list[Watch]:
    """All watches by owner and name, or those of one owner; ``public_only``: those that anybody may see."""
    query = _SELECT if owner is None else _SELECT.where(repos.c.owner == owner)
    query = query.where(OPEN_TO_ALL) if public_only else query
    return sorted((_watch(row) for row in tx.execute(query)), key=lambda watch: watch.repo)


def same_name(tx: Transaction, repo: RepoRef) -> list[Watch]:
    """Watches of repos that other owners have under the same name, whatever its case."""
    query = _SELECT.where(func.lower(repos.c.name) == repo.name.lower(), repos.c.endpoint == repo.endpoint)
    found = sorted(map(_watch, tx.execute(query)), key=lambda watch: watch.repo)
    return [watch for watch in found if watch.repo.owner != repo.owner]


def remove(tx: Transaction, repo: RepoRef) -> None:
    """Watch a repo no longer; its history and advisories stay. Raises NotFound when it is not watched."""
    tx.execute(delete(watches).where(watches.c.id == require(tx, repo).id))


def pause(tx: Transaction, repo: RepoRef) -> None:
    """Leave a repo out of what is due. Raises NotFound when it is not watched."""
    tx.execute(update(watches).where(watches.c.id == require(tx, repo).id).values(paused=True))


def resume(tx: Transaction, repo: RepoRef, *, now: datetime) -> None:
    """Take a paused repo up again, due at once and with its errors forgotten."""
    watch = require(tx, repo)
    tx.execute(update(watches).where(watches.c.id == watch.id).values(paused=False, next_check_at=now, errors=0))


def change(
    tx: Transaction,
    repo: RepoRef,
    *,
    now: datetime,
    paused: bool | None = None,
    public: bool | None = None,
    every: timedelta | EllipsisType | None = ...,
) -> Watch:
    """Change what a person may choose; what is not given stays. Raises NotFound when it is not watched."""
    watch = require(tx, repo)
    if paused is True:
        pause(tx, repo)
    elif paused is False and watch.paused:
        resume(tx, repo, now=now)
    if public is not None:
        tx.execute(update(repos).where(repos.c.id == find_repo(tx, repo)).values(public=public))
    if every is not ...:
        tx.execute(update(watches).where(watches.c.id == watch.id).values(every=every))
    return require(tx, repo)


def due(tx: Transaction, now: datetime, limit: int, *, at_least: Urgency = Urgency.QUIET) -> list[Watch]:
    """Watches to check now, the most urgent and the longest overdue first: not paused, not leased to anybody.

    ``at_least`` leaves out what is less urgent.
    """
    query = (
        _SELECT.where(
            watches.c.paused.is_(False),
            watches.c.next_check_at <= now,
            watches.c.urgency >= at_least.value,
            or_(watches.c.lease_until.is_(None), watches.c.lease_until <= now),
        )
        .order_by(watches.c.urgency.desc(), watches.c.next_check_at, watches.c.id)
        .limit(limit)
    )
    return [_watch(row) for row in tx.execute(query)]


def due_of_owners(
    tx: Transaction, owners: Iterable[tuple[str, str]], until: datetime
) -> dict[tuple[str, str], list[Watch]]:
    """The watches of each (endpoint, owner) that will be due by ``until`` and are not paused, by repo."""
    found: dict[tuple[str, str], list[Watch]] = {}
    for endpoint, owner in owners:
        query = _SELECT.where(
            repos.c.endpoint == endpoint,
            repos.c.owner == owner,
            watches.c.paused.is_(False),
            watches.c.next_check_at <= until,
        )
        found[endpoint, owner] = sorted(map(_watch, tx.execute(query)), key=lambda watch: watch.repo)
    return found


def unchanged(tx: Transaction, watch: Watch, *, now: datetime, next_check_at: datetime) -> bool:
    """Keep that a repo was asked about and stands where it stood.

    False, and nothing kept, when somebody is checking it right now or it stands elsewhere by now.
    """
    result = tx.execute(
        update(watches)
        .where(
            watches.c.id == watch.id,
            watches.c.head == watch.head,
            or_(watches.c.lease_until.is_(None), watches.c.lease_until <= now),
        )
        .values(
            checked_at=now, next_check_at=next_check_at, urgency=watch.urgency.value, errors=0, last_error=None
        )
    )
    if result.rowcount and watch.downloads is not None:
        tx.execute(
            update(repos)
            .where(repos.c.id == find_repo(tx, watch.repo), repos.c.downloads.is_distinct_from(watch.downloads))
            .values(downloads=watch.downloads)
        )
    return result.rowcount == 1


def hint(tx: Transaction, repo: RepoRef, *, now: datetime, settle: timedelta) -> bool:
    """Have a watch checked as soon as it may be, because somebody says that the repo moved.

    A repo that was looked at less than ``settle`` ago waits for that long, so that a stream of hints is no
    stream of questions. False when the repo is not watched, or paused, or the hint says nothing new.
    """
    watch = get(tx, repo)
    if watch is None or watch.paused or watch.urgency is Urgency.HINTED:
        return False
    soon = max(now, watch.checked_at + settle) if watch.checked_at else now
    tx.execute(
        update(watches)
        .where(watches.c.id == watch.id)
        .values(urgency=Urgency.HINTED.value, next_check_at=min(soon, watch.next_check_at or soon))
    )
    return True


def postpone(tx: Transaction, watch: Watch, until: datetime) -> None:
    """Leave a watch out of what is due until then, unless it became more urgent meanwhile."""
    tx.execute(
        update(watches)
        .where(
            watches.c.id == watch.id,
            watches.c.urgency <= watch.urgency.value,
            watches.c.next_check_at < until,
        )
        .values(next_check_at=until)
    )


def save(tx: Transaction, watch: Watch) -> None:
    """Keep what a check learned: the repo's facts, the head, the schedule, errors.

    The choices of a person (ref, every, since, from_head, public, paused) are left as they are, and a watch
    that was removed meanwhile stays removed.
    """
    tx.execute(
        update(watches)
        .where(watches.c.id == watch.id)
        .values(
            backfill_target=watch.backfill_target,
            head=watch.head,
            checked_at=watch.checked_at,
            next_check_at=watch.next_check_at or watch.created_at,
            errors=watch.errors,
            last_error=watch.last_error,
            missing_since=watch.missing_since,
            missing_count=watch.missing_count,
            urgency=watch.urgency.value,
        )
    )
    tx.execute(
        update(repos)
        .where(repos.c.id == find_repo(tx, watch.repo))
        .values(
            hub_id=watch.hub_id,
            canonical=watch.canonical,
            created_at=watch.repo_created_at,
            state=watch.state.value,
            gated=watch.gated,
            private=watch.private,
            restricted=watch.restricted,
            downloads=watch.downloads,
        )
    )


# --- leases --------------------------------------------------------------------------------------


def claim(tx: Transaction, watch_id: int, holder: str, now: datetime, until: datetime) -> bool:
    """Take the lease of a watch if it is free or has run out; of many that try, one gets it.

    ``holder`` names one check, not one process: a holder cannot claim what it holds already (see `renew`).
    """
    free = or_(watches.c.lease_until.is_(None), watches.c.lease_until <= now)
    result = tx.execute(
        update(watches).where(watches.c.id == watch_id, free).values(lease_holder=holder, lease_until=until)
    )
    return result.rowcount == 1


def lease_holder(tx: Transaction, watch_id: int) -> str | None:
    """Who holds the lease of a watch, also one that has run out; None when it is free."""
    holder: str | None = tx.scalar(select(watches.c.lease_holder).where(watches.c.id == watch_id))
    return holder


def renew(tx: Transaction, watch_id: int, holder: str, until: datetime) -> bool:
    """Prolong a lease; False when somebody else holds it by now."""
    result = tx.execute(
        update(watches).where(watches.c.id == watch_id, watches.c.lease_holder == holder).values(lease_until=until)
    )
    return result.rowcount == 1


def release(tx: Transaction, watch_id: int, holder: str) -> None:
    """Give a lease back; what another holder took over meanwhile is left alone."""
    tx.execute(
        update(watches)
        .where(watches.c.id == watch_id, watches.c.lease_holder == holder)
        .values(lease_holder=None, lease_until=None)
    )


# --- owners --------------------------------------------------------------------------------------


def add_owner(
    tx: Transaction,
    owner: str,
    *,
    now: datetime,
    endpoint: str = DEFAULT_IDENTITY,
    every: timedelta | None = None,
    since: datetime | None = None,
    from_head: bool = False,
    public: bool = False,
) -> OwnerWatch:
    """Put all repos of an owner under watch, due at once. Raises UsageError when it is watched already."""
    if get_owner(tx, owner, endpoint=endpoint) is not None:
        raise UsageError(
            f"{owner}/* is already watched", help=f"to change how: hubwatch watch remove '{owner}/*', then add"
        )
    tx.execute(
        insert(owner_watches).values(
            endpoint=endpoint,
            owner=owner,
            every=every,
            since=since,
            from_head=from_head,
            public=public,
            paused=False,
            created_at=now,
            known=None,
            next_check_at=now,
            errors=0,
        )
    )
    return _require_owner(tx, owner, endpoint)


def get_owner(tx: Transaction, owner: str, *, endpoint: str = DEFAULT_IDENTITY) -> OwnerWatch | None:
    """The watch of an owner; None when it is not watched."""
    query = select(owner_watches).where(owner_watches.c.endpoint == endpoint, owner_watches.c.owner == owner)
    row = tx.execute(query).one_or_none()
    return _owner_watch(row) if row else None


def owners(tx: Transaction) -> list[OwnerWatch]:
    """All watched owners, by name."""
    return sorted(
        map(_owner_watch, tx.execute(select(owner_watches))), key=lambda item: (item.owner, item.endpoint)
    )


def save_owner(tx: Transaction, watch: OwnerWatch) -> None:
    """Keep what a listing taught: known names, schedule, errors. The choices of a person stay as they are."""
    tx.execute(
        update(owner_watches)
        .where(owner_watches.c.id == watch.id)
        .values(
            known=None if watch.known is None else sorted(watch.known),
            checked_at=watch.checked_at,
            next_check_at=watch.next_check_at,
            errors=watch.errors,
            last_error=watch.last_error,
        )
    )


def pause_owner(tx: Transaction, owner: str, *, paused: bool = True, endpoint: str = DEFAULT_IDENTITY) -> None:
    """Stop looking for an owner's new repos, or take it up again. Raises NotFound when it is not watched."""
    watch = _require_owner(tx, owner, endpoint)
    tx.execute(update(owner_watches).where(owner_watches.c.id == watch.id).values(paused=paused))


def remove_owner(tx: Transaction, owner: str, *, endpoint: str = DEFAULT_IDENTITY) -> None:
    """Look for an owner's new repos no longer; watches of single repos stay. Raises NotFound."""
    watch = _require_owner(tx, owner, endpoint)
    tx.execute(delete(owner_watches).where(owner_watches.c.id == watch.id))


def _require_owner(tx: Transaction, owner: str, endpoint: str) -> OwnerWatch:
    watch = get_owner(tx, owner, endpoint=endpoint)
    if watch is None:
        raise NotFound(f"{owner}/* is not watched", help=f"run: hubwatch watch add '{owner}/*'")
    return watch


def _watch(row: Row[Any]) -> Watch:
    return Watch(
        id=row.id,
        repo=repo_of(row),
        ref=row.ref,
        every=row.every,
        since=row.since,
        from_head=row.from_head,
        public=row.public,
        restricted=row.restricted,
        paused=row.paused,
        created_at=row.created_at,
        hub_id=row.hub_id,
        canonical=row.canonical,
        repo_created_at=row.repo_created_at,
        state=RepoState(row.state),
        gated=row.gated,
        private=row.private,
        backfill_target=row.backfill_target,
        head=row.head,
        checked_at=row.checked_at,
        next_check_at=row.next_check_at,
        errors=row.errors,
        last_error=row.last_error,
        missing_since=row.missing_since,
        missing_count=row.missing_count,
        urgency=Urgency(row.urgency),
        downloads=row.downloads,
    )


def _owner_watch(row: Row[Any]) -> OwnerWatch:
    return OwnerWatch(
        id=row.id,
        endpoint=row.endpoint,
        owner=row.owner,
        every=row.every,
        since=row.since,
        from_head=row.from_head,
        public=row.public,
        paused=row.paused,
        created_at=row.created_at,
        known=None if row.known is None else frozenset(row.known),
        checked_at=row.checked_at,
        next_check_at=row.next_check_at,
        errors=row.errors,
        last_error=row.last_error,
    )
