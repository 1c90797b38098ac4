"""Advisories as they stand, brought to what today's rules make of the same history. Pure.

An advisory is the same when class and introducing revision are: it keeps its id, and is not touched when it says
the same. One that says something else is modified; one that is made no more is withdrawn, naming those that now
warn of the same values or of the same revision; one that was never made is new. One that had been withdrawn and
is made again stands again. States of a repo follow no commits and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime

from advisories.states import withdraw
from storage.findings import tracked_to_json
from storage.model import Advisory, AdvisoryAction, AdvisoryEvent, Json, canonical_json

REASON = "withdrawn_reason"
"""Key of the context, and so of the document, of what was taken back."""
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What is to be written, by what it means; ``unchanged`` counts what says the same."""

    added: tuple[Advisory, ...] = ()
    changed: tuple[Advisory, ...] = ()
    withdrawn: tuple[Advisory, ...] = ()
    unchanged: int = 0
    events: tuple[AdvisoryEvent, ...] = ()

    @property
    def advisories(self) -> tuple[Advisory, ...]:
        """All that is to be written."""
        return (*self.added, *self.changed, *self.withdrawn)


def reconcile(
    stored: Sequence[Advisory],
    made: Sequence[Advisory],
    events: Sequence[AdvisoryEvent],
    *,
    revisions: Set[str],
    ref: str,
    version: str,
    now: datetime,
) -> Reconciled:
    """Hold what is stored of a repo against what was made of its history now.

    Args:
        stored: The repo's advisories.
        made: What the ledger has after the whole history, begun with nothing.
        events: What happened on the way.
        revisions: The shas of that history: what was introduced elsewhere is left alone.
        ref: The ref that is followed.
        version: Of this hubwatch, for the reason of what is withdrawn.
        now: The time at which new ones are published and others modified.

    """
    old = {_key(item): item for item in stored if item.spans and item.ref == ref and item.introduced in revisions}
    names = {item.id: old[_key(item)].id for item in made if _key(item) in old}
    current = [_renamed(item, names) for item in made]
    added, changed, told = [], [], set()
    unchanged = 0
    back = []
    for item in current:
        before = old.get(_key(item))
        if before is None:
            added.append(replace(item, published=now, modified=now))
        elif before.withdrawn is None and _says(before) == _says(item):
            unchanged += 1
            continue
        else:
            at = max(now, before.modified)
            changed.append(replace(item, published=before.published, modified=at, related=before.related))
            if before.withdrawn is not None:
                back.append(AdvisoryEvent(advisory_id=item.id, action=AdvisoryAction.REINTRODUCED, sha=None))
        told.add(item.id)
    standing = {_key(item) for item in current}
    gone = [item for key, item in old.items() if key not in standing and item.withdrawn is None]
    withdrawn: list[Advisory] = []
    for item in gone:
        heirs = [other.id for other in current if _follows(other, item)]
        (taken,) = withdraw(item, now=now, related=heirs).advisories
        reason = f"hubwatch {version} does not make this finding of the same files"
        withdrawn.append(replace(taken, context={**taken.context, REASON: reason}))
    added, changed = (_related(items, withdrawn, current) for items in (added, changed))
    ends = [AdvisoryEvent(advisory_id=item.id, action=AdvisoryAction.WITHDRAWN, sha=None) for item in withdrawn]
    happened = [replace(event, advisory_id=names.get(event.advisory_id, event.advisory_id)) for event in events]
    return Reconciled(
        added=tuple(added),
        changed=tuple(changed),
        withdrawn=tuple(withdrawn),
        unchanged=unchanged,
        events=(*(event for event in happened if event.advisory_id in told), *back, *ends),
    )


def _key(advisory: Advisory) -> _Key:
    return advisory.cls, advisory.introduced


def _renamed(advisory: Advisory, names: Mapping[str, str]) -> Advisory:
    successor = advisory.superseded_by
    return replace(
        advisory,
        id=names.get(advisory.id, advisory.id),
        superseded_by=names.get(successor, successor) if successor else None,
    )


def _says(advisory: Advisory) -> str:
    """All that an advisory means, as one text: ids, times and relations apart."""
    value: dict[str, Json] = {
        "severity": int(advisory.severity),
        "reason": advisory.reason,
        "predecessor": advisory.predecessor,
        "findings": [tracked_to_json(item) for item in advisory.findings],
        "spans": [[span.introduced, span.fixed, span.last_affected] for span in advisory.spans],
        "superseded_by": advisory.superseded_by,
        "context": dict(advisory.context),
    }
    return canonical_json(value)


def _follows(advisory: Advisory, gone: Advisory) -> bool:
    """Whether an advisory says in another class, or of another revision, what one that is gone said."""
    return advisory.introduced == gone.introduced or bool(_values(advisory) & _values(gone))


def _values(advisory: Advisory) -> set[tuple[str, str | None]]:
    changes = (item.finding.change for item in advisory.findings)
    return {(change.facet, change.after_digest) for change in changes if change.facet}


def _related(
    items: Iterable[Advisory], withdrawn: Sequence[Advisory], current: Sequence[Advisory]
) -> list[Advisory]:
    """The items, each naming what was withdrawn for it."""
    known = {item.id for item in current}
    pairs: dict[str, set[str]] = {}
    for item in withdrawn:
        for heir in set(item.related) & known:
            pairs.setdefault(heir, set()).add(item.id)
    return [
        replace(item, related=tuple(sorted({*item.related, *pairs.get(item.id, ())} - {item.id})))
        for item in items
    ]
