"""Policies: which rule decides, what it may do, and when it ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from advisories.policy import Action, Policy, PolicyRule
from storage.errors import UsageError
from storage.model import Advisory, Change, Finding, RepoRef, Severity, Span, TrackedFinding
from tracker.settings import load_settings

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def advisory(*paths: str, cls: str = "weights.replaced", severity: Severity = Severity.HIGH) -> Advisory:
    findings = tuple(
        TrackedFinding(
            finding=Finding(
                change=Change(cls=cls, path=path, summary="changed", facts={"paths": [path]} if path else {}),
                severity=severity,
                reason="class severity",
            )
        )
        for path in paths
    )
    return Advisory(
        id="x_HUBWATCH-2026-2222-2222-2222",
        repo=RepoRef(owner="Acme", name="Tiny"),
        cls=cls,
        severity=severity,
        reason="class severity",
        introduced="a" * 40,
        predecessor=None,
        ref="main",
        findings=findings,
        spans=(Span(introduced="a" * 40),),
        published=NOW,
        modified=NOW,
    )


def rule(action: Action, **fields: Any) -> PolicyRule:
    return PolicyRule(
        **{"action": action, "owner": "sec", "reason": "so we decided", "expires": date(2026, 6, 1)} | fields
    )


def test_no_rule_changes_nothing() -> None:
    item = advisory("model.bin")
    assert Policy().apply(item, NOW) is item
    assert Policy((rule(Action.SILENCE, repo="other/*"),)).apply(item, NOW) is item
    assert Policy((rule(Action.RAISE, cls="code.*"),)).decide(item, NOW).rule is None


def test_silencing_goes_before_all_else() -> None:
    policy = Policy((rule(Action.RAISE), rule(Action.SILENCE, repo="acme/*", cls="weights.*")))
    assert policy.apply(advisory("model.bin"), NOW) is None
    assert policy.decide(advisory("model.bin"), NOW).silenced


def test_the_first_rule_that_applies_decides_and_says_who_and_why() -> None:
    policy = Policy((rule(Action.LOWER, to=Severity.LOW), rule(Action.RAISE)))
    shown = policy.apply(advisory("model.bin"), NOW)
    assert shown is not None
    assert shown.severity is Severity.LOW
    assert shown.reason == "class severity; lowered from high by policy of sec: so we decided"


@pytest.mark.parametrize(
    ("action", "to", "before", "after"),
    [
        (Action.RAISE, None, Severity.HIGH, Severity.CRITICAL),
        (Action.RAISE, None, Severity.CRITICAL, Severity.CRITICAL),
        (Action.RAISE, Severity.LOW, Severity.HIGH, Severity.HIGH),
        (Action.LOWER, None, Severity.LOW, Severity.INFO),
        (Action.LOWER, None, Severity.INFO, Severity.INFO),
        (Action.LOWER, Severity.CRITICAL, Severity.LOW, Severity.LOW),
    ],
)
def test_a_rule_moves_a_severity_one_way_and_within_bounds(
    action: Action, to: Severity | None, before: Severity, after: Severity
) -> None:
    item = advisory("model.bin", severity=before)
    shown = Policy((rule(action, to=to),)).apply(item, NOW)
    assert shown is not None
    assert shown.severity is after
    assert (shown is item) == (before is after)


def test_hiding_needs_every_path_and_raising_one() -> None:
    both = advisory("docs/a.bin", "model.bin")
    assert Policy((rule(Action.SILENCE, path="docs/*"),)).apply(both, NOW) is both
    assert Policy((rule(Action.SILENCE, path="docs/*"),)).apply(advisory("docs/a/b.bin"), NOW) is None
    raised = Policy((rule(Action.RAISE, path="docs/*"),)).apply(both, NOW)
    assert raised is not None
    assert raised.severity is Severity.CRITICAL


def test_what_names_no_path_is_not_reached_by_a_rule_with_one() -> None:
    state = advisory("", cls="repo.deleted")
    assert Policy((rule(Action.SILENCE, path="*"),)).apply(state, NOW) is state
    assert Policy((rule(Action.SILENCE),)).apply(state, NOW) is None


def test_a_rule_holds_through_its_last_day() -> None:
    policy = Policy((rule(Action.SILENCE, expires=date(2026, 5, 1)),))
    item = advisory("model.bin")
    assert policy.apply(item, NOW.replace(hour=23, minute=59)) is None
    assert policy.apply(item, NOW.replace(hour=0) + timedelta(days=1)) is item
    assert policy.expired(NOW + timedelta(days=1)) == policy.rules


def test_a_policy_leaves_what_is_stored_alone() -> None:
    item = advisory("model.bin")
    kept = replace(item)
    Policy((rule(Action.LOWER),)).apply(item, NOW)
    assert item == kept


def test_nobody_answers_for_a_rule_without_owner_or_reason() -> None:
    with pytest.raises(UsageError):
        rule(Action.LOWER, owner=" ")
    with pytest.raises(UsageError):
        rule(Action.SILENCE, to=Severity.LOW)


@pytest.fixture
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hubwatch.toml"


def test_rules_stand_in_the_settings_file(settings_file: Path) -> None:
    settings_file.write_text(
        '[[policy]]\naction = "lower"\nrepo = "acme/*"\nclass = "weights.*"\nto = "low"\nowner = "ml"\n'
        'reason = "pinned"\nexpires = 2026-12-31\n'
    )
    (found,) = load_settings().house_policy.rules
    assert (found.action, found.cls, found.to, found.expires) == (
        Action.LOWER,
        "weights.*",
        Severity.LOW,
        date(2026, 12, 31),
    )


@pytest.mark.parametrize(
    "text",
    [
        '[[policy]]\naction = "silence"\nreason = "r"\nexpires = 2026-12-31\n',
        '[[policy]]\naction = "silence"\nowner = "o"\nreason = "r"\n',
        '[[policy]]\naction = "hide"\nowner = "o"\nreason = "r"\nexpires = 2026-12-31\n',
        '[[policy]]\naction = "lower"\nto = "tiny"\nowner = "o"\nreason = "r"\nexpires = 2026-12-31\n',
        '[[policy]]\naction = "lower"\nclas = "x"\nowner = "o"\nreason = "r"\nexpires = 2026-12-31\n',
    ],
)
def test_a_rule_that_is_not_whole_is_refused(settings_file: Path, text: str) -> None:
    settings_file.write_text(text)
    with pytest.raises(UsageError, match="policy"):
        load_settings()
