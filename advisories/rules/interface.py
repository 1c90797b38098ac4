"""What a rule is: one change class, how grave it is, which weaknesses it maps to, what to do about it.

A rule answers two questions. `Rule.find`: which changes of a revision are findings of this class, how
grave and why. `Rule.holds`: does a finding still stand in a later snapshot. Both are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from storage.model import Change, Estimate, Finding, ProbeResult, Revision, Severity, Snapshot

Base = Callable[[Change], tuple[Severity, str]]
Observe = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a rule may look at when it judges one revision.

    ``before`` is None for the first revision read. ``since_first`` marks findings that were there with
    the first model files. ``known_authors`` are the authors of earlier revisions, ``position`` the place
    of this one (0 is the first).
    """

    before: Snapshot | None
    after: Snapshot
    changes: Sequence[Change]
    estimates: tuple[Estimate | None, Estimate | None] = (None, None)
    probes: Mapping[str, Sequence[ProbeResult]] = field(default_factory=dict)  # by facet
    known_authors: frozenset[str] = frozenset()
    position: int = 0
    since_first: bool = False
    rewritten: bool = False

    @property
    def revision(self) -> Revision:
        """The revision being judged."""
        return self.after.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One change class.

    ``base`` overrides ``severity`` where the class names a condition ("critical if new exec").
    ``advice`` is a sentence a person can follow; ``{before}`` and ``{after}`` become short shas.
    """

    cls: str
    title: str
    severity: Severity
    advice: str
    cwe: tuple[str, ...] = ()
    atlas: tuple[str, ...] = ()
    lowerable: bool = False
    repo_state: bool = False
    standing: bool = False  # a danger by being there, also in the first model files
    keeps_severity_at_birth: bool = False
    base: Base | None = None

    def find(self, context: Context) -> Iterable[Finding]:
        """The findings of this class among the revision's changes, rated (see `advisories.rules.rating`)."""
        from advisories.rules.rating import rate

        for change in context.changes:
            if change.cls == self.cls:
                severity, reason = rate(self, change, context)
                yield Finding(change=change, severity=severity, reason=reason)

    def holds(self, finding: Finding, observe: Observe) -> bool:
        """Whether the value the finding warned of is still there; a finding of the moment never holds on."""
        change = finding.change
        return bool(change.facet) and observe(change.facet) == change.after_digest
