"""``owner/*``: one listing answers for all of an owner's models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from advisories.outbox import new_repo
from storage import outbox, watches
from storage.database import Database
from storage.errors import HubwatchError, UsageError
from storage.model import OwnerWatch, RepoRef
from tracker.hub.interface import Listing

EVERY = timedelta(minutes=30)
"""Between two listings of an owner."""
LONGEST = timedelta(hours=24)

log = structlog.get_logger("hubwatch.owners")


@dataclass(slots=True)
class Owners:
    """Adds a watch for every model of a watched owner.

    A listing proves nothing about what it leaves out: it only ever adds watches. A repo that appears after
    the first listing is announced as one message.
    """

    upstream: Listing
    database: Database
    clock: Callable[[], datetime]

    def look(self, *, only_due: bool = False) -> list[RepoRef]:
        """Ask for every watched owner once (or those that are due); returns the repos that were added."""
        now = self.clock()
        with self.database.snapshot() as tx:
            owners = [owner for owner in watches.owners(tx) if not owner.paused]
        added: list[RepoRef] = []
        for owner in owners:
            if only_due and owner.next_check_at is not None and owner.next_check_at > now:
                continue
            try:
                listed = self.upstream.listing(owner.owner)
            except HubwatchError as error:
                log.warning("owner not listed", owner=owner.owner, error=str(error))
                self._failed(owner, error)
                continue
            added += self._take_in(owner, {item.canonical: item.restricted for item in listed})
        return added

    def _take_in(self, owner: OwnerWatch, listed: Mapping[str, bool]) -> list[RepoRef]:
        """Watch what is new; ``listed`` says by name whether a repo can be read only with a token."""
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
                next_check_at=now + EVERY,
                errors=0,
                last_error=None,
            )
            watches.save_owner(tx, done)
        return added

    def _failed(self, owner: OwnerWatch, error: HubwatchError) -> None:
        now = self.clock()
        wait = min(EVERY * 2**owner.errors, LONGEST)
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
