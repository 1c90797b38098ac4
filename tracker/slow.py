"""What is read at a slower pace than heads: when it is due, and what a failure means.

A subject is read with the first check of a repo, when its followed ref moved (refs: unless they were read
within half an hour), and after a while in any case. An unchanged repo whose subjects are not due costs its one
request and no more. A reading that fails is tried
again later: it never fails the check that it follows. While the budget has no room for readings that are not
urgent, none is due: they wait for another window, and the heads are asked about as if there were none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from storage import refs
from storage.database import Database, Transaction
from storage.errors import HubwatchError
from storage.model import Head, RepoRef, RepoState, Watch
from storage.refs import SlowRead
from tracker.hub.errors import BudgetSpent, RateLimited

RETRY = timedelta(minutes=30)
LONGEST = timedelta(hours=24)
JITTER = 0.1
_NONE = timedelta(0)

# Reads one subject of a watch whose repo answers under a name; returns how many advisories it opened.
Reader = Callable[[Watch, RepoRef], int]

log = structlog.get_logger("hubwatch.slow")


@dataclass(slots=True)
class SlowReads:
    """The subjects, and how often each is read.

    ``paused`` is told of a pause that the Hub asks of everybody; ``budgeted`` are the subjects that are
    read under the same budget as everything else; ``settle`` how old a reading must be before a move of the
    followed ref calls for another; ``affordable`` says whether the budget has room for any of it now;
    ``always`` reads everything, due or not.
    """

    database: Database
    readers: Mapping[str, Reader]
    every: timedelta
    clock: Callable[[], datetime]
    paused: Callable[[RateLimited], None] = lambda _: None
    budgeted: frozenset[str] = frozenset({"refs"})
    settle: Mapping[str, timedelta] = field(default_factory=lambda: {"refs": RETRY})
    affordable: Callable[[], bool] = lambda: True
    always: bool = False

    def is_due(self, tx: Transaction, watch: Watch) -> bool:
        """Whether anything is to be read with the next check, even if nothing moved."""
        due = any(self._due(subject, refs.schedule(tx, watch.repo, subject), watch) for subject in self.readers)
        return due and (self.always or self.affordable())

    def run(self, watch: Watch, head: Head, source: RepoRef) -> int:
        """Read what is due of a repo that was just checked; returns how many advisories were opened."""
        if head.state not in {RepoState.OK, RepoState.RENAMED} or head.sha is None:
            return 0
        opened = 0
        for subject, read in self.readers.items():
            with self.database.snapshot() as tx:
                last = refs.schedule(tx, watch.repo, subject)
            if self._due(subject, last, watch) and (self.always or self.affordable()):
                opened += self._read(watch, source, subject, read, last)
        return opened

    def _due(self, subject: str, last: SlowRead | None, watch: Watch) -> bool:
        now = self.clock()
        if last is None or self.always or last.due_at <= now:
            return True
        read_at = last.due_at - self.every
        return last.head != watch.head and not last.errors and now - read_at >= self.settle.get(subject, _NONE)

    def _read(self, watch: Watch, source: RepoRef, subject: str, read: Reader, last: SlowRead | None) -> int:
        opened, errors, wait = 0, 0, self.every
        try:
            opened = read(watch, source)
        except BudgetSpent:
            return 0  # it stays due: nothing is wrong with it
        except HubwatchError as error:
            errors = (last.errors if last else 0) + 1
            wait = min(RETRY * 2 ** min(errors - 1, 6), LONGEST)
            log.warning("read later", subject=subject, repo=watch.repo.id, error=str(error))
            if isinstance(error, RateLimited):
                wait = max(wait, timedelta(seconds=error.seconds))
                if subject in self.budgeted:
                    self.paused(error)
        # repos that were added together are not to be read together for ever
        spread = random.Random(f"{watch.repo.id}:{subject}").uniform(1, 1 + JITTER)  # noqa: S311
        kept = SlowRead(due_at=self.clock() + wait * spread, head=watch.head, errors=errors)
        with self.database.transaction() as tx:
            refs.reschedule(tx, watch.repo, subject, kept)
        return opened
