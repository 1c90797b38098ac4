"""Refs and history: whether a pin still means what it meant."""

from __future__ import annotations

from advisories.rules.conditions import when
from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="history.rewritten",
        title="history rewritten",
        severity=Severity.HIGH,
        effect="Pinned commits may answer 404, and the evidence of what they held is gone.",
        advice="Check that your pins still resolve, and compare your copy of {before} with {after}.",
        cwe=("CWE-672", "CWE-345"),
        atlas=("AML.T0109",),
    ),
    Rule(
        cls="history.revert",
        title="tree restored to an earlier state",
        severity=Severity.INFO,
        effect="Every file is as it was at an earlier commit.",
        advice="Nothing to do; pins of the commits in between are the ones that differ from main.",
    ),
    Rule(
        cls="ref.moved",
        title="a tag or branch moved",
        severity=Severity.MEDIUM,
        effect="Who pinned the name now gets another commit.",
        advice="Pin the full commit sha instead of the name.",
        cwe=("CWE-672",),
        repo_state=True,
        base=when("forward", Severity.LOW, "the branch only gained commits, as branches do"),
    ),
    Rule(
        cls="ref.removed",
        title="a tag or branch was removed",
        severity=Severity.MEDIUM,
        effect="Pins of the name can no longer be resolved.",
        advice="Pin the full commit sha it pointed at: {before}.",
        cwe=("CWE-672",),
        repo_state=True,
    ),
    Rule(
        cls="ref.pr",
        title="an unmerged pull request brings weights",
        severity=Severity.LOW,
        effect="Some loaders pick converted weights from an unmerged pull request.",
        advice="Pin the revision and name the format you load.",
        cwe=("CWE-494",),
        repo_state=True,
    ),
)
