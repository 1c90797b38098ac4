"""More than sixty references in every notation: all found at their lines, none made up."""

from __future__ import annotations

from pathlib import Path

from advisories.audit.find.tree import read_tree
from advisories.audit.model import Pinning
from advisories.audit.names import Names
from tests.advisories.audit import sixty


def test_all_are_found_and_no_other(tmp_path: Path) -> None:
    sixty.write(tmp_path)
    reading = read_tree(tmp_path, Names())
    found = [
        (item.file, item.line, item.repo, "unknown" if item.pinning is Pinning.UNKNOWN else item.revision)
        for item in reading.references
    ]
    assert set(found) == sixty.expected()
    assert len(found) == len(set(found)) >= 60


def test_what_cannot_be_told_is_a_gap_and_nothing_else_is(tmp_path: Path) -> None:
    sixty.write(tmp_path)
    reading = read_tree(tmp_path, Names())
    assert {gap.reason for gap in reading.gaps} == {"unresolved"}
    assert {(gap.file, gap.line) for gap in reading.gaps} == sixty.gaps()
    assert len(reading.gaps) == len(sixty.gaps())
