"""``owner/*``: one listing answers for all of an owner's models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from advisories.outbox import new_repo
from storage import outbox, watches
from storage.database import Database
from storage.errors import HubwatchError, UsageError
from storage.model import Head, OwnerWatch, RepoRef
from tracker.hub.interface import Listing

LONGEST = timedelta(hours=24)

log = structlog.get_logger("hubwatch.owners")


@dataclass(frozen=True, slots=True)
class Looked:
    """What a round of listings brought: repos that were added, and owners that could not be listed."""

    added: tuple[RepoRef, ...] = ()
    failed: Mapping[str, HubwatchError] = field(default_factory=dict)


@dataclass(slots=True)
class Owners:
    """Adds a watch for every model of a watched owner.

    A listing proves nothing about what it leaves out: it only ever adds watches. A repo that appears after
    the first listing is announced as one message.
    """

    upstream: Listing
    database: Database
    clock: Callable[[], datetime]
    every: timedelta = timedelta(minutes=30)
    on_listed: Callable[[str, str, list[Head]], object] = lambda _endpoint, _owner, _heads: None
    """Told of every listing, which also says where the repos stand: endpoint, owner, answers."""

    def look(self, *, only_due: bool = False) -> Looked:
        """Ask for every watched owner once, or for those that are due."""
        now = self.clock()
        with self.database.snapshot() as tx:
            owners = [owner for owner in watches.owners(tx) if not owner.paused]
        added: list[RepoRef] = []
        failed: dict[str, HubwatchError] = {}
        for owner in owners:
            if only_due and owner.next_check_at is not None and owner.next_check_at > now:
                continue
            try:
                listed = self.upstream.listing(owner.owner)
            except HubwatchError as error:
                log.info("owner not listed", owner=owner.owner, error=str(error))
                self._failed(owner, error)
                failed[owner.owner] = error
                continue
            added += self.take_in(owner, listed)
            self.on_listed(owner.endpoint, owner.owner, listed)
        return Looked(tuple(added), failed)

    def take_in(self, owner: OwnerWatch, heads: Sequence[Head]) -> list[RepoRef]:
        """Watch what is new in a whole listing of a watched owner; returns what was added."""
        listed = {item.canonical: item.restricted for item in heads}
        now = self.clock()
        known = owner.known or frozenset()
        added: list[RepoRef] = []
        with self.database.transaction() as tx:
            for name, restricted in listed.items():
                repo = _repo(name, owner.endpoint)
                # A name that was known and is not watched was removed by a person: it stays so.
                if repo is None or name in known or watches.get(tx, repo) is not None:
                    continue
                watches.add(
                    tx,
                    repo,
                    now=now,
                    since=owner.since,
                    from_head=owner.from_head,
                    every=owner.every,
                    public=owner.public,
                    restricted=restricted,
                )
                if owner.known is not None:
                    outbox.append(tx, [new_repo(repo, now=now)])
                added.append(repo)
            done = replace(
                owner,
                known=known | set(listed),
                checked_at=now,
                next_check_at=now + self.every,
                errors=0,
                last_error=None,
            )
            watches.save_owner(tx, done)
        return added

    def _failed(self, owner: OwnerWatch, error: HubwatchError) -> None:
        now = self.clock()
        wait = min(self.every * 2**owner.errors, LONGEST)
        failed = replace(
            owner, errors=owner.errors + 1, last_error=str(error), checked_at=now, next_check_at=now + wait
        )
        with self.database.transaction() as tx:
            watches.save_owner(tx, failed)


def _repo(text: str, endpoint: str) -> RepoRef | None:
    try:
        return RepoRef.parse(text, endpoint=endpoint)
    except UsageError:
        return None
