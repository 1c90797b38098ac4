"""Pointers, canonical values, capped values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advisories.view import capped as stand_in
from storage.model import Json, canonical_json
from tracker.diff.values import (
    MAX_VALUE_BYTES,
    capped,
    examples,
    flatten,
    list_delta,
    pointer,
    same,
    short,
    split_pointer,
    value_digest,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.text()))
def test_a_pointer_and_its_parts_are_one(parts: list[str]) -> None:
    assert list(split_pointer(pointer(parts))) == parts


def test_whole_floats_are_integers_and_booleans_are_not() -> None:
    assert same(10000, 10000.0)
    assert same({"a": [1.0]}, {"a": [1]})
    assert not same(1, True)
    assert not same(0, False)
    assert not same(None, 0)
    assert not same(2**60, float(2**60))  # such a float no longer names one integer


@given(JSON, JSON)
def test_same_is_what_the_digest_says(left: Json, right: Json) -> None:
    assert same(left, left)
    assert same(left, right) == (value_digest(left) == value_digest(right))


@given(JSON)
def test_capped_is_small_and_leaves_small_values_alone(value: Json) -> None:
    assert capped(value) == value or len(canonical_json(value)) > MAX_VALUE_BYTES
    big = [value] * 3000
    assert len(canonical_json(capped(big))) <= MAX_VALUE_BYTES


def test_capped_says_what_was_cut() -> None:
    cut = capped("\ud800é" * 5000)
    assert cut["size"] > 5000
    assert capped(cut) == cut
    assert stand_in(cut) == cut
    assert set(cut) == {"capped", "digest", "size", "head"}
    assert len(examples(range(1000))) == 100


def test_flatten_takes_lists_as_values_and_stops_at_its_limit() -> None:
    assert flatten({"a": {"b": [1, {"c": 2}]}, "d": {}}) == {("a", "b"): [1, {"c": 2}], ("d",): {}}
    assert flatten(7) == {(): 7}
    assert len(flatten({str(n): n for n in range(100)}, limit=10)) == 10


def test_a_list_delta_counts_and_tells_a_new_order() -> None:
    delta = list_delta(["a", "b"], ["b", "c"])
    assert (delta["added"], delta["removed"], delta["reordered"]) == (["c"], ["a"], False)
    assert list_delta(["a", "b"], ["b", "a"])["reordered"] is True


def test_short_shows_what_cannot_be_seen() -> None:
    assert short("a\u200bb\n") == "a\\u200bb\\n"
    assert len(short("x" * 500)) == 60
    assert short(None) == "null"
