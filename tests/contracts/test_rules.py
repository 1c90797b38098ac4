"""Every rule keeps the contract, whatever family it is of."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from advisories.rules.interface import Context, Rule, holds
from advisories.rules.judge import judge, judge_state
from advisories.rules.rating import EXECUTABLE
from advisories.rules.registry import load, rule_of
from storage.errors import UsageError
from storage.model import Change, Manifest, Revision, Severity, Snapshot, digest

RULES = load()
LOWERABLE = {"template.semantic", "template.moved"}
NEVER_LOWERED = ("code.", "weights.", "repo.", "history.", "licence.", "ref.", "signature.")


def snapshot() -> Snapshot:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    revision = Revision(sha="b" * 40, committed_at=moment, author="ann", title="a commit")
    return Snapshot(revision=revision, manifest=Manifest(files={}))


def change(cls: str, **facts: object) -> Change:
    return Change(
        cls=cls,
        path="config.json",
        summary="a value changed",
        before=1,
        after=2,
        facet=f"test:{cls}",
        before_digest=digest(1),
        after_digest=digest(2),
        facts=facts,
    )


def context(*changes: Change, **options: object) -> Context:
    return Context(before=snapshot(), after=snapshot(), changes=changes, **options)  # type: ignore[arg-type]


@pytest.mark.corpus
def test_classes_severities_and_weaknesses_are_those_agreed_on(corpus: Path) -> None:
    agreed = json.loads((corpus / "reference" / "classes.json").read_text())
    assert {item["change_class"]: (item["severity"], item["cwe"], item["atlas"]) for item in agreed} == {
        rule.cls: (rule.severity.label, list(rule.cwe), list(rule.atlas)) for rule in RULES
    }


def test_the_registry_is_sorted_and_names_each_class_once() -> None:
    classes = [rule.cls for rule in RULES]
    assert classes == sorted(set(classes))
    assert len(classes) == 78


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown change class"):
        rule_of("no.such")
    with pytest.raises(UsageError):
        judge(context(change("no.such")))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.cls)
class TestRule:
    def test_it_says_what_happened_what_that_does_and_what_to_do(self, rule: Rule) -> None:
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", rule.cls)
        assert rule.title
        assert len(rule.title) <= 60
        assert not rule.title.endswith(".")
        for sentence in (rule.effect, rule.advice):
            assert len(sentence) >= 12
            assert sentence[0].isupper()
            assert sentence.endswith(".")
        left = rule.advise(before="a" * 40, after="b" * 40)
        assert "{" not in left
        assert "None" not in rule.advise(before=None, after="b" * 40)

    def test_its_ids_have_the_form_of_their_catalogues(self, rule: Rule) -> None:
        assert all(re.fullmatch(r"CWE-[0-9]{1,4}", cwe) for cwe in rule.cwe)
        assert all(re.fullmatch(r"AML\.T[0-9]{4}(\.[0-9]{3})?", atlas) for atlas in rule.atlas)

    def test_only_the_classes_that_may_be_lowered_can_be(self, rule: Rule) -> None:
        assert rule.lowerable == (rule.cls in LOWERABLE or rule.cls.startswith("config."))
        assert not (rule.lowerable and rule.cls.startswith(NEVER_LOWERED))

    def test_it_finds_its_own_changes_and_no_others(self, rule: Rule) -> None:
        mine, other = change(rule.cls), change("file.other" if rule.cls != "file.other" else "card.only")
        found = list(rule.find(context(mine, other)))
        assert [finding.change for finding in found if finding.change is mine] == [mine]
        assert all(finding.cls == rule.cls for finding in found)

    def test_the_base_severity_is_its_own_and_the_reason_is_in_words(self, rule: Rule) -> None:
        (finding,) = [item for item in judge(context(change(rule.cls))) if item.cls == rule.cls]
        assert finding.severity is rule.severity
        assert finding.reason == "class severity"
        assert judge_state(change(rule.cls)).severity is rule.severity

    def test_a_finding_holds_while_its_value_is_there(self, rule: Rule) -> None:
        (finding,) = [item for item in judge(context(change(rule.cls))) if item.cls == rule.cls]
        assert holds(finding.change, lambda _: digest(2))
        assert not holds(finding.change, lambda _: digest(1))
        assert not holds(finding.change, lambda _: None)

    def test_info_is_never_raised_and_nothing_is_raised_by_more_than_a_step(self, rule: Rule) -> None:
        everything = context(
            change(rule.cls),
            change("code.changed"),
            change("weights.pickle_added"),
            position=7,
            known_authors=frozenset({"bob"}),
            rewritten=True,
        )
        (finding,) = [
            item for item in judge(everything) if item.cls == rule.cls and item.change.facet[5:] == rule.cls
        ][:1]
        step = 0 if rule.severity is Severity.INFO else 1
        assert finding.severity == min(rule.severity + step, Severity.CRITICAL)

    def test_at_birth_only_two_dangers_keep_more_than_medium(self, rule: Rule) -> None:
        (finding,) = [item for item in judge(context(change(rule.cls, since_first=True))) if item.cls == rule.cls]
        if rule.cls in {"template.unsafe", "template.hidden_chars"}:
            assert finding.severity is rule.severity
        else:
            assert finding.severity == min(rule.severity, Severity.MEDIUM)


def test_what_runs_on_load_is_a_standing_danger() -> None:
    assert all(rule_of(cls).standing for cls in EXECUTABLE)


def test_states_of_the_repo_are_marked() -> None:
    states = {rule.cls for rule in RULES if rule.repo_state}
    assert states == {
        "repo.owner_changed",
        "repo.lookalike",
        "repo.deleted",
        "repo.gated",
        "repo.disabled",
        "repo.private",
        "repo.renamed",
        "ref.moved",
        "ref.removed",
        "ref.pr",
    }
