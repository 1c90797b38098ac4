"""What a rule may look at when it judges one revision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from storage.model import Change, Estimate, ProbeResult, Revision, Snapshot

# The digest of a facet's value in some snapshot; None when it is not there.
Observe = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One revision beside its predecessor, with all that was learned of the step.

    ``before`` is None for the first revision read. ``since_first`` marks findings that were there with
    the first model files. ``known_authors`` are the authors of earlier revisions, ``position`` the place
    of this one (0 is the first). ``probes`` is by the facet that was tried out.
    """

    before: Snapshot | None
    after: Snapshot
    changes: Sequence[Change]
    estimates: tuple[Estimate | None, Estimate | None] = (None, None)
    probes: Mapping[str, Sequence[ProbeResult]] = field(default_factory=dict)
    known_authors: frozenset[str] = frozenset()
    position: int = 0
    since_first: bool = False
    rewritten: bool = False

    @property
    def revision(self) -> Revision:
        """The revision being judged."""
        return self.after.revision
