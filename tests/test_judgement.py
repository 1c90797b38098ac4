"""Over every recorded history: what must never be said, and what must not be called grave."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.model import Severity
from tests.judgement import Line, lines

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def judged(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    return list(lines(corpus, tmp_path_factory.mktemp("histories")))


def test_all_histories_are_judged(judged: list[Line]) -> None:
    assert len({line.history for line in judged}) > 60
    assert {line.finding.severity for line in judged} == set(Severity)


def test_a_change_of_layout_is_never_more_than_info(judged: list[Line]) -> None:
    laid_out = {
        (line.history, line.commit, line.finding.change.path)
        for line in judged
        if line.finding.cls == "file.formatting"
    }
    about = [line for line in judged if (line.history, line.commit, line.finding.change.path) in laid_out]
    assert {line.finding.severity for line in about} <= {Severity.INFO}


def test_no_honest_template_is_unsafe_or_hides_anything(judged: list[Line]) -> None:
    assert [str(line) for line in judged if line.finding.cls in {"template.unsafe", "template.hidden_chars"}] == []


def test_a_template_is_not_said_to_fail_for_want_of_a_token_that_is_elsewhere(judged: list[Line]) -> None:
    refused = [line for line in judged if line.finding.cls == "template.args_contract"]
    assert refused
    assert not [str(line) for line in refused if "_token' is undefined" in line.finding.change.summary]


def test_what_a_class_takes_anyway_and_what_only_training_reads_is_info(judged: list[Line]) -> None:
    kinds = ("bookkeeping", "default_equal", "training")
    silent = [line for line in judged if any(line.finding.change.facts.get(kind) for kind in kinds)]
    assert len(silent) > 30
    assert {line.finding.severity for line in silent} == {Severity.INFO}


def test_every_severity_has_a_reason_and_grave_ones_are_few(judged: list[Line]) -> None:
    assert all(line.finding.reason.strip() for line in judged)
    grave = [line for line in judged if line.finding.severity is Severity.CRITICAL]
    assert 0 < len(grave) < len(judged) / 20
