"""An installation inside the test's own process: services on a database, reading a loopback Hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from storage import advisories, watches
from storage.database import Database
from storage.model import Advisory, RepoRef
from tracker.assembly import Services, assemble
from tracker.demo.hub import LoopbackHub
from tracker.settings import Settings
from tracker.worker import Outcome

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass(slots=True)
class Site:
    """Services with a clock that stands until it is moved."""

    database: Database
    services: Services
    time: datetime = START

    def now(self) -> datetime:
        """The clock."""
        return self.time

    def later(self, **span: float) -> Site:
        """Let time pass."""
        self.time += timedelta(**span)
        return self

    def watch(self, name: str, **options: Any) -> RepoRef:
        """Watch a repo."""
        repo = RepoRef.parse(name)
        with self.database.transaction() as tx:
            watches.add(tx, repo, now=self.time, **options)
        return repo

    def poll(self, repo: RepoRef) -> Outcome:
        """Check a repo."""
        with self.database.snapshot() as tx:
            watch = watches.require(tx, repo)
        return self.services.worker.check(watch)

    def advisories(self, repo: RepoRef) -> dict[str, Advisory]:
        """All advisories of a repo, by id."""
        with self.database.snapshot() as tx:
            return {item.id: item for item in advisories.of_repo(tx, repo)}


@contextmanager
def site(hub: LoopbackHub, database: Database, **settings_of_hub: Any) -> Iterator[Site]:
    """An installation for as long as the block runs."""
    settings = Settings(hub={"endpoint": hub.url, **settings_of_hub})
    with assemble(settings, database, clock=lambda: made.time) as services:
        made = Site(database, services)
        services.worker.slow = None
        yield made
