"""A repo as a row of values: each facet has one value a revision, and every change of it is a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from advisories.ledger import Step, advance
from storage.model import (
    Advisory,
    AdvisoryAction,
    AdvisoryEvent,
    Change,
    Finding,
    RepoRef,
    Revision,
    Severity,
    digest,
)

REPO = RepoRef(owner="acme", name="tiny-llm")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CREATED = datetime(2026, 1, 1, tzinfo=UTC)

# The classes that a change of a facet is reported under.
CLASSES: dict[str, tuple[str, ...]] = {
    "config:rope": ("config.rope",),
    "config:eos": ("tokens.eos",),
    "config:pad": ("tokens.eos",),
    "template:chat": ("template.semantic", "template.tools"),
    "card:text": ("card.only",),
}


def sha(number: int) -> str:
    """The sha of a revision by its place."""
    return f"{number + 1:040x}"


def value_digest(value: str | None) -> str | None:
    return None if value is None else digest(value)


def revision(number: int) -> Revision:
    return Revision(
        sha=sha(number),
        committed_at=START + timedelta(days=number),
        author="ann",
        title=f"commit {number}",
        parents=(sha(number - 1),) if number else (),
    )


def finding(
    facet: str,
    before: str | None,
    after: str | None,
    *,
    cls: str = "config.rope",
    severity: Severity = Severity.HIGH,
    **facts: object,
) -> Finding:
    change = Change(
        cls=cls,
        path="config.json",
        summary=f"{facet} {before} -> {after}",
        pointer="/" + facet.partition(":")[2],
        before=before,
        after=after,
        facet=facet,
        before_digest=value_digest(before),
        after_digest=value_digest(after),
        facts=facts,
    )
    return Finding(change=change, severity=severity, reason="class severity")


def differences(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[Finding]:
    return [
        finding(facet, before.get(facet), after.get(facet), cls=cls)
        for facet in sorted({*before, *after})
        if before.get(facet) != after.get(facet)
        for cls in CLASSES[facet]
    ]


@dataclass
class Story:
    """Lands one revision after another and keeps what the ledger says."""

    state: tuple[Advisory, ...] = ()
    values: Mapping[str, str | None] = field(default_factory=dict)
    position: int = 0
    events: list[AdvisoryEvent] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @staticmethod
    def clock(number: int) -> datetime:
        """When a revision is observed: an hour after it was committed."""
        return START + timedelta(days=number, hours=1)

    def step(
        self,
        values: Mapping[str, str | None],
        *,
        findings: Sequence[Finding] | None = None,
        predecessor: str | None = "",
        horizon: bool = False,
    ) -> Step:
        """What the ledger makes of the next revision, without keeping it."""
        before = sha(self.position - 1) if self.position else None
        made = differences(self.values, values) if self.position and not horizon else []
        return advance(
            self.state,
            repo=REPO,
            ref="main",
            revision=revision(self.position),
            predecessor=before if predecessor == "" else predecessor,
            findings=made if findings is None else findings,
            observe=lambda facet: value_digest(values.get(facet)),
            now=self.clock(self.position),
            repo_created_at=CREATED,
            horizon=horizon,
        )

    def land(self, values: Mapping[str, str | None], **options: object) -> Step:
        step = self.step(values, **options)  # type: ignore[arg-type]
        self.state = step.apply(self.state)
        self.values, self.position = dict(values), self.position + 1
        self.events += step.events
        self.steps.append(step)
        return step

    def rope(self, *chain: str | None) -> Story:
        for value in chain:
            self.land({"config:rope": value})
        return self

    def of(self, value: str | None, cls: str | None = None) -> Advisory:
        """The one advisory that warns of a value."""
        (found,) = [
            advisory
            for advisory in self.state
            if any(item.finding.change.after == value for item in advisory.findings)
            and (cls is None or advisory.cls == cls)
        ]
        return found

    def actions(self, advisory: Advisory) -> list[tuple[AdvisoryAction, str | None]]:
        return [(event.action, event.sha) for event in self.events if event.advisory_id == advisory.id]
