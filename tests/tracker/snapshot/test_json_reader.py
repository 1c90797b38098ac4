"""JSON from strangers: oddities are named, limits are kept, nothing else is raised."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.snapshot.json_reader import MAX_DEPTH, Unreadable, read_json


def reason(data: bytes, **options: int | bool) -> str:
    with pytest.raises(Unreadable) as caught:
        read_json(data, **options)  # type: ignore[arg-type]
    return caught.value.reason


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "parse_error"),
        (b"{", "parse_error"),
        (b'{"a": "line\nbreak"}', "parse_error"),
        (b'{"a": \xff}', "encoding"),
        ('{"a": 1}'.encode("utf-16"), "encoding"),
        (b'{"a": ' + b"9" * 5000 + b"}", "parse_error"),
        (nested(MAX_DEPTH + 1), "too_deep"),
        (nested(100_000), "too_deep"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "too_deep"),
        (b"\x80\x04\x95\x00", "disguised"),
        (b"PK\x03\x04", "disguised"),
        (b"\x7fELF\x02", "disguised"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, expected: str) -> None:
    assert reason(data) == expected


def test_depth_is_counted_in_containers() -> None:
    assert read_json(nested(MAX_DEPTH))[0] == json.loads(nested(MAX_DEPTH))
    assert read_json(b"1", max_depth=0) == (1, ())
    assert reason(b"[]", max_depth=0) == "too_deep"


def test_caps_hold_before_anything_is_parsed() -> None:
    assert reason(b"[" + b"1," * 99 + b"1]", max_nodes=99) == "too_many"
    assert reason(b"{}" + b" " * 99, cap=100) == "too_large"
    assert reason(b"[]", need_object=True) == "not_an_object"


def test_the_last_duplicate_wins_and_is_named() -> None:
    value, flaws = read_json(b'{"a": 1, "b": {"x\\n": 1, "x\\n": 2}, "a": 3}')
    assert value == {"a": 3, "b": {"x\n": 2}}
    assert sorted(flaws) == ['duplicate key "a"', 'duplicate key "x\\n"']


def test_numbers_that_json_does_not_have_become_words() -> None:
    value, flaws = read_json(b"[NaN, Infinity, -Infinity, 1e999, -1e999, 1e-999, 1e5]")
    assert value == ["NaN", "Infinity", "-Infinity", "Infinity", "-Infinity", 0.0, 1e5]
    assert len(flaws) == 4
    json.dumps(value, allow_nan=False)


def test_a_byte_order_mark_is_a_flaw_and_surrogates_survive() -> None:
    assert read_json(b'\xef\xbb\xbf{"a": "\\ud800"}') == ({"a": "\ud800"}, ("begins with a byte order mark",))


def test_flaws_are_bounded() -> None:
    text = "{" + ",".join(f'"k{n}": 1, "k{n}": 2' for n in range(500)) + "}"
    assert len(read_json(text.encode())[1]) == 20


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:01eE.-NaIfinty\\u', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value, _ = read_json(data)
    except Unreadable as error:
        assert error.reason in {"parse_error", "encoding", "too_deep", "disguised"}  # noqa: PT017 - others are read
    else:
        json.dumps(value, allow_nan=False)
