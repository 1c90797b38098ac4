"""The first files, unreadable ones, and what a comparison says as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracker.diff.snapshots import snapshot_of
from tests.tracker.snapshot.make import PICKLE, safetensors
from tracker.diff.registry import MAX_PER_CLASS, compare, observe
from tracker.diff.repo import DIFFER
from tracker.snapshot.build import carry

EMPTY = {".gitattributes": "x", "README.md": "---\nlicense: mit\n---\n"}
MODEL = {**EMPTY, "config.json": {"a": 1}, "model.safetensors": safetensors({"w": ("F32", (1,))})}


def test_the_first_files_are_one_change() -> None:
    for before in (None, snapshot_of(EMPTY)):
        (change,) = compare(before, snapshot_of(MODEL))
        assert (change.cls, change.facet, change.facts["files"]) == ("repo.first_files", "", 4)


def test_dangers_at_birth_are_marked_as_such() -> None:
    after = snapshot_of(MODEL | {"x.bin": PICKLE, "m.py": "x = 1\n", "c/config.json": {"auto_map": {"A": "m.M"}}})
    first, *dangers = compare(snapshot_of(EMPTY), after)
    assert first.cls == "repo.first_files"
    assert sorted(change.cls for change in dangers) == [
        "code.auto_map_added",
        "code.changed",
        "weights.pickle_added",
    ]
    assert all(change.facts["since_first"] for change in dangers)


def test_before_there_is_a_model_files_are_just_named() -> None:
    assert [change.cls for change in compare(None, snapshot_of(EMPTY))] == ["file.other", "file.other"]


def test_a_horizon_says_only_what_stands() -> None:
    assert compare(None, snapshot_of(MODEL), horizon=True) == ()
    (change,) = compare(None, snapshot_of(MODEL | {"x.bin": PICKLE}), horizon=True)
    assert change.facts["at_horizon"]


def test_a_model_that_comes_back_is_compared_like_any_change() -> None:
    classes = {change.cls for change in compare(snapshot_of(EMPTY), snapshot_of(MODEL), had_model=True)}
    assert "repo.first_files" not in classes
    assert "weights.format_added" in classes


def test_an_unreadable_file_is_one_change_and_nothing_is_removed() -> None:
    before = snapshot_of(MODEL)
    broken = carry(before, snapshot_of(MODEL | {"config.json": "{"}))
    (change,) = compare(before, broken)
    assert (change.cls, change.before) == ("document.unreadable", "ok")
    assert change.after["reason"] == "parse_error"
    assert observe(broken, change.facet) == change.after_digest
    assert observe(before, change.facet) == change.before_digest
    worse = carry(broken, snapshot_of(MODEL | {"config.json": "["}))
    assert [item.cls for item in compare(broken, worse)] == ["document.unreadable"]
    assert "document.unreadable" not in {item.cls for item in compare(worse, before)}


def test_a_flaw_is_told_once_as_long_as_it_stays() -> None:
    before, flawed = snapshot_of(MODEL), snapshot_of(MODEL | {"config.json": '{"a": 1, "a": 2, "b": 1}'})
    (change,) = DIFFER.diff(before, flawed)
    assert change.facts["readable"]
    assert list(DIFFER.diff(flawed, snapshot_of(MODEL | {"config.json": '{"a": 1, "a": 3, "b": 1}'}))) == []


def test_a_flood_is_counted_in_one_change() -> None:
    before = snapshot_of(MODEL)
    after = snapshot_of(MODEL | {f"m{number}.py": "x = 1\n" for number in range(MAX_PER_CLASS + 7)})
    changes = compare(before, after)
    assert len(changes) == MAX_PER_CLASS + 1
    assert changes[-1].facts["count"] == 7


@pytest.mark.corpus
def test_a_config_broken_upstream_and_repaired(corpus: Path) -> None:
    folder = corpus / "corpus" / "histories" / "ourml__clip-vit-large-patch14" / "config.json"
    files = sorted(folder.glob("0*.json"))
    before = snapshot_of({"config.json": files[1].read_bytes()})
    broken = carry(before, snapshot_of({"config.json": files[2].read_bytes()}))
    assert [change.cls for change in compare(before, broken)] == ["document.unreadable"]
    repaired = snapshot_of({"config.json": files[3].read_bytes()})
    assert all(change.before is not None or change.after is not None for change in compare(broken, repaired))
    assert "document.unreadable" not in {change.cls for change in compare(broken, repaired)}
