"""The model card and the licence."""

from __future__ import annotations

import pytest

from storage.model import Change
from tests.tracker.diff.snapshots import snapshot_of
from tracker.diff.card import DIFFER
from tracker.diff.licences import name_in, rank_of, stricter
from tracker.diff.registry import compare


def card(front: str, body: str = "text\n") -> dict[str, str]:
    return {"README.md": f"---\n{front}\n---\n{body}"}


def diff(before: dict[str, str], after: dict[str, str]) -> list[Change]:
    return list(DIFFER.diff(snapshot_of(before), snapshot_of(after)))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("license: apache-2.0", "license: cc-by-nc-4.0", True),
        ("license: cc-by-nc-4.0", "license: mit", False),
        ("license: mit", "license: gpl-3.0", True),
        ("license: apache-2.0", "license: other\nlicense_name: llama3", True),
        ("license: mit", "license: other\nlicense_name: ours", None),
        ("tags: [a]", "tags: [a]\nlicense: mit", None),
        ("license: mit\ntags: [a]", "tags: [a]", None),
    ],
)
def test_the_licence_and_whether_it_allows_less(before: str, after: str, expected: bool | None) -> None:
    (change,) = diff(card(before), card(after))
    assert (change.cls, change.pointer, change.facts["stricter"]) == (
        "licence.changed",
        "/metadata/license",
        expected,
    )


def test_licence_files() -> None:
    apache, nc = "Apache License\nVersion 2.0", "For non-commercial research only."
    (change,) = diff({"LICENSE": apache}, {"LICENSE": nc})
    assert (change.cls, change.path, change.facts["stricter"]) == ("licence.changed", "LICENSE", True)
    assert diff({"LICENSE": apache}, {"LICENSE": "Apache  License Version 2.0\n"}) == []
    assert [change.facts["first"] for change in diff({}, {"LICENSE.md": "x"})] == [True]
    assert [change.after_digest for change in diff({"LICENSE.md": "x"}, {})] == [None]


def test_one_change_a_key_and_lineage_is_marked() -> None:
    changes = diff(card("tags: [a, b]\nbase_model: x/y"), card("tags: [b, c]\nbase_model: x/z"))
    assert [(change.cls, change.pointer) for change in changes] == [
        ("card.metadata", "/metadata/base_model"),
        ("card.metadata", "/metadata/tags"),
    ]
    assert changes[0].facts["lineage"]
    assert (changes[1].facts["items"]["added"], changes[1].facts["items"]["removed"]) == (["c"], ["a"])


def test_text_only() -> None:
    assert [change.cls for change in diff(card("a: 1"), card("a: 1", "other"))] == ["card.only"]


def test_another_layout_of_the_same_card_is_formatting() -> None:
    before, after = snapshot_of(card("tags: [a]")), snapshot_of(card("tags:\n- a\n# x"))
    assert [change.cls for change in compare(before, after, had_model=True)] == ["file.formatting"]


def test_a_broken_card_takes_nothing_away() -> None:
    from tracker.snapshot.build import carry

    before = snapshot_of(card("license: mit"))
    broken = carry(before, snapshot_of(card("license: [")))
    assert [change.cls for change in compare(before, broken, had_model=True)] == ["document.unreadable"]
    repaired = snapshot_of(card("license: gpl-3.0"))
    assert "licence.changed" in {change.cls for change in compare(broken, repaired, had_model=True)}


def test_ranks() -> None:
    assert [rank_of(name) for name in ("MIT", "lgpl-3.0", "GPL-3.0", "llama3.1", "cc-by-nc-4.0", "x")] == [
        0, 1, 2, 3, 4, None,
    ]  # fmt: skip
    assert rank_of("cc-by-4.0") == 0
    assert name_in("nothing known") is None
    assert stricter("mit", None) is None
