"""Any two revisions, compared on demand: few at a time, and what was compared once is remembered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar, cast

from storage import history
from storage.database import Database
from storage.model import Json, RepoRef
from tracker import views
from tracker.examine import Examination, Examiner
from tracker.loader import Loader

_REMEMBERED = 128
_AT_ONCE = 2

T = TypeVar("T")
Pair = tuple[str, RepoRef, str, str]


class Comparer:
    """Compares landed revisions. Shared by threads."""

    def __init__(self, database: Database, loader: Loader, examiner: Examiner) -> None:
        self._database, self._loader, self._examiner = database, loader, examiner
        self._turns = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._known: OrderedDict[Pair, Any] = OrderedDict()

    def diff(self, repo: RepoRef, a: str, b: str) -> dict[str, Json]:
        """The comparison under the contract's keys; raises NotFound for a revision that is not here."""
        return self.view("diff", repo, a, b, lambda seen: views.diff_json(repo, seen))

    def view(self, kind: str, repo: RepoRef, a: str, b: str, make: Callable[[Examination], T]) -> T:
        """What ``make`` makes of a comparison, remembered under ``kind``: it should be small, and not change.

        Raises NotFound for a revision that is not here.
        """
        with self._database.snapshot() as tx:
            before, after = (history.resolve(tx, repo, rev).revision.sha for rev in (a, b))
        pair = (kind, repo, before, after)
        with self._lock:
            if pair in self._known:
                self._known.move_to_end(pair)
                return cast(T, self._known[pair])
        with self._turns:
            seen = views.compare(self._database, self._loader, self._examiner, repo, before, after)
            made = make(seen)
        with self._lock:
            self._known[pair] = made
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return made
