"""Changes that put back what was there before: no fresh news, whatever the class of the change is rated.

A value that comes back closes the advisory that warned of the one in between (`advisories.ledger`), at the
revision that brought it back. The change itself is recorded and rated like any other; what tells it from news is
that event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storage import advisories
from storage.database import Transaction
from storage.model import (
    Advisory,
    AdvisoryAction,
    AdvisoryEvent,
    Finding,
    LandedChange,
    RepoRef,
    Severity,
)

_MOST = 300  # advisories read for one page
_CLOSED_SHOWN = 3

Closing = Mapping[str, Sequence[Advisory]]
"""The advisories that each revision closed by putting something back, by sha."""


class Landed(NamedTuple):
    """A change that landed, and the ids of the advisories that it closed by putting back what was before."""

    item: LandedChange
    closes: Sequence[str]


def closing(tx: Transaction, events: Mapping[str, Sequence[AdvisoryEvent]]) -> Closing:
    """What the revisions of ``events`` closed by putting something back."""
    shas = defaultdict(list)
    for sha, happened in events.items():
        for event in happened:
            if event.action is AdvisoryAction.FIXED:
                shas[event.advisory_id].append(sha)
    found: dict[str, list[Advisory]] = defaultdict(list)
    for advisory in advisories.by_ids(tx, list(shas)[:_MOST]):
        for sha in shas[advisory.id]:
            found[sha].append(advisory)
    return found


def closes(finding: Finding, closed: Sequence[Advisory]) -> Sequence[str]:
    """The advisories, of those its revision closed, that a finding closes: about the value that it puts back."""
    facet, now = finding.change.facet, finding.change.after_digest
    ids = [
        advisory.id
        for advisory in closed
        for item in advisory.findings
        if facet and item.finding.change.facet == facet and item.finding.change.after_digest != now
    ]
    return list(dict.fromkeys(ids))[:_CLOSED_SHOWN]


def fresh_worst(findings: Sequence[Finding], closed: Sequence[Advisory]) -> Severity | None:
    """The gravest of the findings that are news; None where there are none."""
    return max((item.severity for item in findings if not closes(item, closed)), default=None)


def marked(tx: Transaction, found: Sequence[LandedChange]) -> list[Landed]:
    """Each change with what it closed, in the order given."""
    shas: dict[RepoRef, list[str]] = defaultdict(list)
    for item in found:
        shas[item.repo].append(item.sha)
    closed = {repo: closing(tx, advisories.events(tx, repo, of)) for repo, of in shas.items()}
    return [Landed(item=item, closes=closes(item.finding, closed[item.repo].get(item.sha, ()))) for item in found]
