"""Single values of the Hub's answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.model import Json
from tracker.hub import fields
from tracker.hub.errors import UpstreamFault

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize("good", ["a" * 40, "0123456789abcdef" * 4])
def test_object_ids_are_40_or_64_lowercase_hex_digits(good: str) -> None:
    assert fields.sha(good, "id") == good


@pytest.mark.parametrize("bad", ["A" * 40, "a" * 39, "a" * 41, "a" * 40 + "\n", "main", None, 7, [], "ａ" * 40])
def test_anything_else_is_no_object_id(bad: Json) -> None:
    with pytest.raises(UpstreamFault):
        fields.sha(bad, "id")


@pytest.mark.parametrize("bad", [-1, True, 1.0, "7", None, 2**63])
def test_a_size_is_a_whole_number_that_fits(bad: Json) -> None:
    with pytest.raises(UpstreamFault):
        fields.size(bad, "size")


def test_dates_come_out_in_utc() -> None:
    assert fields.moment("2024-02-19T10:57:45.000Z") == datetime(2024, 2, 19, 10, 57, 45, tzinfo=UTC)
    assert fields.moment("2024-02-19T12:57:45+02:00") == datetime(2024, 2, 19, 10, 57, 45, tzinfo=UTC)
    assert fields.moment("2024-02-19T10:57:45") == datetime(2024, 2, 19, 10, 57, 45, tzinfo=UTC)
    assert fields.moment("0001-01-01T00:00:00+14:00") is None


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([{"user": "lysandre", "avatar": "https://x"}], "lysandre"),
        ([{"user": "a"}, {"user": "b"}, {"user": "a"}], "a, b"),
        ([{"user": "Ann <ann@example.org>"}], "Ann"),
        ([{"user": "ann@example.org"}], "unknown"),
        ([{"user": "ann@example.org"}, {"name": "Bo"}], "Bo"),
        ([{"avatar": "x"}], "unknown"),
        (["Cy"], "Cy"),
        ([], "unknown"),
        (None, "unknown"),
        ("Ann", "unknown"),
    ],
)
def test_authors_are_names_and_never_mail_addresses(value: Json, name: str) -> None:
    assert fields.authors(value) == name


@given(JSON)
def test_any_json_in_any_field_is_survived(value: Json) -> None:
    assert isinstance(fields.text(value, 10), str)
    assert len(fields.text(value, 10)) <= 10
    assert fields.authors([{"user": value}, value]).encode("utf-8")
    fields.moment(value)
    for check in (fields.sha, fields.sha256, fields.size):
        try:
            check(value, "thing")
        except UpstreamFault:
            continue


def test_a_title_keeps_no_nul_and_no_lone_surrogate() -> None:
    assert fields.text("a\x00b\ud800c", 10) == "a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    "path", ["config.json", "vae/config.json", "ä b?#%.json", ".gitattributes", "a" * 1024, "a\nb"]
)
def test_a_path_that_git_allows_stays_as_it_is(path: str) -> None:
    assert fields.safe_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        "./a",
        "a\x00b",
        ".git/config",
        "a" * 1025,
        "\ud800",
        "unsafe-name:x",
    ],
)
def test_a_path_that_git_forbids_is_kept_under_another_name(path: str) -> None:
    made_up = fields.safe_path(path)
    assert fields.is_unsafe(made_up)
    assert made_up.isascii()
    assert "/" not in made_up
    assert len(made_up) < 120
    assert made_up == fields.safe_path(path) != fields.safe_path(path + "x")


@given(st.text(st.characters(), min_size=1))
def test_every_path_ends_as_one_that_can_be_kept(path: str) -> None:
    safe = fields.safe_path(path)
    assert safe.encode("utf-8")
    assert safe == path or fields.is_unsafe(safe)


@pytest.mark.parametrize("path", ["", None, 7, []])
def test_a_file_without_a_path_is_the_hubs_fault(path: Json) -> None:
    with pytest.raises(UpstreamFault):
        fields.safe_path(path)
