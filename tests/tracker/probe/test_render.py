"""Templates rendered in the sandboxed child: what it gives, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage.model import ProbeOutcome, ProbeResult
from tests.fuzz.work import at_most
from tests.tracker.diff.snapshots import snapshot_of
from tracker.estimate.exact import ESTIMATOR
from tracker.examine import Examiner
from tracker.probe.conversations import MATRIX, conversations
from tracker.probe.render import Prober

PLAIN = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"


@pytest.fixture(scope="module")
def prober() -> Iterator[Prober]:
    with Prober() as prober:
        yield prober


def rendered(prober: Prober, template: str, probe: str = "user") -> ProbeResult:
    results = {result.probe: result for result in prober.templates(template, template)}
    return results[probe]


def test_every_conversation_has_a_result_in_order(prober: Prober) -> None:
    results = prober.templates(PLAIN, PLAIN + "x", extra_variables=("think", "messages"))
    assert [result.probe for result in results] == [item.probe for item in conversations({"think"})]
    assert len({result.probe for result in results}) == len(results) == len(MATRIX) + 2
    assert {result.outcome for result in results} == {ProbeOutcome.DIFFERENT}
    assert (results[0].before, results[0].after) == ("user: hi\n", "user: hi\nx")
    assert {result.outcome for result in prober.templates(PLAIN, PLAIN)} == {ProbeOutcome.EQUAL}


@pytest.mark.parametrize(
    ("template", "probe", "text"),
    [
        ("{{ bos_token }}|{{ eos_token }}", "user", "<s>|"),
        ("  {% if true %}\n a\n  {% endif %}\n", "user", " a\n"),  # trim_blocks and lstrip_blocks
        ("{{ tools | tojson }}", "user", "null"),
        ("{{ {'é': '<b>'} | tojson }}", "user", '{"é": "<b>"}'),
        ("{{ [1] | tojson(indent=1) }}", "user", "[\n 1\n]"),
        ("{{ strftime_now('%d %b %Y') }}", "user", "01 Jan 2025"),
        ("{{ strftime_now('%Y') }}", "user_other_date", "2026"),
        ("{% generation %}a{% endgeneration %}", "user", "a"),
        ("{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "user", "1"),
        ("{{ add_generation_prompt }}", "user_no_gen", "False"),
        ("{{ messages[1].tool_calls[0].function.arguments }}", "tool_loop_string", '{"x": "y"}'),
        ("{{ messages[-1].content }}", "tool_loop", "42"),
        ("{{ messages[0].content | pprint | wordwrap }}", "user", "'hi'"),
        ("{{ think is defined }}", "user+think=true", "True"),
    ],
)
def test_templates_see_what_model_libraries_give_them(
    prober: Prober, template: str, probe: str, text: str
) -> None:
    results = prober.templates(
        template, template, special_tokens_after={"bos_token": "<s>"}, extra_variables=("think",)
    )
    assert {result.probe: result.after for result in results}[probe] == text


def test_an_error_is_a_result(prober: Prober) -> None:
    result = rendered(prober, "{{ raise_exception('roles must alternate') }}")
    assert (result.outcome, result.after_error) == (ProbeOutcome.EQUAL, "TemplateError: roles must alternate")
    broken = rendered(prober, "{% if")
    assert broken.after_error is not None
    assert broken.after_error.startswith("TemplateSyntaxError")
    [mixed, *_] = prober.templates(PLAIN, "{{ raise_exception('no') }}")
    assert (mixed.outcome, mixed.before, mixed.after_error) == (
        ProbeOutcome.DIFFERENT,
        "user: hi\n",
        "TemplateError: no",
    )


@pytest.mark.parametrize(
    "template",
    [
        "{{ cycler.__init__.__globals__ }}",
        "{{ ''|attr('__class__')|attr('__mro__') }}",
        "{{ messages.append(1) }}",
        "{{ open('/etc/passwd') }}",
        "{% include '/etc/passwd' %}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__self__ }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ range(10 ** 9) }}",
    ],
)
def test_reach_is_refused(prober: Prober, template: str) -> None:
    result = rendered(prober, template)
    assert result.after is None or result.after == ""
    assert result.outcome is ProbeOutcome.EQUAL


@pytest.mark.parametrize(
    ("template", "word"),
    [
        ("{{ 'x' * 3000000 }}", "output"),
        ("{% for i in range(90000) %}{{ 'x' * 100 }}{% endfor %}", "output"),
        ("{{ 'x' * 10 ** 11 }}", "memory"),
        ("{{ 'x' | center(10 ** 11) }}", "memory"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "time"),
        ("{{ 7 ** (7 ** 30) }}", "time"),
        ("x" * 2_000_000, "too_large"),
    ],
)
def test_limits_cut_off_and_the_next_template_is_tried_all_the_same(template: str, word: str) -> None:
    with Prober(seconds=0.5) as prober:
        results = prober.templates(PLAIN, template)
        assert {result.outcome for result in results} == {ProbeOutcome.GAP}
        # A machine under load may end a hungry template by the clock before its memory runs out.
        assert results[0].after_error in {word, "time", "memory"}
        assert results[0].before == "user: hi\n"
        assert results[-1].after_error in {word, "skipped"}
    with Prober() as prober:
        assert rendered(prober, PLAIN).after == "user: hi\n"


FILTERS = 58_000  # some 350,000 characters


@pytest.mark.parametrize(
    "template",
    [
        pytest.param("{{ x" + "|upper" * FILTERS + " }}", id="too long"),
        pytest.param("{{ x" + "|upper" * (FILTERS // 3) + " }}", id="too many tokens"),
        pytest.param("{{ x|upper }}" * (FILTERS // 2), id="many outputs"),
    ],
)
def test_a_template_that_is_not_read_is_not_rendered_either(template: str) -> None:
    before, after = (
        snapshot_of({"tokenizer_config.json": json.dumps({"chat_template": text})})
        for text in (template, f"{template}!")
    )
    with Prober() as prober, at_most(2_000_000):
        seen = Examiner(prober, ESTIMATOR).examine(before, after)
        assert prober._templates.largest == 0  # no question was sent
    (results,) = seen.probes.values()
    assert {result.after_error for result in results} == {"too_large"}
    assert [
        finding.change.facts["probes_gap"] for finding in seen.findings if "probes_gap" in finding.change.facts
    ]


def test_the_child_is_restarted_after_its_death(prober: Prober) -> None:
    prober.close()
    assert rendered(prober, PLAIN).after == "user: hi\n"


def test_a_child_that_was_told_to_come_up_answers(prober: Prober) -> None:
    prober.close()
    prober.start()
    child = prober._templates._child
    prober.start()
    assert rendered(prober, PLAIN).after == "user: hi\n"
    assert prober._templates._child is child is not None


def test_no_process_for_a_child_is_a_gap(prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise BlockingIOError

    prober.close()
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", full)
        prober.start()
        assert rendered(prober, PLAIN).after_error == "died"
    assert rendered(prober, PLAIN).after == "user: hi\n"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_the_child_has_no_environment_and_no_descriptors(prober: Prober) -> None:
    secret, other = os.pipe()
    os.set_inheritable(secret, True)
    try:
        prober.close()
        rendered(prober, PLAIN)
        pid = next(
            item.name
            for item in Path("/proc").iterdir()
            if b"child.py" in _read(f"{item}/cmdline") and _parent(item.name) == os.getpid()
        )
        assert _read(f"/proc/{pid}/environ").strip(b"\0").decode() in {"", "LC_CTYPE=C.UTF-8"}
        assert {item.name for item in Path(f"/proc/{pid}/fd").iterdir()} <= {"0", "1", "2"}
    finally:
        os.close(secret)
        os.close(other)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _parent(pid: str) -> int:
    status = _read(f"/proc/{pid}/status").decode()
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:")), 0)


def test_text_of_every_kind_survives_the_pipes(prober: Prober) -> None:
    for text in ("é漢字\U0001f600", "\ud800", "\u0000\n.", "</s>\\"):
        assert rendered(prober, text).after == text


@pytest.mark.corpus
def test_renders_are_those_recorded(corpus: Path, prober: Prober) -> None:
    count = 0
    for recorded in sorted((corpus / "cases" / "inputs").glob("*/expected_render.json")):
        sides = [_template(recorded.parent / side) for side in ("old", "new")]
        tokens = {"bos_token": "<BOS>"}
        results = prober.templates(*sides, special_tokens_before=tokens, special_tokens_after=tokens)
        got = {result.probe: result for result in results}
        for probe, expected in json.loads(recorded.read_text(encoding="utf-8")).items():
            result = got[probe]
            assert _shown(result.before, result.before_error) == expected["old"]
            assert _shown(result.after, result.after_error) == expected["new"]
            count += 1
    assert count >= 8 * 8


def _template(folder: Path) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    text = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"]
    assert isinstance(text, str)
    return text


def _shown(text: str | None, error: str | None) -> str:
    return f"ERROR {error}" if text is None else text


def test_a_side_without_a_template_has_neither_text_nor_error(prober: Prober) -> None:
    [first, *_] = prober.templates(None, PLAIN)
    assert (first.outcome, first.before, first.before_error) == (ProbeOutcome.DIFFERENT, None, None)
    assert first.after == "user: hi\n"


def test_threads_may_share_a_prober(prober: Prober) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: rendered(prober, f"{n}{{{{ messages[0].content }}}}").after, range(20)))
    assert results == [f"{n}hi" for n in range(20)]
