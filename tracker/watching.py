"""Putting a repo or an owner under watch: what the command line and the API share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from storage import watches
from storage.database import Database, Transaction
from storage.errors import NotFound, UsageError
from storage.model import Head, OwnerWatch, RepoRef, RepoState, Watch, valid_owner

REF = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}"


class Asks(Protocol):
    """Whoever answers where a ref stands."""

    def head(self, repo: RepoRef, *, ref: str = "main") -> Head:
        """See `tracker.hub.interface.Upstream`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a repo is to be followed."""

    ref: str = "main"
    since: datetime | None = None
    from_head: bool = False
    every: timedelta | None = None
    public: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A watch, whether it is new, and what a person should know about the repo."""

    watch: Watch
    new: bool
    state: RepoState
    notes: tuple[str, ...] = ()


def add(
    database: Database,
    upstream: Asks,
    repo: RepoRef,
    wish: Wish,
    *,
    now: datetime,
    also: Callable[[Transaction], None] = lambda _: None,
) -> Added:
    """Follow a repo. Asks the Hub once whether it is there, nothing if it is followed already; reads no history.

    ``also`` is done in the same transaction when the watch is new.

    Raises UsageError or NotFound for what cannot be followed, HubError when the Hub does not answer.
    """
    _check(wish)
    with database.snapshot() as tx:
        known = watches.get(tx, repo)
    if known is not None:
        return Added(watch=_altered(database, known, wish, now), new=False, state=known.state)
    head = upstream.head(repo, ref=wish.ref)
    _refuse(repo, head.state)
    with database.transaction() as tx:
        watch = watches.add(
            tx,
            repo,
            ref=wish.ref,
            since=wish.since,
            from_head=wish.from_head,
            every=wish.every,
            public=wish.public,
            restricted=head.restricted,
            now=now,
        )
        also(tx)
    return Added(watch=watch, new=True, state=head.state, notes=_notes(head))


def add_owner(tx: Transaction, owner: str, wish: Wish, *, endpoint: str, now: datetime) -> tuple[OwnerWatch, bool]:
    """Follow all models of an owner; also says whether that is new. Raises UsageError."""
    _check(wish)
    if wish.ref != "main":
        raise UsageError(
            "--ref does not go with owner/*", help="watch a repo by name to follow another branch of it"
        )
    if not valid_owner(owner):
        raise UsageError(
            f"{owner[:100] + '/*'!r} is not a repo id", help="write owner/*, with the owner's name as on the Hub"
        )
    known = watches.get_owner(tx, owner, endpoint=endpoint)
    if known is not None:
        return known, False
    added = watches.add_owner(
        tx,
        owner,
        endpoint=endpoint,
        since=wish.since,
        from_head=wish.from_head,
        every=wish.every,
        public=wish.public,
        now=now,
    )
    return added, True


def _altered(database: Database, known: Watch, wish: Wish, now: datetime) -> Watch:
    """Take over what may change for a repo that is followed already; refuse what would need another history."""
    if wish.ref not in {known.ref, "main"} or (
        (wish.since or wish.from_head) and ((wish.since, wish.from_head) != (known.since, known.from_head))
    ):
        raise UsageError(
            f"{known.repo.id} is followed already, on {known.ref}",
            help=f"another ref or start needs a new watch: hubwatch watch remove {known.repo.id}, then add",
        )
    if wish.every in {None, known.every} and wish.public <= known.public:
        return known
    with database.transaction() as tx:
        every, public = wish.every or known.every, wish.public or known.public
        return watches.change(tx, known.repo, now=now, every=every, public=public)


def pause_owner(tx: Transaction, owner: str, *, paused: bool, endpoint: str, now: datetime) -> int:
    """Leave an owner and all its followed repos alone, or take them up again; returns how many repos."""
    watches.pause_owner(tx, owner, paused=paused, endpoint=endpoint)
    repos = [watch.repo for watch in watches.list_all(tx, owner=owner) if watch.repo.endpoint == endpoint]
    for repo in repos:
        if paused:
            watches.pause(tx, repo)
        else:
            watches.resume(tx, repo, now=now)
    return len(repos)


def remove_owner(tx: Transaction, owner: str, *, endpoint: str) -> int:
    """Follow an owner and its repos no longer; history stays. Returns how many repos."""
    watches.remove_owner(tx, owner, endpoint=endpoint)
    repos = [watch.repo for watch in watches.list_all(tx, owner=owner) if watch.repo.endpoint == endpoint]
    for repo in repos:
        watches.remove(tx, repo)
    return len(repos)


def _check(wish: Wish) -> None:
    if wish.since and wish.from_head:
        raise UsageError("--since and --from-head exclude each other", help="give one of them")
    if not re.fullmatch(REF, wish.ref, re.ASCII) or ".." in wish.ref:
        raise UsageError(f"{wish.ref[:100]!r} is not a ref", help="give a branch name such as main")


def _refuse(repo: RepoRef, state: RepoState) -> None:
    """A repo that cannot be seen is refused now, with the reason, rather than failing at every poll."""
    match state:
        case RepoState.MISSING | RepoState.PRIVATE:
            raise NotFound(
                f"{repo.id} does not exist, or is private",
                help="check the name; for a private repo set HF_TOKEN to a token that may read it",
            )
        case RepoState.TOKEN_BAD:
            raise UsageError("the Hub does not accept the token", help="set HF_TOKEN to a valid one, or unset it")


def _notes(head: Head) -> tuple[str, ...]:
    notes = []
    if head.state is RepoState.RENAMED:
        notes.append(f"it answers as {head.canonical} now: better watch that name")
    if head.gated:
        notes.append(f"it is gated ({head.gated}): set HF_TOKEN to a token with access")
    if head.state is RepoState.DISABLED:
        notes.append("it is disabled by the Hub: nothing can be read now")
    return tuple(notes)
