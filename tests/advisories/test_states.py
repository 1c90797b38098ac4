from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from advisories.ledger import Step, advance
from advisories.rules.judge import judge_state
from advisories.states import end_state, open_state, supplant, withdraw
from storage.model import Advisory, AdvisoryAction, Change, Span
from tests.advisories.story import REPO, START, Story, finding, revision, sha, value_digest

DAY = timedelta(days=1)


def gate(state: tuple[Advisory, ...], key: str = "gated:auto", head: int = 3, at: datetime = START) -> Step:
    change = Change(cls="repo.gated", path="", summary="asks for access now", before=None, after=key)
    return open_state(state, repo=REPO, ref="main", finding=judge_state(change), key=key, sha=sha(head), now=at)


def test_a_state_opens_once() -> None:
    step = gate(())
    (advisory,) = step.advisories
    assert advisory.open
    assert advisory.spans == ()
    assert advisory.introduced == sha(3)
    assert advisory.context == {"state": "gated:auto"}
    assert [event.action for event in step.events] == [AdvisoryAction.OPENED]
    assert [event.sha for event in step.events] == [None]
    assert gate(step.advisories) == Step()
    assert gate(step.advisories, at=datetime(2027, 1, 1, tzinfo=UTC)) == Step(), "a new year is no new state"


def test_another_state_or_head_is_another_advisory() -> None:
    (auto,) = gate(()).advisories
    (manual,) = gate((auto,), key="gated:manual").advisories
    (later,) = gate((auto, manual), head=4).advisories
    assert len({auto.id, manual.id, later.id}) == 3


def test_it_is_withdrawn_when_the_state_ends_and_says_when() -> None:
    state = gate(()).advisories
    step = end_state(state, cls="repo.gated", now=START + DAY)
    (ended,) = step.advisories
    assert not ended.open
    assert ended.withdrawn == ended.modified == START + DAY
    assert ended.context["ended_at"] == "2026-03-02T12:00:00+00:00"
    assert [event.action for event in step.events] == [AdvisoryAction.WITHDRAWN]
    assert end_state((ended,), cls="repo.gated", now=START + 2 * DAY) == Step()


def test_only_what_was_named_ends() -> None:
    state = gate(()).advisories
    assert end_state(state, cls="repo.deleted", now=START) == Step()
    assert end_state(state, cls="repo.gated", now=START, keep=[state[0].id]) == Step()
    assert end_state(state, cls="repo.gated", now=START, key="gated:manual") == Step()
    assert end_state(state, cls="repo.gated", now=START, key="gated:auto").advisories


def test_the_same_state_at_the_same_head_is_the_same_advisory_again() -> None:
    ended = end_state(gate(()).advisories, cls="repo.gated", now=START + DAY).advisories
    step = gate(ended, at=START + 2 * DAY)
    (again,) = step.advisories
    assert again.id == ended[0].id
    assert again.open
    assert again.withdrawn is None
    assert "ended_at" not in again.context
    assert again.modified == START + 2 * DAY
    assert again.published == START
    assert [event.action for event in step.events] == [AdvisoryAction.REINTRODUCED]


def test_commits_do_not_touch_states() -> None:
    state = gate(()).advisories
    step = advance(
        state,
        repo=REPO,
        ref="main",
        revision=revision(4),
        predecessor=sha(3),
        findings=[],
        observe=lambda _: None,
        now=START,
    )
    assert step == Step()


def test_a_state_without_a_head_has_an_advisory_too() -> None:
    change = Change(cls="repo.deleted", path="", summary="gone")
    step = open_state((), repo=REPO, ref="main", finding=judge_state(change), key="missing", sha=None, now=START)
    assert step.advisories[0].introduced == ""


def test_withdrawing_a_wrong_advisory() -> None:
    advisory = Story().rope("A", "B").of("B")
    step = withdraw(advisory, now=START - DAY, related=["x_b", "x_a", advisory.id])
    (wrong,) = step.advisories
    assert wrong.withdrawn == wrong.modified == advisory.modified, "never before it was made"
    assert wrong.related == ("x_a", "x_b")
    assert not wrong.open
    assert withdraw(wrong, now=START) == Step()


class TestDeeperBackfill:
    def cut(self) -> Advisory:
        told = Story(position=2)
        told.land({"config:rope": "X"}, findings=[finding("config:rope", None, "X")], horizon=True)
        return told.of("X")

    def test_what_was_cut_off_is_withdrawn_and_related_to_what_replaces_it(self) -> None:
        old = self.cut()
        assert old.spans == (Span(introduced="0"),)
        (new,) = Story().rope("A", "X").state
        step = supplant([old], [new], now=START + 9 * DAY)
        gone, heir = step.advisories
        assert gone.withdrawn == START + 9 * DAY
        assert gone.related == (new.id,)
        assert (heir.id, heir.related, heir.withdrawn) == (new.id, (old.id,), None)
        assert supplant([gone], [heir], now=START + 10 * DAY) == Step()

    def test_others_are_left_alone(self) -> None:
        (new,) = Story().rope("A", "X").state
        assert supplant([new], [], now=START) == Step()

    def test_withdrawn_ones_do_not_keep_the_value_from_being_warned_of(self) -> None:
        gone = withdraw(self.cut(), now=START).advisories[0]
        told = Story(state=(gone,)).rope("A", "X")
        (heir,) = [advisory for advisory in told.state if advisory.id != gone.id]
        assert heir.open
        assert heir.introduced == sha(1)

    def test_what_was_introduced_at_the_horizon_itself_is_the_same_advisory_read_in_full(self) -> None:
        old = self.cut()
        gone = replace(withdraw(old, now=START + DAY).advisories[0], related=("x_other",))
        told = Story(state=(gone,)).rope("A", "A", "X")
        (again,) = told.state
        assert again.id == old.id
        assert again.open
        assert again.spans == (Span(introduced=sha(2)),)
        assert again.published == old.published
        assert again.modified >= START + DAY
        assert value_digest("X") == again.findings[0].finding.change.after_digest
