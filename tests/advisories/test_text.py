from __future__ import annotations

import hashlib
import json
import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from advisories.evidence import probe_context, probes_json
from advisories.text import code_block, code_span, markdown, one_line, visible, xml_text
from advisories.view import CAP, bounded, capped, change_json, plain
from storage.model import Json, ProbeOutcome, ProbeResult
from tests.advisories.story import finding

MARKDOWN = MarkdownIt("commonmark")
ANY = st.text(alphabet=st.characters(), max_size=200)  # lone surrogates, too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY, inner, max_size=4),
    max_leaves=20,
)


@given(ANY, st.integers(min_value=1, max_value=80))
def test_a_line_is_one_printable_line_within_its_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert line.isprintable()


def test_what_cannot_be_seen_is_shown() -> None:
    assert visible("a\u200b\u202e\x1b\U000e0041") == "a\\u{200b}\\u{202e}\\u{001b}\\u{e0041}"
    assert visible("中文 ünïcode 🤗") == "中文 ünïcode 🤗"


@given(ANY)
def test_markdown_shows_the_text_as_it_is(text: str) -> None:
    shown = MARKDOWN.renderInline(f"x: {markdown(text)}")
    assert re.sub(r"<[^>]*>", "", shown) == shown
    unescaped = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
    assert unescaped == f"x: {one_line(text, 300)}"


@given(ANY)
def test_a_code_block_cannot_be_left(text: str) -> None:
    tokens = MARKDOWN.parse(f"{code_block(text)}\n\nafter\n")
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]


@given(ANY)
def test_a_code_span_cannot_be_left(text: str) -> None:
    (inline,) = [token for token in MARKDOWN.parse(f"{code_span(text)} after") if token.type == "inline"]
    assert [child.type for child in inline.children or []] == ["code_inline", "text"]


@given(ANY)
def test_xml_holds_every_text(text: str) -> None:
    element = ET.Element("a")
    element.text = xml_text(text)
    assert ET.fromstring(ET.tostring(element)).text in {element.text, None if not text else element.text}  # noqa: S314


@given(VALUES)
def test_plain_values_are_strict_json(value: Json) -> None:
    text = json.dumps(plain(value), allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert plain(plain(value)) == plain(value) == json.loads(text)


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(), st.lists))
def test_harmless_values_stay_as_they_are(value: Json) -> None:
    assert plain(value) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (2**63, "9223372036854775808"),
        (10**4400, "(an integer of 14617 bits)"),
        ("\ud800", "\\ud800"),
        ({"\ud800": 1}, {"\\ud800": 1}),
        ((1, 2), [1, 2]),
    ],
    ids=range(8),
)
def test_what_other_readers_cannot_hold_becomes_text(value: Json, shown: Json) -> None:
    assert plain(value) == shown


def test_small_values_are_not_cut() -> None:
    assert capped("x" * (CAP - 2)) == "x" * (CAP - 2)
    assert capped({"a": [1, None]}) == {"a": [1, None]}


def test_large_values_are_cut_with_a_digest_of_the_whole() -> None:
    text = "é" * 5000
    assert capped(text) == {
        "capped": True,
        "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        "size": 10_000,
        "head": text[:500],  # each of them takes six bytes, and what stands for a value is no larger than the cap
    }
    assert capped(capped(text)) == capped(text)
    listed = list(range(5000))
    cut = capped(listed)
    assert cut["head"].startswith("[0,1,2,")
    assert cut["size"] == len(json.dumps(listed, separators=(",", ":")))


def test_large_objects_keep_their_keys() -> None:
    cut = bounded({"small": 1, "large": "x" * 10_000})
    assert cut["small"] == 1
    assert cut["large"]["capped"] is True
    assert bounded({str(number): "x" * 4000 for number in range(100)})["capped"] is True


def test_a_change_has_the_keys_of_the_contract() -> None:
    made = change_json(finding("config:rope", "A", "B", dangerous=["os.system"]))
    assert made == {
        "class": "config.rope",
        "severity": "high",
        "path": "config.json",
        "pointer": "/rope",
        "before": "A",
        "after": "B",
        "summary": "config:rope A -> B",
        "reason": "class severity",
        "facts": {"dangerous": ["os.system"]},
    }


def test_probes_that_differ_come_first_and_equal_ones_carry_no_text() -> None:
    probes = [
        ProbeResult(probe="a", outcome=ProbeOutcome.EQUAL, before="x", after="x"),
        ProbeResult(probe="b", outcome=ProbeOutcome.GAP, after_error="too slow"),
        ProbeResult(probe="c", outcome=ProbeOutcome.DIFFERENT, before="x", after="y"),
    ]
    shown = probes_json(probes)
    assert shown == [
        {"probe": "c", "outcome": "different", "before": "x", "after": "y"},
        {"probe": "b", "outcome": "gap", "after_error": "too slow"},
        {"probe": "a", "outcome": "equal"},
    ]
    assert probe_context([finding("config:rope", "A", "B")], {"config:rope": probes}) == {
        "config.rope": {"probes": shown}
    }
    assert probe_context([finding("config:rope", "A", "B")], {"other": probes}) == {}
