"""What probes say of a changed template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.model import Change, ProbeOutcome, ProbeResult
from tests.tracker.diff.snapshots import read_tree
from tracker.diff.template import DIFFER, free_variables
from tracker.probe.judge import refine
from tracker.probe.render import Prober
from tracker.snapshot.template import templates

CHANGE = Change(
    cls="template.semantic",
    path="chat_template.jinja",
    summary="template default changed",
    before="a",
    after="b",
    facet="template:default",
    before_digest="1",
    after_digest="2",
    facts={"template": "default"},
)
TURN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
PROMPT = "{% if add_generation_prompt %}<assistant>{% endif %}"
SYSTEM = "{% if messages[0].role != 'system' %}<system>You are a helpful assistant{% endif %}"
TOOLS = "{% if tools %}<tools>{{ tools | tojson }}{% endif %}"


@pytest.fixture(scope="module")
def prober() -> Iterator[Prober]:
    with Prober() as prober:
        yield prober


def judged(prober: Prober, before: str, after: str) -> list[Change]:
    results = prober.templates(before, after, extra_variables=free_variables(before, after))
    return list(refine(CHANGE, results))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (TURN + PROMPT, TURN + PROMPT + "{# a comment #}", ["template.semantic"]),
        (TURN + PROMPT, TURN + "!" + PROMPT, ["template.semantic"]),
        (
            TURN + PROMPT,
            TURN + PROMPT.replace("<assistant>", "<assistant><think>"),
            ["template.generation_prompt"],
        ),
        (TURN + PROMPT, TURN, ["template.generation_prompt"]),
        (TURN + PROMPT, TURN + "{{ '\\n ' }}" + PROMPT, ["template.whitespace"]),
        (TURN + PROMPT, TURN + PROMPT.replace("<assistant>", "<assistant>\n"), ["template.whitespace"]),
        (TOOLS + TURN, TOOLS.replace("<tools>", "# Tools") + TURN, ["template.tools"]),
        (SYSTEM + TURN, SYSTEM.replace("helpful", "harmless") + TURN, ["template.default_system"]),
        (TURN, SYSTEM + TURN, ["template.default_system"]),
        (
            "Today: 26 Jul 2024" + TURN,
            "Today: {{ strftime_now('%d %b %Y') }}" + TURN,
            ["template.nondeterministic"],
        ),
        (
            TURN,
            TURN + "{% if messages[-1].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}",
            ["template.tools", "template.args_contract"],
        ),
        (TURN, "{{ raise_exception('no') }}", ["template.semantic", "template.args_contract"]),
        (TURN, "{% if", ["template.semantic", "template.args_contract"]),
    ],
)
def test_classes(prober: Prober, before: str, after: str, expected: list[str]) -> None:
    changes = judged(prober, before, after)
    assert [change.cls for change in changes] == expected
    assert {(change.facet, change.after_digest) for change in changes} == {("template:default", "2")}


def test_equal_probes_are_said_to_be_equal(prober: Prober) -> None:
    [change] = judged(prober, TURN, TURN + "{# x #}")
    assert change.facts["probes_equal"] is True
    assert change.facts["probes_different"] == []


def test_the_first_difference_is_shown_where_it_is(prober: Prober) -> None:
    long = "word " * 4000
    [change] = judged(prober, long + "a" + TURN, long + "b" + TURN)
    shown = change.facts["first_difference"]
    assert shown["before"][:201].endswith("a")
    assert shown["after"][:201].endswith("b")
    assert len(shown["before"]) <= 2048
    assert shown["kind"] == "text"


def test_a_gap_is_no_proof_of_equality() -> None:
    equal = ProbeResult(probe="user", outcome=ProbeOutcome.EQUAL, before="a", after="a")
    gap = ProbeResult(probe="multi", outcome=ProbeOutcome.GAP, before="a", after_error="time")
    [change] = refine(CHANGE, [equal, gap])
    assert change.facts["probes_equal"] is False
    assert change.facts["probes_gap"] == ["time"]


def test_without_probes_and_for_other_classes_nothing_is_judged() -> None:
    assert refine(CHANGE, ()) == (CHANGE,)
    other = Change(cls="template.unsafe", path="x", summary="y")
    result = ProbeResult(probe="user", outcome=ProbeOutcome.DIFFERENT, before="a", after="b")
    assert refine(other, [result]) == (other,)


@pytest.mark.corpus
def test_recorded_cases_come_out(corpus: Path, prober: Prober) -> None:
    lines = (corpus / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    count = 0
    for case in map(json.loads, lines):
        wanted = {case["change_class"], *case["also_classes"]}
        if not case["inputs"] or not any(cls.startswith("template.") for cls in wanted):
            continue
        folder = corpus / "cases" / case["inputs"]
        before, after = read_tree(folder / "old"), read_tree(folder / "new")
        got = [change for change in DIFFER.diff(before, after) if change.cls != "template.semantic"]
        for change in DIFFER.diff(before, after):
            if change.cls == "template.semantic":
                old, new = (templates(side)[change.facts["template"]].text for side in (before, after))
                variables = free_variables(old, new)
                got += refine(change, prober.templates(old, new, extra_variables=variables))
        classes = {change.cls for change in got}
        assert wanted <= classes, (case["id"], classes)
        assert not classes & set(case.get("must_not", ())), case["id"]
        count += 1
    assert count >= 8
