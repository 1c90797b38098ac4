"""docs/advisories.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from advisories.ids import ALPHABET
from advisories.osv_model import OsvDocument
from advisories.rules.registry import load
from storage.model import Severity
from tests.advisories.test_ids import GOLDEN
from tests.advisories.test_osv import STORIES, document

PAGE = (Path(__file__).parents[2] / "docs" / "advisories.md").read_text(encoding="utf-8")


def test_every_class_is_listed_as_it_is() -> None:
    rows = re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| (\w+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(rule.cls, rule.severity.label, rule.title, rule.advice) for rule in load()]


def test_every_severity_says_what_to_do() -> None:
    for severity in Severity:
        assert f"| `{severity.label}` | `{severity.osv}` |" in PAGE


def test_the_example_id_is_the_golden_one() -> None:
    assert GOLDEN[0][1] in PAGE
    assert ALPHABET in PAGE


@pytest.mark.parametrize("name", STORIES)
def test_every_field_is_described(name: str) -> None:
    advisory, versions = STORIES[name]()
    made = document(advisory, versions=versions)
    for key in made["database_specific"]:
        assert f"`{key}`" in PAGE
    for key in set(OsvDocument.model_fields) - {"schema_version", "affected", "database_specific"}:
        assert f"`{key}`" in PAGE
