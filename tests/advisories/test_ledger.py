from __future__ import annotations

from datetime import timedelta

import pytest

from advisories.ledger import advance, rewind
from storage.model import AdvisoryAction, Severity, Span
from tests.advisories.story import CREATED, REPO, START, Story, finding, revision, sha, value_digest

OPENED, FIXED = AdvisoryAction.OPENED, AdvisoryAction.FIXED
SUPERSEDED, REINTRODUCED = AdvisoryAction.SUPERSEDED, AdvisoryAction.REINTRODUCED


def test_the_first_revision_is_compared_with_nothing() -> None:
    story = Story().rope("A")
    assert story.state == ()
    assert story.events == []


def test_a_change_opens_an_advisory() -> None:
    story = Story().rope("A", "B")
    (advisory,) = story.state
    assert advisory.open
    assert advisory.spans == (Span(introduced=sha(1)),)
    assert (advisory.introduced, advisory.predecessor) == (sha(1), sha(0))
    assert advisory.published == advisory.modified == START + timedelta(days=1, hours=1)
    assert story.actions(advisory) == [(OPENED, sha(1))]


def test_it_stays_open_while_the_value_stays_and_nothing_is_touched() -> None:
    story = Story().rope("A", "B", "B", "B")
    assert story.of("B").modified == story.of("B").published
    assert not story.steps[-1].advisories


def test_restored_is_fixed_at_that_commit() -> None:
    story = Story().rope("A", "B", "B", "A")
    (advisory,) = story.state
    assert not advisory.open
    assert advisory.spans == (Span(introduced=sha(1), fixed=sha(3)),)
    assert advisory.findings[0].ended_by == "restored"
    assert advisory.superseded_by is None
    assert advisory.modified == START + timedelta(days=3, hours=1)
    assert story.actions(advisory) == [(OPENED, sha(1)), (FIXED, sha(3))]


def test_changed_again_is_superseded_by_a_new_advisory() -> None:
    story = Story().rope("A", "B", "B", "C")
    old, new = story.of("B"), story.of("C")
    assert old.spans == (Span(introduced=sha(1), last_affected=sha(2)),)
    assert old.superseded_by == new.id
    assert old.findings[0].ended_by == "superseded"
    assert new.spans == (Span(introduced=sha(3)),)
    assert story.actions(old) == [(OPENED, sha(1)), (SUPERSEDED, sha(3))]


def test_a_return_to_the_start_of_a_chain_closes_and_opens_nothing() -> None:
    story = Story().rope("A", "B", "C", "A")
    assert len(story.state) == 2
    assert story.of("B").spans == (Span(introduced=sha(1), last_affected=sha(1)),)
    assert story.of("C").spans == (Span(introduced=sha(2), fixed=sha(3)),)
    assert not any(advisory.open for advisory in story.state)


def test_a_return_to_a_value_with_an_advisory_reintroduces_it() -> None:
    story = Story().rope("A", "B", "C", "B")
    old, new = story.of("B"), story.of("C")
    assert old.open
    assert old.superseded_by is None
    assert old.spans == (Span(introduced=sha(1), last_affected=sha(1)), Span(introduced=sha(3)))
    assert new.spans == (Span(introduced=sha(2), fixed=sha(3)),)
    assert story.actions(old) == [(OPENED, sha(1)), (SUPERSEDED, sha(2)), (REINTRODUCED, sha(3))]
    assert story.actions(new) == [(OPENED, sha(2)), (FIXED, sha(3))]


def test_the_same_change_coming_back_adds_another_introduced() -> None:
    story = Story().rope("A", "B", "A", "B", "A")
    (advisory,) = story.state
    assert advisory.spans == (Span(introduced=sha(1), fixed=sha(2)), Span(introduced=sha(3), fixed=sha(4)))


def test_a_key_that_goes_and_returns() -> None:
    story = Story().rope("A", None, "A", "B", None)
    assert story.of(None).spans == (Span(introduced=sha(1), fixed=sha(2)), Span(introduced=sha(4)))
    assert story.of("B").spans == (Span(introduced=sha(3), fixed=sha(4)),)


def test_one_advisory_lists_every_finding_of_its_class() -> None:
    story = Story()
    story.land({"config:eos": "1", "config:pad": "1"})
    story.land({"config:eos": "2", "config:pad": "2"})
    (advisory,) = story.state
    assert [item.finding.change.facet for item in advisory.findings] == ["config:eos", "config:pad"]


def test_open_while_any_finding_holds_and_last_affected_when_not_all_were_restored() -> None:
    story = Story()
    story.land({"config:eos": "1", "config:pad": "1"})
    story.land({"config:eos": "2", "config:pad": "2"})
    story.land({"config:eos": "1", "config:pad": "2"})
    first = story.state[0]
    assert first.open
    assert first.spans == (Span(introduced=sha(1)),)
    assert [item.holds for item in first.findings] == [False, True]
    story.land({"config:eos": "1", "config:pad": "3"})
    first = story.state[0]
    assert first.spans == (Span(introduced=sha(1), last_affected=sha(2)),)
    assert first.superseded_by == story.of("3").id
    assert [item.ended_by for item in first.findings] == ["restored", "superseded"]


def test_all_findings_restored_one_after_another_is_fixed_at_the_last() -> None:
    story = Story()
    for eos, pad in [("1", "1"), ("2", "2"), ("1", "2"), ("1", "1")]:
        story.land({"config:eos": eos, "config:pad": pad})
    (advisory,) = story.state
    assert advisory.spans == (Span(introduced=sha(1), fixed=sha(3)),)


def test_the_successor_is_of_the_same_class_where_there_is_one() -> None:
    story = Story()
    for value in "AB", "CD", "EF":
        story.land({"template:chat": value})
    for cls in "template.semantic", "template.tools":
        assert story.of("CD", cls).superseded_by == story.of("EF", cls).id


def test_a_successor_of_another_class_is_named_too() -> None:
    story = Story().rope("A", "B")
    other = finding("config:rope", "B", "C", cls="config.context")
    story.land({"config:rope": "C"}, findings=[other])
    assert story.of("B").superseded_by == story.of("C").id


def test_one_finding_restored_and_one_superseded_by_the_same_commit() -> None:
    story = Story()
    for eos, pad in [("1", "1"), ("2", "1"), ("3", "2"), ("2", "3")]:
        story.land({"config:eos": eos, "config:pad": pad})
    middle = next(a for a in story.state if a.introduced == sha(2))
    assert middle.spans == (Span(introduced=sha(2), last_affected=sha(2)),)
    assert middle.superseded_by == next(a for a in story.state if a.introduced == sha(3)).id
    first = next(a for a in story.state if a.introduced == sha(1))
    assert first.spans == (Span(introduced=sha(1), last_affected=sha(1)), Span(introduced=sha(3)))


def test_standing_dangers_hold_until_they_are_gone() -> None:
    danger = finding("config:rope", None, "danger", cls="weights.pickle_added", since_first=True)
    story = Story()
    story.land({"config:rope": "danger"}, findings=[danger])
    (advisory,) = story.state
    assert advisory.context["since_first"] is True
    assert advisory.predecessor is None
    story.rope("danger", "danger")
    assert story.of("danger").open
    story.rope(None)
    assert story.of("danger").spans == (Span(introduced=sha(0), fixed=sha(3)),)


def test_at_the_horizon_of_a_cut_history_it_was_introduced_before() -> None:
    story = Story()
    story.land({"config:rope": "X"}, findings=[finding("config:rope", None, "X")], horizon=True)
    (advisory,) = story.state
    assert advisory.introduced == sha(0)
    assert advisory.spans == (Span(introduced="0"),)


def test_a_finding_of_the_moment_never_ends_and_is_told_once() -> None:
    story = Story()
    first = finding("", None, None, cls="repo.first_files", severity=Severity.INFO)
    story.land({"config:rope": "A"}, findings=[first])
    again = story.step({"config:rope": "A"}, findings=[])
    assert story.state[0].open
    assert not again.advisories


def test_a_superseded_advisory_without_predecessor_ends_where_it_began() -> None:
    story = Story().rope("A", "B")
    story.land({"config:rope": "C"}, predecessor=None)
    assert story.of("B").spans == (Span(introduced=sha(1), last_affected=sha(1)),)


def test_a_horizon_advisory_without_predecessor_is_ended_by_the_commit_that_changed_it() -> None:
    story = Story()
    story.land({"config:rope": "X"}, findings=[finding("config:rope", None, "X")], horizon=True)
    story.land({"config:rope": "Y"}, findings=[finding("config:rope", "X", "Y")], predecessor=None)
    assert story.of("X").spans == (Span(introduced="0", fixed=sha(1)),)


def test_the_gravest_finding_names_severity_and_reason() -> None:
    low, high = (
        finding(facet, "1", "2", cls="tokens.eos", severity=severity)
        for facet, severity in [("config:eos", Severity.LOW), ("config:pad", Severity.HIGH)]
    )
    story = Story().rope("A")
    story.land({"config:eos": "2", "config:pad": "2"}, findings=[low, high])
    assert story.state[0].severity is Severity.HIGH


def test_info_advisories_follow_the_same_ledger() -> None:
    story = Story()
    for text in "abca":
        story.land({"card:text": text})
    assert story.of("b").superseded_by == story.of("c").id
    assert story.of("c").spans == (Span(introduced=sha(2), fixed=sha(3)),)


def test_modified_never_moves_backwards() -> None:
    story = Story().rope("A", "B")
    step = advance(
        story.state,
        repo=REPO,
        ref="main",
        revision=revision(2),
        predecessor=sha(1),
        findings=[],
        observe=lambda _: value_digest("A"),
        now=START - timedelta(days=400),
        repo_created_at=CREATED,
    )
    assert step.advisories[0].spans[0].fixed == sha(2)
    assert step.advisories[0].modified == story.of("B").modified


@pytest.mark.parametrize("chain", ["AB", "ABA", "ABC", "ABCA", "ABCB", "ABABCAC"])
def test_running_a_step_again_changes_nothing(chain: str) -> None:
    story = Story().rope(*chain[:-1])
    step = story.step({"config:rope": chain[-1]})
    before = story.state
    story.state = step.apply(before)
    again = story.step({"config:rope": chain[-1]})
    assert again.advisories == ()
    assert again.events == ()


def test_advisories_of_another_ref_or_of_the_repo_itself_are_left_alone() -> None:
    story = Story().rope("A", "B")
    step = advance(
        story.state,
        repo=REPO,
        ref="v2",
        revision=revision(2),
        predecessor=sha(1),
        findings=[],
        observe=lambda _: None,
        now=START,
    )
    assert step.advisories == ()


def test_context_is_carried_by_what_opens() -> None:
    step = advance(
        (),
        repo=REPO,
        ref="main",
        revision=revision(1),
        predecessor=sha(0),
        findings=[finding("config:rope", "A", "B"), finding("config:eos", "1", "2", cls="tokens.eos")],
        observe=lambda facet: value_digest({"config:rope": "B", "config:eos": "2"}[facet]),
        now=START,
        context={"estimate": {"parameters": 1}},
        context_by_class={"tokens.eos": {"probes": []}},
    )
    rope, eos = step.advisories
    assert rope.context == {"estimate": {"parameters": 1}}
    assert eos.context == {"estimate": {"parameters": 1}, "probes": []}


def test_an_id_that_a_different_advisory_has_gets_one_more_group() -> None:
    def open_one(taken: set[str]) -> str:
        step = advance(
            (),
            repo=REPO,
            ref="main",
            revision=revision(1),
            predecessor=sha(0),
            findings=[finding("config:rope", "A", "B")],
            observe=lambda _: value_digest("B"),
            now=START,
            taken=taken.__contains__,
        )
        return step.advisories[0].id

    plain = open_one(set())
    assert open_one({plain}).startswith(plain + "-")


class TestRewrittenHistory:
    def rewound(self, story: Story, ancestor: str | None, successor: str | None = None) -> Story:
        step = rewind(
            story.state,
            repo=REPO,
            ref="main",
            old_head=sha(story.position - 1),
            observe=lambda _: value_digest(ancestor),
            now=START + timedelta(days=30),
            successor=successor,
        )
        story.state = step.apply(story.state)
        story.events += step.events
        story.values = {"config:rope": ancestor}
        assert not rewind(
            story.state,
            repo=REPO,
            ref="main",
            old_head=sha(story.position - 1),
            observe=lambda _: value_digest(ancestor),
            now=START + timedelta(days=31),
        ).advisories
        return story

    def test_what_does_not_hold_at_the_ancestor_ends_with_the_old_head_and_is_not_fixed(self) -> None:
        story = self.rewound(Story().rope("A", "B", "B"), "A", "x_other")
        advisory = story.of("B")
        assert advisory.spans == (Span(introduced=sha(1), last_affected=sha(2)),)
        assert advisory.superseded_by == "x_other"
        assert story.actions(advisory) == [(OPENED, sha(1)), (SUPERSEDED, sha(2))]

    def test_what_holds_at_the_ancestor_stays_open(self) -> None:
        story = self.rewound(Story().rope("A", "B", "B"), "B")
        assert story.of("B").spans == (Span(introduced=sha(1)),)

    def test_what_had_ended_and_holds_again_is_reintroduced_at_the_next_revision(self) -> None:
        story = self.rewound(Story().rope("A", "B", "C"), "B")
        assert not story.of("B").open
        story.rope("B")
        assert story.of("B").spans == (Span(introduced=sha(1), last_affected=sha(1)), Span(introduced=sha(3)))
        assert story.of("C").spans == (Span(introduced=sha(2), last_affected=sha(2)),)

    def test_the_same_change_on_the_new_chain_is_the_same_advisory(self) -> None:
        story = self.rewound(Story().rope("A", "B"), "A").rope("B")
        (advisory,) = story.state
        assert advisory.spans == (Span(introduced=sha(1), last_affected=sha(1)), Span(introduced=sha(2)))

    def test_a_fallen_commit_that_lands_again_opens_its_own_span_again(self) -> None:
        story = self.rewound(Story().rope("A", "B"), "A")
        story.position = 1
        story.rope("B")
        assert story.of("B").spans == (Span(introduced=sha(1)),)
