"""Whatever values a repo goes through, the ledger keeps these promises."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from storage.model import Advisory, AdvisoryAction
from tests.advisories.story import CLASSES, Story, sha, value_digest

VALUE = st.sampled_from(["A", "B", "C", "D", None])
REVISION = st.fixed_dictionaries(dict.fromkeys(CLASSES, VALUE))
HISTORY = st.lists(REVISION, min_size=2, max_size=12)


def replay(history: list[Mapping[str, str | None]]) -> Story:
    story = Story()
    for values in history:
        story.land(values)
    return story


def holds(advisory: Advisory, values: Mapping[str, str | None]) -> bool:
    changes = [item.finding.change for item in advisory.findings]
    return any(value_digest(values.get(change.facet)) == change.after_digest for change in changes)


def affected(advisory: Advisory, length: int) -> list[bool]:
    """Whether each revision lies in a span, as a reader of the document would work it out."""
    place = {sha(number): number for number in range(length)}
    inside = [False] * length
    for span in advisory.spans:
        end = length
        if span.fixed:
            end = place[span.fixed]
        if span.last_affected:
            end = place[span.last_affected] + 1
        for number in range(place[span.introduced], end):
            assert not inside[number], "spans overlap"
            inside[number] = True
    return inside


@given(HISTORY)
def test_spans_say_exactly_where_a_value_stood(history: list[Mapping[str, str | None]]) -> None:
    story = replay(history)
    for advisory in story.state:
        begin = next(number for number in range(len(history)) if sha(number) == advisory.introduced)
        expected = [number >= begin and holds(advisory, values) for number, values in enumerate(history)]
        assert affected(advisory, len(history)) == expected
        assert advisory.open == expected[-1] == advisory.spans[-1].open


@given(HISTORY)
def test_spans_are_well_formed(history: list[Mapping[str, str | None]]) -> None:
    for advisory in replay(history).state:
        assert advisory.spans[0].introduced == advisory.introduced
        assert all(not span.open for span in advisory.spans[:-1])
        for span in advisory.spans:
            assert span.introduced != span.fixed
            assert not (span.fixed and span.last_affected)
        assert advisory.published <= advisory.modified


@given(HISTORY)
def test_ids_are_unique_and_every_new_value_has_one_warning_a_class(
    history: list[Mapping[str, str | None]],
) -> None:
    state = replay(history).state
    assert len({advisory.id for advisory in state}) == len(state)
    assert len({(advisory.cls, advisory.introduced) for advisory in state}) == len(state)
    warned = [
        (advisory.cls, item.finding.change.facet, item.finding.change.after_digest)
        for advisory in state
        for item in advisory.findings
    ]
    assert len(set(warned)) == len(warned)


@given(HISTORY)
def test_a_value_other_than_the_first_is_always_warned_of(history: list[Mapping[str, str | None]]) -> None:
    story = Story()
    for values in history:
        story.land(values)
        for facet, value in values.items():
            warnings = [
                advisory
                for advisory in story.state
                if advisory.open
                and any(
                    item.holds and item.finding.change.facet == facet and item.finding.change.after == value
                    for item in advisory.findings
                )
            ]
            first = history[0][facet]
            assert bool(warnings) == (value != first)


@given(HISTORY, st.integers(min_value=0, max_value=11))
def test_a_crash_and_a_repeat_anywhere_change_nothing(history: list[Mapping[str, str | None]], crash: int) -> None:
    straight = replay(history)
    broken = Story()
    for number, values in enumerate(history):
        if number == crash:
            broken.step(values)  # computed, and lost before it was written
        step = broken.step(values)
        broken.state = step.apply(broken.state)
        broken.events += step.events
        repeated = broken.step(values)  # written, and run once more
        assert repeated.advisories == ()
        assert repeated.events == ()
        broken.values, broken.position = values, broken.position + 1
    assert broken.state == straight.state
    assert broken.events == straight.events


@given(HISTORY)
def test_the_order_of_the_state_decides_nothing(history: list[Mapping[str, str | None]]) -> None:
    straight, turned = replay(history), Story()
    for values in history:
        turned.land(values)
        turned.state = turned.state[::-1]
    assert sorted(turned.state, key=lambda a: a.id) == sorted(straight.state, key=lambda a: a.id)


@given(HISTORY)
def test_events_tell_the_same_story_as_the_spans(history: list[Mapping[str, str | None]]) -> None:
    story = replay(history)
    for advisory in story.state:
        actions = [action for action, _ in story.actions(advisory)]
        opened = [action for action in actions if action in {AdvisoryAction.OPENED, AdvisoryAction.REINTRODUCED}]
        assert actions[0] is AdvisoryAction.OPENED
        assert len(opened) == len(advisory.spans)
        assert len(actions) - len(opened) == sum(not span.open for span in advisory.spans)
