"""A Hub, an installation with a clock that is moved by hand, and what it has learned in the end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from storage import watches
from storage.database import Database
from storage.model import RepoRef, Watch
from tests.soak.storm import account
from tests.storms.story import STEADY, STORMY, Story
from tests.support.models import llama
from tests.support.site import Site, site
from tracker.demo.hub import LoopbackHub
from tracker.hub.errors import RateLimited, Unreachable, UpstreamFault
from tracker.hub.git_environment import GitLimits
from tracker.hub.history_git import GitReader
from tracker.hub.readers import Histories
from tracker.worker import Outcome, Status

DAY = timedelta(days=1)
GIT_SECONDS = 3.0
BY_API: dict[str, Any] = {"git": "off"}
BY_GIT: dict[str, Any] = {"git": "auto", "git_from": 1}


@dataclass(slots=True)
class World:
    """An installation that watches a repo in a storm and one outside of it."""

    hub: LoopbackHub
    story: Story
    site: Site
    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def stormy(self) -> RepoRef:
        """The repo in the storm."""
        return RepoRef.parse(STORMY)

    @property
    def steady(self) -> RepoRef:
        """The other one."""
        return RepoRef.parse(STEADY)

    def look(self) -> dict[str, Outcome]:
        """One round, as a tick and its threads do it, in this thread: whatever is due is asked about."""
        services, now = self.site.services, self.site.time
        with self.site.database.snapshot() as tx:
            plan = services.rounds.plan(watches.due(tx, now, limit=100))
        left: list[Watch] = list(plan.single)
        told: dict[str, Outcome] = {}
        for owner, asked in plan.listings.items():
            done: dict[int, Outcome] = {}
            try:
                done = services.rounds.ask(owner, asked)
            except RateLimited as error:
                services.worker.pause(error)
            except (UpstreamFault, Unreachable):
                pass
            told |= {outcome.repo: outcome for outcome in done.values()}
            left += [watch for watch in asked if watch.id not in done]
        told |= {watch.repo.id: services.worker.check(watch) for watch in left}
        self.outcomes += Counter(outcome.status.value for outcome in told.values())
        return told

    def check(self, repo: RepoRef) -> Outcome:
        """Check one repo, due or not."""
        self.tried += 1
        return self.site.poll(repo)

    def check_steady(self) -> None:
        """Something new in the repo that no storm touches must be read at the next check."""
        change = llama(rope_theta=1000.0 + self.tried)
        self.hub.repo(STEADY).commit({"config.json": change}, title=f"n {self.tried}")
        assert self.check(self.steady).new_revisions == 1

    def settle(self) -> Outcome:
        """Look, a day apart, until all is read; fails when that takes long."""
        for _ in range(6):
            self.site.later(days=1)
            outcome = self.check(self.stormy)
            if outcome.status in {Status.OK, Status.UNCHANGED}:
                return outcome
        raise AssertionError(f"the calm did not mend it: {outcome}")

    def learned(self) -> dict[str, Any]:
        """Everything that is known of the repo in the storm, but when.

        The order in which one revision's advisories are gone through follows our clock, and says nothing.
        """
        found = account(self.site.database, [STORMY])
        for parts in found.values():
            parts["events"] = {
                sha: sorted(events, key=lambda event: (event.advisory_id, event.action))
                for sha, events in parts["events"].items()
            }
        return found


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """A database for as long as the block runs."""
    database = Database.open(url)
    try:
        yield database
    finally:
        database.dispose()


@contextmanager
def world(hub: LoopbackHub, story: Story, database: Database, **settings_of_hub: Any) -> Iterator[World]:
    """An installation on this database, which watches both repos from now on."""
    with site(hub, database, **settings_of_hub) as made:
        histories = made.services.worker.pipeline.histories
        if histories.git is not None:
            reader = GitReader(histories.git.endpoint, limits=GitLimits(seconds=GIT_SECONDS))
            made.services.worker.pipeline.histories = Histories(histories.client, reader, histories.git_from)
        found = World(hub, story, made)
        for repo in (found.stormy, found.steady):
            with made.database.snapshot() as tx:
                known = watches.get(tx, repo)
            if known is None:
                made.watch(repo.id)
        steady = hub.repo(STEADY)
        steady.reset("main", steady.log("main")[-1])
        made.poll(found.steady)
        yield found


@pytest.fixture
def nobody_sleeps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No code but the standard library's may sleep: a pause is a row, a retry is a later check."""
    slept: list[str] = []
    sleep = time.sleep

    def told(seconds: float) -> None:
        frame = sys._getframe(1)
        name = str(frame.f_globals.get("__name__"))
        if name.partition(".")[0] not in {"subprocess", "tests"}:  # git is waited for in steps of milliseconds
            slept.append(f"{name}:{frame.f_lineno}: {seconds} s")
            return
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", told)
    yield
    assert slept == []
