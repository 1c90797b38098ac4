"""What a differ is, and the facet names that tie a change to a value which later revisions can be asked for.

A differ compares two snapshots and is pure: no I/O, no clock, no state. Every change it makes names a
**facet** ``<differ>:<key>``, a value that can be observed in any snapshot, so that the ledger can say at
every later revision whether the change still holds. Two laws, checked for every registered differ:

* ``diff(a, a)`` is empty;
* for each change of ``diff(a, b)`` with a facet, ``observe(a, facet) == before_digest`` and
  ``observe(b, facet) == after_digest``, and the two differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from storage.model import Change, Snapshot


class Differ(Protocol):
    """One subject compared between two revisions. A module exports one as ``DIFFER``."""

    name: str

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """What is different, in a stable order."""
        ...

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """The dangers that are simply there (auto_map, code, pickles, unsafe templates, disagreeing files).

        As changes from nothing, with the same classes and facets as if they had just been added.
        """
        ...

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of a facet's value in this snapshot; None when it is not there."""
        ...
