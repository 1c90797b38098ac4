"""What a house thinks of advisories: rules that silence, raise or lower them where people and tools meet them.

A policy changes what feeds, notifications and audits show, never what is stored: documents, ids and history are
the same in every installation. Each rule has an owner, a reason and a day on which it ends.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase

from storage.errors import UsageError
from storage.model import Advisory, Severity


class Action(enum.StrEnum):
    """What a rule does."""

    SILENCE = "silence"
    RAISE = "raise"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a rule looks at, of an advisory or of its document: ``owner/name``, class, paths, severity."""

    repo: str
    cls: str
    severity: Severity
    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, advisory: Advisory) -> Subject:
        """An advisory as a subject."""
        return cls(
            repo=advisory.repo.id,
            cls=advisory.cls,
            severity=advisory.severity,
            paths=frozenset(_paths(advisory)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule.

    Attributes:
        action: What it does.
        repo: A pattern for ``owner/name``.
        cls: A pattern for the change class.
        path: A pattern for paths; None for any, and for advisories that name none.
        to: The severity to raise or lower to; None for one step.
        owner: Who answers for it.
        reason: Why, in words that are shown beside a changed severity.
        expires: The last day on which it applies, in UTC.

    Patterns know ``*``, ``?`` and ``[...]``; ``*`` goes over slashes. Repos are compared without case, as the
    Hub does. Where an advisory names several paths, silencing and lowering need them all to match, raising one.

    """

    action: Action
    owner: str
    reason: str
    expires: date
    repo: str = "*"
    cls: str = "*"
    path: str | None = None
    to: Severity | None = None

    def __post_init__(self) -> None:
        """Refuse a rule that nobody answers for. Raises UsageError."""
        if not self.owner.strip() or not self.reason.strip():
            raise UsageError("a policy rule has no owner or no reason", help="give both: who decided, and why")
        if self.action is Action.SILENCE and self.to is not None:
            raise UsageError("a policy rule that silences has a severity", help="leave out `to`, or lower instead")

    def applies(self, subject: Subject, at: datetime) -> bool:
        """Whether the rule speaks of a subject at a time."""
        return (
            at < self.ends
            and fnmatchcase(subject.repo.lower(), self.repo.lower())
            and fnmatchcase(subject.cls, self.cls)
            and self._paths_fit(subject)
        )

    @property
    def ends(self) -> datetime:
        """The first moment at which it no longer applies."""
        return datetime.combine(self.expires, time(), UTC) + timedelta(days=1)

    def severity(self, severity: Severity) -> Severity:
        """What becomes of a severity: never below info, never above critical, never the other way."""
        match self.action:
            case Action.RAISE:
                return max(severity, self.to if self.to is not None else Severity(min(severity + 1, 4)))
            case Action.LOWER:
                return min(severity, self.to if self.to is not None else Severity(max(severity - 1, 0)))
            case _:
                return severity

    def _paths_fit(self, subject: Subject) -> bool:
        if self.path is None:
            return True
        fits = [fnmatchcase(path, self.path) for path in subject.paths]
        return any(fits) if self.action is Action.RAISE else bool(fits) and all(fits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy makes of an advisory: the rule that decided (None: no rule speaks of it) and the outcome.

    ``advisory`` is None when it is silenced.
    """

    advisory: Advisory | None
    rule: PolicyRule | None = None

    @property
    def silenced(self) -> bool:
        """Whether it is not to be shown."""
        return self.advisory is None


@dataclass(frozen=True, slots=True)
class Policy:
    """A house's rules. Silencing goes before all else; of the others, the first that applies decides."""

    rules: tuple[PolicyRule, ...] = ()

    def apply(self, advisory: Advisory, at: datetime) -> Advisory | None:
        """The advisory as the house sees it: None when silenced, else with its severity and why."""
        return self.decide(advisory, at).advisory

    def decide(self, advisory: Advisory, at: datetime) -> Decision:
        """As `apply`, with the rule that decided."""
        severity, rule = self.judge(Subject.of(advisory), at)
        if severity is None:
            return Decision(advisory=None, rule=rule)
        if rule is None or severity is advisory.severity:
            return Decision(advisory=advisory, rule=rule)
        done = "raised" if severity > advisory.severity else "lowered"
        why = f"{advisory.reason}; {done} from {advisory.severity.label} by policy of {rule.owner}: {rule.reason}"
        return Decision(advisory=replace(advisory, severity=severity, reason=why), rule=rule)

    def judge(self, subject: Subject, at: datetime) -> tuple[Severity | None, PolicyRule | None]:
        """The severity a house gives a subject (None: silenced), and the rule that decided, if any did."""
        fitting = [rule for rule in self.rules if rule.applies(subject, at)] if self.rules else []
        silent = next((rule for rule in fitting if rule.action is Action.SILENCE), None)
        if silent is not None:
            return None, silent
        if not fitting:
            return subject.severity, None
        return fitting[0].severity(subject.severity), fitting[0]

    def expired(self, at: datetime) -> tuple[PolicyRule, ...]:
        """The rules that no longer apply, for whoever keeps the list short."""
        return tuple(rule for rule in self.rules if at >= rule.ends)


def _paths(advisory: Advisory) -> Iterator[str]:
    for item in advisory.findings:
        change = item.finding.change
        if change.path:
            yield change.path
        others = change.facts.get("paths")
        if isinstance(others, list | tuple):
            yield from (path for path in others if isinstance(path, str) and path)
