"""What to do, as an advisory stands."""

from __future__ import annotations

from dataclasses import replace

from advisories.advice import advice
from tests.advisories.story import START, Story, sha


def test_while_it_is_open_it_is_the_advice_of_its_class() -> None:
    opened = advice(Story().rope("A", "B").of("B"))
    assert sha(0)[:7] in opened
    assert "Put back" not in opened


def test_once_it_is_put_back_it_is_for_those_who_pinned_the_commits_between() -> None:
    story = Story().rope("A", "B", "B", "A")
    told = advice(story.of("B"))
    assert told.startswith(f"Put back at {sha(3)[:7]}")
    assert f"from {sha(1)[:7]} up to {sha(3)[:7]}" in told


def test_once_it_is_changed_again_it_points_on() -> None:
    story = Story().rope("A", "B", "C")
    old = story.of("B")
    told = advice(old)
    assert told.startswith(f"Changed again after {sha(1)[:7]}")
    assert old.superseded_by
    assert old.superseded_by in told


def test_what_is_withdrawn_asks_for_nothing() -> None:
    gone = replace(Story().rope("A", "B").of("B"), withdrawn=START)
    assert advice(gone) == "This was withdrawn: nothing is to be done now."
    ended = replace(gone, context={**gone.context, "ended_at": "2026-03-02T12:00:00Z"})
    assert advice(ended) == "It is so no longer: nothing is to be done now."
