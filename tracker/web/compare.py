"""Any two revisions, compared on demand: few at a time, and what was compared once is remembered."""

from __future__ import annotations

import threading
from collections import OrderedDict

from storage import history
from storage.database import Database
from storage.model import Json, RepoRef
from tracker import views
from tracker.examine import Examiner
from tracker.loader import Loader

_REMEMBERED = 128
_AT_ONCE = 2

Pair = tuple[RepoRef, str, str]


class Comparer:
    """Compares landed revisions. Shared by threads."""

    def __init__(self, database: Database, loader: Loader, examiner: Examiner) -> None:
        self._database, self._loader, self._examiner = database, loader, examiner
        self._turns = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._known: OrderedDict[Pair, dict[str, Json]] = OrderedDict()

    def diff(self, repo: RepoRef, a: str, b: str) -> dict[str, Json]:
        """The comparison under the contract's keys; raises NotFound for a revision that is not here."""
        with self._database.snapshot() as tx:
            before, after = (history.resolve(tx, repo, rev).revision.sha for rev in (a, b))
        pair = (repo, before, after)
        with self._lock:
            if pair in self._known:
                self._known.move_to_end(pair)
                return self._known[pair]
        with self._turns:
            seen = views.compare(self._database, self._loader, self._examiner, repo, before, after)
        made = views.diff_json(repo, seen)
        with self._lock:
            self._known[pair] = made
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return made
