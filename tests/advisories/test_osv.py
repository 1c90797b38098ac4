from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from packageurl import PackageURL

from advisories.osv import document, purl, summary, timestamp
from advisories.osv_model import OsvDocument
from advisories.rules.judge import judge_state
from advisories.states import end_state, open_state
from storage.model import Advisory, Change, Finding, Json, RepoRef, Severity, Span, TrackedFinding
from tests.advisories.story import REPO, START, Story, finding, sha

Schemas = list[Draft202012Validator]


@pytest.fixture(scope="session")
def schemas(corpus: Path) -> Schemas:
    """Both lines of the schema: the released one, and the newest, which allows local ids."""
    folder = corpus / "reference" / "osv"
    names = ("schema-current.json", "schema-1.7.5-main.json")
    return [Draft202012Validator(json.loads((folder / name).read_text())) for name in names]


def versions_of(advisory: Advisory, length: int) -> list[str]:
    shas = [sha(number) for number in range(length)]
    found: list[str] = []
    for span in advisory.spans:
        begin = 0 if span.introduced == "0" else shas.index(span.introduced)
        end = shas.index(span.fixed) if span.fixed else length
        end = shas.index(span.last_affected) + 1 if span.last_affected else end
        found += shas[begin:end]
    return found


def made(advisory: Advisory, versions: list[str] | None = None) -> dict[str, Any]:
    """The document, which always parses with unknown fields forbidden and survives strict JSON."""
    document_ = document(advisory, versions=[advisory.introduced] if versions is None else versions)
    written = json.dumps(document_, allow_nan=False, ensure_ascii=False).encode("utf-8")
    OsvDocument.model_validate_json(written)
    return document_


def one(**changed: Json) -> Advisory:
    """An open advisory of one finding, with the change altered as told."""
    advisory = Story().rope("A", "B").of("B")
    item = advisory.findings[0]
    change = replace(item.finding.change, **changed)
    return replace(advisory, findings=(replace(item, finding=replace(item.finding, change=change)),))


def state_advisory(cls: str = "repo.gated") -> Advisory:
    change = Change(
        cls=cls, path="", summary="downloads need an accepted request (auto)", before="no", after="auto"
    )
    step = open_state(
        (), repo=REPO, ref="main", finding=judge_state(change), key="gated:auto", sha=sha(3), now=START
    )
    return step.advisories[0]


STORIES: dict[str, Callable[[], tuple[Advisory, list[str]]]] = {}


def story(build: Callable[[], Advisory]) -> Callable[[], Advisory]:
    STORIES[build.__name__] = lambda: (advisory := build(), versions_of(advisory, 4))
    return build


@story
def still_open() -> Advisory:
    return Story().rope("A", "B", "B", "B").of("B")


@story
def restored() -> Advisory:
    return Story().rope("A", "B", "B", "A").of("B")


@story
def back_again() -> Advisory:
    return Story().rope("A", "B", "A", "B").of("B")


@story
def superseded() -> Advisory:
    return Story().rope("A", "B", "C", "C").of("B")


@story
def superseded_and_reintroduced() -> Advisory:
    return Story().rope("A", "B", "C", "B").of("B")


@story
def at_the_horizon() -> Advisory:
    told = Story()
    told.land({"config:rope": "X"}, findings=[finding("config:rope", None, "X")], horizon=True)
    return told.rope("X", "X", "X").of("X")


@story
def gated() -> Advisory:
    return state_advisory()


@story
def no_longer_gated() -> Advisory:
    return end_state([state_advisory()], cls="repo.gated", now=START + timedelta(days=1)).advisories[0]


@story
def withdrawn_for_better_ones() -> Advisory:
    return replace(
        still_open(),
        withdrawn=START + timedelta(days=2),
        modified=START + timedelta(days=2),
        related=("x_HUBWATCH-2026-2222-2222-2222",),
    )


@pytest.mark.corpus
@pytest.mark.parametrize("name", STORIES)
def test_every_kind_of_advisory_passes_both_schemas(name: str, schemas: Schemas) -> None:
    advisory, versions = STORIES[name]()
    document_ = made(advisory, versions)
    for schema in schemas:
        schema.validate(document_)


@pytest.mark.corpus
def test_the_published_examples_pass_our_own_model(corpus: Path) -> None:
    for name in ("open", "reverted", "superseded"):
        OsvDocument.model_validate_json((corpus / "reference" / "osv" / f"{name}.json").read_text())


def events(advisory: Advisory) -> list[list[dict[str, str]]]:
    return [item["events"] for item in made(advisory)["affected"][0]["ranges"]]


class TestRanges:
    def test_open(self) -> None:
        assert events(still_open()) == [[{"introduced": sha(1)}]]

    def test_restored(self) -> None:
        assert events(restored()) == [[{"introduced": sha(1)}, {"fixed": sha(3)}]]

    def test_back_again_adds_another_introduced(self) -> None:
        assert events(back_again()) == [[{"introduced": sha(1)}, {"fixed": sha(2)}, {"introduced": sha(3)}]]

    def test_superseded_has_a_range_of_its_own(self) -> None:
        assert events(superseded()) == [[{"introduced": sha(1)}, {"last_affected": sha(1)}]]
        assert events(superseded_and_reintroduced()) == [
            [{"introduced": sha(3)}],
            [{"introduced": sha(1)}, {"last_affected": sha(1)}],
        ]

    def test_the_horizon_and_states_of_the_repo_begin_at_zero(self) -> None:
        assert events(at_the_horizon()) == [[{"introduced": "0"}]]
        assert events(gated()) == [[{"introduced": "0"}]]

    def test_they_say_what_was_known_before_and_the_ref(self) -> None:
        (item,) = made(still_open())["affected"][0]["ranges"]
        assert item["repo"] == "https://huggingface.co/acme/tiny-llm"
        assert item["database_specific"] == {"last_known_before": sha(0), "ref": "refs/heads/main"}


def test_the_shape_of_an_open_advisory() -> None:
    advisory = still_open()
    document_ = made(advisory, versions_of(advisory, 4))
    affected = document_["affected"][0]
    assert affected["package"] == {
        "ecosystem": "GIT",
        "name": "https://huggingface.co/acme/tiny-llm",
        "purl": "pkg:huggingface/acme/tiny-llm",
    }
    assert affected["versions"] == [sha(1), sha(2), sha(3)]
    assert affected["database_specific"] == {"change_class": "config.rope", "paths": ["config.json"]}
    assert document_["references"] == [
        {"type": "INTRODUCED", "url": f"https://huggingface.co/acme/tiny-llm/commit/{sha(1)}"},
        {"type": "PACKAGE", "url": "https://huggingface.co/acme/tiny-llm"},
    ]
    assert document_["credits"] == [{"name": "hubwatch", "type": "TOOL"}]
    assert "severity" not in document_
    specific = document_["database_specific"]
    assert specific["severity"] == "HIGH"
    assert specific["severity_reason"] == "class severity"
    assert specific["cwe_ids"] == ["CWE-440"]
    assert (specific["before"], specific["after"]) == ("A", "B")
    assert specific["status"] == "open"
    assert specific["changes"][0]["pointer"] == "/rope"


def test_a_state_has_no_versions_and_says_when_it_ended() -> None:
    assert "versions" not in made(gated(), [])["affected"][0]
    assert made(gated(), [])["database_specific"]["repo_state"] == "gated:auto"
    ended = made(no_longer_gated(), [])
    assert ended["withdrawn"] == ended["modified"] == "2026-03-02T12:00:00Z"
    assert ended["database_specific"]["ended_at"] == "2026-03-02T12:00:00+00:00"
    assert ended["database_specific"]["status"] == "ended"


def test_superseded_names_its_successor_and_withdrawn_what_stands_for_it() -> None:
    told = Story().rope("A", "B", "C")
    assert made(told.of("B"))["database_specific"]["superseded_by"] == told.of("C").id
    assert made(withdrawn_for_better_ones())["related"] == ["x_HUBWATCH-2026-2222-2222-2222"]


def test_a_longer_list_of_versions_moves_modified_and_nothing_moves_it_back() -> None:
    advisory = still_open()
    later, earlier = (advisory.modified + timedelta(days=sign) for sign in (1, -1))
    assert document(advisory, versions_changed_at=later)["modified"] == timestamp(later)
    assert document(advisory, versions_changed_at=earlier)["modified"] == timestamp(advisory.modified)


def test_references_of_other_repos_are_named() -> None:
    url = "https://huggingface.co/acme/code/commit/" + sha(9)
    references: Json = [{"type": "INTRODUCED", "url": url}, {"type": "NO", "url": "javascript:x"}, "odd", {}]
    advisory = replace(gated(), context={"references": references})
    assert {"type": "INTRODUCED", "url": url} in made(advisory, [])["references"]
    assert len(made(advisory, [])["references"]) == 2
    assert "references" not in made(advisory, [])["database_specific"]


class TestPurl:
    def test_case_is_kept(self) -> None:
        assert purl(RepoRef(owner="Acme", name="Tiny-LLM")) == "pkg:huggingface/Acme/Tiny-LLM"

    def test_another_hub_is_its_repository_url(self) -> None:
        made_ = purl(RepoRef(endpoint="http://127.0.0.1:8610", owner="acme", name="tiny"))
        parsed = PackageURL.from_string(made_)
        assert (parsed.type, parsed.namespace, parsed.name, parsed.version) == (
            "huggingface",
            "acme",
            "tiny",
            None,
        )
        assert parsed.qualifiers == {"repository_url": "http://127.0.0.1:8610"}


class TestSummary:
    @pytest.mark.parametrize(
        ("advisory", "expected"),
        [
            (still_open(), "acme/tiny-llm: config:rope A -> B (0000000)"),
            (restored(), "acme/tiny-llm: config:rope A -> B (0000000), restored (0000000)"),
            (superseded(), "acme/tiny-llm: config:rope A -> B (0000000), changed again after 0000000"),
            (back_again(), "acme/tiny-llm: config:rope A -> B (0000000), back again (0000000)"),
            (at_the_horizon(), "acme/tiny-llm: config:rope None -> X (before 0000000)"),
            (gated(), "acme/tiny-llm: downloads need an accepted request (auto)"),
            (no_longer_gated(), "acme/tiny-llm: downloads need an accepted request (auto), ended"),
        ],
    )
    def test_it_is_one_line_of_what_happened_and_how_it_ended(self, advisory: Advisory, expected: str) -> None:
        assert summary(advisory) == expected

    def test_several_changes_are_counted(self) -> None:
        told = Story()
        told.land({"config:eos": "1", "config:pad": "1"})
        told.land({"config:eos": "2", "config:pad": "2"})
        assert summary(told.state[0]).startswith("acme/tiny-llm: end-of-sequence token changed (2 changes) (")

    @given(st.text(max_size=500), st.sampled_from([96, 8, 1]))
    def test_it_is_never_longer_than_it_may_be_nor_of_two_lines(self, text: str, length: int) -> None:
        advisory = replace(one(summary=text), repo=RepoRef(owner="o" * length, name="n" * length))
        line = summary(advisory)
        assert len(line) <= 200 + (2 * length if length > 60 else 0)
        assert len(line.splitlines()) == 1
        assert line.isprintable()


HOSTILE: list[Json] = [
    float("nan"),
    float("-inf"),
    10**5000,
    -(2**63) - 1,
    "\ud800 alone",
    "\x1b]0;title\x07 \u202eevil\u202c \U000e0041",
    "```\n# not a heading\n<script>alert(1)</script>",
    {"\udfff": [1, {"x": float("inf")}]},
    "x" * 1_000_000,
    {str(number): number for number in range(20_000)},
]


def deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.corpus
@pytest.mark.parametrize("value", [*HOSTILE, deep(500)], ids=range(len(HOSTILE) + 1))
def test_hostile_values_end_in_a_strict_and_bounded_document(value: Json, schemas: Schemas) -> None:
    text = value if isinstance(value, str) else "odd"
    advisory = one(before=value, after=value, summary=text, path=text, pointer=text, facts={"examples": value})
    document_ = made(advisory)
    for schema in schemas:
        schema.validate(document_)
    assert len(json.dumps(document_)) < 40_000


def test_details_show_upstream_text_without_its_markup() -> None:
    evil = "[click](http://evil.example) <img src=x onerror=alert(1)> **bold** @everyone `code` &amp; https://evil.example"
    text = made(one(summary=evil, before="````\nfence", after="a\u200bb"))["details"]
    assert "<img" not in text.replace("\\<img", "")
    assert "](http" not in text
    assert "https\\://evil" in text
    assert "`````\n````\nfence\n`````" in text
    assert "a\\u{200b}b" in text


def test_a_document_is_the_same_each_time() -> None:
    assert json.dumps(document(restored())) == json.dumps(document(restored()))


CHANGE = st.builds(
    Change,
    cls=st.just("config.other"),
    path=st.text(),
    summary=st.text(),
    pointer=st.none() | st.text(),
    before=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    facet=st.just("x"),
    after_digest=st.just("1"),
)


@pytest.mark.corpus
@given(st.lists(CHANGE, min_size=1, max_size=4), st.sampled_from(Severity))
@settings(max_examples=60)
def test_whatever_a_repo_holds_the_document_is_valid(
    schemas: Schemas, changes: list[Change], severity: Severity
) -> None:
    items = tuple(
        TrackedFinding(finding=Finding(change=change, severity=severity, reason="class severity"))
        for change in changes
    )
    advisory = replace(one(), findings=items, severity=severity, spans=(Span(introduced=sha(1)),))
    document_ = made(advisory)
    for schema in schemas:
        schema.validate(document_)


def test_a_summary_names_the_repo_once() -> None:
    change = Change(cls="repo.gated", path="", summary=f"{REPO.id} asks for access now (auto)", after="auto")
    step = open_state(
        (), repo=REPO, ref="main", finding=judge_state(change), key="gated:auto", sha=sha(3), now=START
    )
    assert summary(step.advisories[0]) == f"{REPO.id}: asks for access now (auto)"
