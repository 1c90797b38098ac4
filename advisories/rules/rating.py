"""How grave a change is, and why, in words.

The base is the class's own severity, or what the class's condition makes of it. From there it is
**raised** by one step at most, whatever the number of reasons, and never from ``info``; or **lowered** by
one step, never below ``low``, for the few classes that allow it and only on evidence: every probe of the
changed value ran and gave the same on both sides, and headers and estimates are equal too. No probe is no
evidence. What raises a change also keeps it from being lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from advisories.rules.context import Context
from storage.model import Change, Estimate, ProbeOutcome, Severity

# The severity by the class's condition and why; None where the condition is not met.
Base = Callable[[Change], tuple[Severity, str] | None]

CLASS_REASON = "class severity"

# Accounts that commit to many repos by themselves: a first commit by one says nothing about its repo.
KNOWN_BOTS = frozenset(
    {
        "system",  # the Hub's own first commit
        "SFconvertbot",
        "librarian-bot",
        "librarian-bots",
        "leaderboard-pr-bot",
        "model-sizer-bot",
        "parquet-converter",
        "dependabot[bot]",
        "github-actions[bot]",
    }
)

# What runs on load: its arrival makes everything else in the commit graver, but not itself.
EXECUTABLE = frozenset({"code.auto_map_added", "code.changed", "code.cross_repo", "weights.pickle_added"})
_HISTORY = frozenset({"history.rewritten", "history.revert"})
_THIRD_COMMIT = 2
_FIGURES = ("parameters", "checkpoint", "lora", "memory", "tokens", "cards", "cost", "layers")


class Graded(Protocol):
    """What rating needs to know of a rule."""

    @property
    def cls(self) -> str:
        """The change class."""
        ...

    @property
    def severity(self) -> Severity:
        """The base severity."""
        ...

    @property
    def lowerable(self) -> bool:
        """Whether evidence may lower it."""
        ...

    @property
    def keeps_severity_at_birth(self) -> bool:
        """Whether it is as grave in the first model files."""
        ...

    @property
    def base(self) -> Base | None:
        """The class's condition."""
        ...


def rate(rule: Graded, change: Change, context: Context) -> tuple[Severity, str]:
    """The severity of a change within its revision, and the reason in words."""
    severity, reason = base_of(rule, change)
    if context.since_first or change.facts.get("since_first"):
        return _at_birth(rule, severity, reason)
    raising = list(_raises(change, context))
    if raising and severity is Severity.INFO:
        return severity, reason
    if raising:
        why = "; ".join(raising)
        if severity is Severity.CRITICAL:
            return severity, f"{reason}; already the highest, and {why}"
        return Severity(severity + 1), f"{reason} ({severity.label}), raised one step: {why}"
    if rule.lowerable and severity > Severity.LOW and _all_equal(change, context):
        lowered = Severity(severity - 1)
        return lowered, f"{reason} ({severity.label}), lowered one step: probes, headers and estimates are equal"
    return severity, reason


def base_of(rule: Graded, change: Change) -> tuple[Severity, str]:
    """The severity before the revision is looked at: by the class's condition, else the class's own."""
    conditional = rule.base(change) if rule.base is not None else None
    return conditional or (rule.severity, CLASS_REASON)


def _at_birth(rule: Graded, severity: Severity, reason: str) -> tuple[Severity, str]:
    if rule.keeps_severity_at_birth or severity <= Severity.MEDIUM:
        return severity, f"{reason}; there since the first model files"
    return Severity.MEDIUM, f"{reason} ({severity.label}), medium because it is there since the first model files"


def _raises(change: Change, context: Context) -> Iterable[str]:
    if context.before is None or change.facts.get("arrival"):
        return  # a part of the model that arrives has nothing before it, nor an author to be new beside
    author = context.revision.author
    if context.position >= _THIRD_COMMIT and author not in context.known_authors and author not in KNOWN_BOTS:
        yield "the author is new to the repo"
    if change.cls not in EXECUTABLE:
        companions = {other.cls for other in context.changes} & EXECUTABLE
        if companions - {"weights.pickle_added"}:
            yield "code changed in the same commit"
        if "weights.pickle_added" in companions:
            yield "a pickle was added in the same commit"
    if context.rewritten and change.cls not in _HISTORY:
        yield "history was rewritten"


def _all_equal(change: Change, context: Context) -> bool:
    before, after = context.before, context.after
    probes = context.probes.get(change.facet, ()) if change.facet else ()
    return (
        before is not None
        and bool(probes)
        and all(probe.outcome is ProbeOutcome.EQUAL for probe in probes)
        and any(probe.before is not None for probe in probes)  # two refusals show nothing
        and not before.gaps
        and not after.gaps
        and before.tensor_files == after.tensor_files
        and _same_estimate(*context.estimates)
    )


def _same_estimate(before: Estimate | None, after: Estimate | None) -> bool:
    if before is None or after is None:
        return before is after
    return (
        (before.estimator, before.version, before.status) == (after.estimator, after.version, after.status)
    ) and all(before.body.get(key) == after.body.get(key) for key in _FIGURES)
