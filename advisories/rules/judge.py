"""Every rule over every change of a revision."""

from __future__ import annotations

from dataclasses import replace

from advisories.rules.interface import Context
from advisories.rules.rating import base_of
from advisories.rules.registry import load, rule_of
from storage.model import Change, Finding


def judge(context: Context) -> tuple[Finding, ...]:
    """All findings of a revision: in the order of its changes, what rules derived from them last.

    Every change is a finding of its own class; UsageError when a differ names a class that has no rule.
    """
    for cls in {change.cls for change in context.changes}:
        rule_of(cls)
    if context.since_first:
        context = replace(context, changes=[_born_with(change) for change in context.changes])
    place = {id(change): index for index, change in enumerate(context.changes)}
    found = [finding for rule in load() for finding in rule.find(context)]
    return tuple(sorted(found, key=lambda finding: place.get(id(finding.change), len(place))))


def _born_with(change: Change) -> Change:
    standing = rule_of(change.cls).standing
    return replace(change, facts={**change.facts, "since_first": True}) if standing else change


def judge_state(change: Change) -> Finding:
    """A repo-state change as a finding: there is no revision to raise or lower it by."""
    severity, reason = base_of(rule_of(change.cls), change)
    return Finding(change=change, severity=severity, reason=reason)
