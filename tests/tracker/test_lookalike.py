"""Owners that can be taken for each other."""

from __future__ import annotations

import pytest

from tracker.lookalike import resembles


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("meta-llama", "meta-Ilama"),
        ("meta-llama", "metallama"),
        ("meta-llama", "meta-lama"),
        ("mistralai", "mistraiai"),
        ("mistralai", "mistarlai"),
        ("openai", "0penai"),
        ("openai", "opennai"),
        ("stanford", "stanforcl"),
        ("modern", "modem"),
    ],
)
def test_likenesses(one: str, other: str) -> None:
    assert resembles(one, other)
    assert resembles(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("openai", "OpenAI"),
        ("openai", "openlm"),
        ("ab", "ac"),
        ("google", "microsoft"),
        ("tiiuae", "tii"),
        ("a", "b"),
    ],
)
def test_names_that_are_told_apart(one: str, other: str) -> None:
    assert not resembles(one, other)
