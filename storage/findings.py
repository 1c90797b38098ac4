"""Findings as rows and back: the same plain values in the table ``changes`` and inside an advisory."""

from __future__ import annotations

from collections.abc import Mapping

from storage.model import Change, Finding, Json, Severity, TrackedFinding


def to_row(finding: Finding) -> dict[str, Json]:
    """A finding by the columns of the table ``changes``."""
    change = finding.change
    return {
        "cls": change.cls,
        "severity": int(finding.severity),
        "reason": finding.reason,
        "path": change.path,
        "pointer": change.pointer,
        "before": change.before,
        "after": change.after,
        "summary": change.summary,
        "facet": change.facet,
        "before_digest": change.before_digest,
        "after_digest": change.after_digest,
        "facts": dict(change.facts),
    }


def from_row(row: Mapping[str, Json]) -> Finding:
    """The finding that `to_row` was given; further keys are ignored."""
    return Finding(
        change=Change(
            cls=row["cls"],
            path=row["path"],
            summary=row["summary"],
            pointer=row["pointer"],
            before=row["before"],
            after=row["after"],
            facet=row["facet"],
            before_digest=row["before_digest"],
            after_digest=row["after_digest"],
            facts=row["facts"],
        ),
        severity=Severity(row["severity"]),
        reason=row["reason"],
    )


def tracked_to_json(item: TrackedFinding) -> dict[str, Json]:
    """A tracked finding as one JSON object."""
    return {**to_row(item.finding), "holds": item.holds, "ended_by": item.ended_by}


def tracked_from_json(data: Mapping[str, Json]) -> TrackedFinding:
    """The tracked finding that `tracked_to_json` was given."""
    return TrackedFinding(finding=from_row(data), holds=data["holds"], ended_by=data["ended_by"])
