"""Files as files: disguised, laid out anew, or of no known kind."""

from __future__ import annotations

import pytest

from tests.tracker.diff.snapshots import snapshot_of
from tests.tracker.snapshot.make import PICKLE
from tracker.diff.files import DIFFER, MAX_SINGLE
from tracker.diff.registry import compare
from tracker.snapshot.build import carry

MODEL = {"config.json": {"a": 1, "b": [1]}}


@pytest.mark.parametrize(
    ("path", "data", "what"),
    [
        ("tokenizer.json", PICKLE, "pickle"),
        ("config.json", b"PK\x03\x04...", "zip archive"),
        ("chat_template.jinja", b"\x7fELF\x02\x01", "ELF program"),
        ("model.safetensors", b"PK\x03\x04" + b"\0" * 60, "zip archive"),
        ("modeling.py", b"\x1f\x8b\x08", "gzip archive"),
    ],
)
def test_first_bytes_that_belie_the_name(path: str, data: bytes, what: str) -> None:
    before = snapshot_of(MODEL)
    after = carry(before, snapshot_of(MODEL | {path: data}))
    (change,) = DIFFER.diff(before, after)
    assert (change.cls, change.path) == ("file.disguised", path)
    assert what in change.after
    assert [item.facet for item in DIFFER.standing(after)] == [change.facet]
    assert list(DIFFER.diff(after, before)) == []


def test_layout_and_key_order_are_formatting() -> None:
    before = snapshot_of(MODEL)
    after = snapshot_of({"config.json": '{\n "b": [1.0],\n "a": 1\n}\n'})
    (change,) = compare(before, after)
    assert (change.cls, change.path) == ("file.formatting", "config.json")


def test_true_is_not_one() -> None:
    changes = compare(snapshot_of(MODEL), snapshot_of({"config.json": {"a": True, "b": [1]}}))
    assert "file.formatting" not in {change.cls for change in changes}


def test_every_other_file_is_named() -> None:
    before = snapshot_of(MODEL | {"a.txt": "1", "b.txt": "1"})
    after = snapshot_of(MODEL | {"a.txt": "2", "c.txt": "1"})
    assert [(change.cls, change.path, change.summary) for change in compare(before, after)] == [
        ("file.other", "a.txt", "a.txt changed (1 bytes)"),
        ("file.other", "b.txt", "b.txt removed (1 bytes)"),
        ("file.other", "c.txt", "c.txt added (1 bytes)"),
    ]


def test_many_other_files_share_a_change() -> None:
    after = snapshot_of(MODEL | {f"{number}.txt": "x" for number in range(MAX_SINGLE + 5)})
    changes = compare(snapshot_of(MODEL), after)
    assert len(changes) == MAX_SINGLE + 1
    assert changes[-1].facts["count"] == 5


def test_names_from_strangers_stay_on_one_line() -> None:
    path = "a\nb\u202e\x1b[31m" + "x" * 400 + ".txt"
    (change,) = compare(snapshot_of(MODEL), snapshot_of(MODEL | {path: "x"}))
    assert change.summary.isprintable()
    assert len(change.summary) <= 300
