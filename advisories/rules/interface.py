"""What a rule is: one change class, how grave it is, which weaknesses it maps to, what to do about it.

A rule answers two questions. `Rule.find`: which changes of a revision are findings of this class, how
grave and why. `Rule.holds`: does a finding still stand in a later snapshot. Both are pure.

A module of this package that exports ``RULES``, a tuple of rules, is found by `advisories.rules.registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from advisories.rules.context import Context, Observe
from advisories.rules.rating import Base, rate
from storage.model import Change, Finding, Severity

__all__ = ["Base", "Context", "Derive", "Observe", "Rule", "holds"]

# Changes that no differ reports, because they follow from others and from what the repo is.
Derive = Callable[[Context], Iterable[Change]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One change class.

    Attributes:
        cls: The change class, ``family.name``.
        title: What happened, as the end of a sentence that starts with the repo's name.
        severity: The base severity.
        effect: What it does to the people downstream, one sentence.
        advice: What to do, one sentence; ``{before}`` and ``{after}`` stand for short shas.
        cwe: Weakness ids (CWE).
        atlas: Technique ids (MITRE ATLAS).
        lowerable: Whether equal probes, headers and estimates may lower it by one step.
        repo_state: Whether it is a state of the repo, which has no introducing commit.
        standing: Whether it is a danger by being there, also in the first model files.
        keeps_severity_at_birth: Whether it is as grave in the first model files as when added later.
        base: Replaces ``severity`` where the class names a condition ("critical if new exec").
        derive: Makes further changes of this class from the others of the revision.

    """

    cls: str
    title: str
    severity: Severity
    effect: str
    advice: str
    cwe: tuple[str, ...] = ()
    atlas: tuple[str, ...] = ()
    lowerable: bool = False
    repo_state: bool = False
    standing: bool = False
    keeps_severity_at_birth: bool = False
    base: Base | None = None
    derive: Derive | None = None

    def find(self, context: Context) -> Iterable[Finding]:
        """The findings of this class among the revision's changes, rated (see `advisories.rules.rating`)."""
        yield from (self._judge(change, context) for change in context.changes if change.cls == self.cls)
        if self.derive is not None:
            yield from (self._judge(change, context) for change in self.derive(context))

    def advise(self, *, before: str | None, after: str) -> str:
        """The advice with the shas of the revisions on both sides, seven digits each."""
        earlier = before[:7] if before else "the last commit you trust"
        return self.advice.replace("{before}", earlier).replace("{after}", after[:7])

    def _judge(self, change: Change, context: Context) -> Finding:
        severity, reason = rate(self, change, context)
        return Finding(change=change, severity=severity, reason=reason)


def holds(change: Change, observe: Observe) -> bool:
    """Whether the value that a change brought is still there; a change of the moment never ends."""
    return not change.facet or observe(change.facet) == change.after_digest
