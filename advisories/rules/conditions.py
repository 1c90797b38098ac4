"""Bases that depend on what a change's facts say."""

from __future__ import annotations

from advisories.rules.rating import Base
from storage.model import Change, Json, Severity


def when(fact: str, severity: Severity, reason: str) -> Base:
    """A base that applies when a fact is there and neither false, null nor empty."""

    def base(change: Change) -> tuple[Severity, str] | None:
        return (severity, reason) if change.facts.get(fact) else None

    return base


def equals(fact: str, value: Json, severity: Severity, reason: str) -> Base:
    """A base that applies when a fact has this value."""

    def base(change: Change) -> tuple[Severity, str] | None:
        return (severity, reason) if change.facts.get(fact) == value else None

    return base


def first_of(*bases: Base) -> Base:
    """The first base whose condition is met."""

    def base(change: Change) -> tuple[Severity, str] | None:
        return next((found for candidate in bases if (found := candidate(change)) is not None), None)

    return base


def listed(fact: str, severity: Severity, reason: str, *, most: int = 5, width: int = 60) -> Base:
    """As `when`, for a fact that is a list: its first items stand in the reason."""

    def base(change: Change) -> tuple[Severity, str] | None:
        items = change.facts.get(fact)
        if not isinstance(items, list | tuple) or not items:
            return None
        shown = ", ".join(str(item)[:width] for item in items[:most])
        more = f" and {len(items) - most} more" if len(items) > most else ""
        return severity, f"{reason}: {shown}{more}"

    return base
