"""What ``--fix`` says to write, in the notation that each reference stands in."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from advisories.audit import report
from advisories.audit.find.tree import read_tree
from advisories.audit.match import audit
from advisories.audit.model import Audit, Knowledge
from advisories.audit.names import Names
from advisories.audit.pins import Pin, pins
from advisories.audit.sarif import to_sarif

HEAD, OLD = "e5" * 20, "f6" * 20
DOCUMENT = {
    "id": "x_1",
    "summary": "acme/a: changed",
    "database_specific": {"severity": "HIGH", "change_class": "template.tools", "status": "open"},
    "affected": [{"ranges": [{"events": [{"introduced": HEAD}]}], "versions": [HEAD]}],
}


def audited(folder: Path, name: str, text: str) -> Audit:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(dedent(text))
    known = Knowledge(repo="acme/a", documents=(DOCUMENT,), head=HEAD, read=(OLD, HEAD), ordered=True)
    return audit(read_tree(folder, Names()), {"acme/a": known}, str(folder))


def pin_in(folder: Path, name: str, text: str) -> Pin:
    (pin,) = pins(audited(folder, name, text))
    return pin


@pytest.mark.parametrize(
    ("name", "text", "write"),
    [
        (".env", "MODEL_ID=acme/a\n", "MODEL_REVISION={}"),
        (".env", "EMBED_REPO=acme/a\nEMBED_REVISION=main\n", "EMBED_REVISION={}"),
        (".env", "MODEL_ID=acme/a\nREVISION=main\n", "REVISION={}"),
        (".env", "HF_MODEL_ID=acme/a\nHF_REVISION=main\n", "HF_REVISION={}"),
        ("c.yaml", "environment:\n  MODEL_ID: acme/a\n", "MODEL_REVISION: {}"),
        ("c.yaml", "environment:\n  - MODEL_ID=acme/a\n", "- MODEL_REVISION={}"),
        (
            "c.yaml",
            "image: ghcr.io/huggingface/text-generation-inference:3\nenvironment:\n  - MODEL_ID=acme/a\n",
            "- REVISION={}",
        ),
        ("c.yaml", "env:\n- name: MODEL_ID\n  value: acme/a\n", "- {{name: MODEL_REVISION, value: {}}}"),
        ("Dockerfile", "FROM x\nENV MODEL_ID=acme/a\n", "ENV MODEL_REVISION={}"),
        ("Dockerfile", "FROM text-embeddings-inference:1\nENV MODEL_ID=acme/a\n", "ENV REVISION={}"),
        ("Dockerfile", 'CMD ["vllm", "serve", "acme/a"]\n', '"--revision", "{}"'),
        ("c.yaml", "args: [--model, acme/a]\n", '"--revision", "{}"'),
        ("c.yaml", "command: vllm serve acme/a\n", "--revision {}"),
        ("c.yaml", "model: acme/a\nmodel_revision: main\n", "model_revision: {}"),
        ("c.json", '{"modelId": "acme/a"}', '"revision": "{}"'),
        ("a.py", "AutoModel.from_pretrained('acme/a')\n", 'revision="{}"'),
        ("a.py", "LLM('x/y', tokenizer='acme/a', tokenizer_revision='main')\n", 'tokenizer_revision="{}"'),
        ("a.sh", "vllm serve x/y --tokenizer acme/a\n", "--tokenizer-revision {}"),
        ("a.sh", "docker run -e MODEL_ID=acme/a text-generation-inference\n", "REVISION={}"),
        ("a.sh", "llama-server -hf acme/a:Q4\n", None),
        ("a.sh", "vllm serve x/y --lora-modules s=acme/a\n", None),
        ("c.yaml", "env:\n  LLAMA_ARG_HF_REPO: acme/a:Q8_0\n", None),
    ],
)
def test_a_pin_is_written_as_its_notation_has_it(tmp_path: Path, name: str, text: str, write: str | None) -> None:
    pin = pin_in(tmp_path, name, text)
    assert pin.write == (write.format(HEAD) if write else None)
    assert (pin.sha, [notice.id for notice in pin.worries]) == (HEAD, ["x_1"])
    assert pin.how


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".env", f"MODEL_ID=acme/a\nMODEL_REVISION={OLD}\n"),
        (".env", f"CHAT_MODEL=acme/a\nCHAT_MODEL_REVISION={OLD}\n"),
        (".env", f"CHAT_REPO=acme/a\nCHAT_REVISION={OLD}\n"),
        ("c.yaml", f"environment:\n  TGI_MODEL_ID: acme/a\n  TGI_REVISION: {OLD}\n"),
        ("c.yaml", f"environment:\n- MODEL_ID=acme/a\n- REVISION={OLD}\n"),
        ("c.yaml", f"env:\n- name: MODEL_ID\n  value: acme/a\n- name: REVISION\n  value: {OLD}\n"),
        ("Dockerfile", f"ENV HF_MODEL_ID=acme/a\nENV HF_REVISION={OLD}\n"),
        ("c.yaml", f'args: ["--model", "acme/a", "--revision", "{OLD}"]\n'),
    ],
)
def test_what_is_pinned_by_a_variable_or_a_flag_needs_nothing(tmp_path: Path, name: str, text: str) -> None:
    found = audited(tmp_path, name, text)
    assert [(item.reference.repo, item.sha) for item in found.holdings] == [("acme/a", OLD)]
    assert pins(found) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".env", f"GIT_REPO=acme/a\nGIT_REVISION={OLD}\n"),
        (".env", f"DATASET_REPO=acme/a\nDATASET_REVISION={OLD}\n"),
        (".env", "CHAT_REPO=acme/a\n"),
        ("c.yaml", f"environment:\n- IMAGE_REPO=acme/a\n- IMAGE_REVISION={OLD}\n"),
    ],
)
def test_repos_of_other_things_are_none(tmp_path: Path, name: str, text: str) -> None:
    assert audited(tmp_path, name, text).references == ()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.py", "AutoModel.from_pretrained('acme/a', revision=pick())\n", "(revision)"),
        ("a.py", "AutoModel.from_pretrained('acme/a', **kw)\n", "spread into the call"),
        ("a.sh", 'vllm serve acme/a --revision "$REV"\n', "(--revision)"),
        ("c.yaml", "environment:\n- MODEL_ID=acme/a\n- MODEL_REVISION\n", "(MODEL_REVISION)"),
    ],
)
def test_no_edit_is_proposed_where_the_pin_is_unknown(tmp_path: Path, name: str, text: str, says: str) -> None:
    found = audited(tmp_path, name, text)
    made = report.to_json(found, fix=True)
    assert [(row["pinned"], row["pinning"]) for row in made["references"]] == [(False, "unknown")]
    assert [(gap["reason"], gap["line"]) for gap in made["gaps"]] == [("pin_unknown", found.references[0].line)]
    (pin,) = made["pins"]
    assert pin["write"] is None
    assert says in pin["how"]
    assert [finding["advisory"] for finding in made["findings"]] == ["x_1"]  # what it may be, with no commit said
    assert made["findings"][0]["sha"] is None


@pytest.mark.parametrize("revision", ["abcdef1", "v9", "0" * 12])
def test_a_revision_that_the_history_does_not_know_is_not_said_to_be_clean(tmp_path: Path, revision: str) -> None:
    found = audited(tmp_path, "a.py", f"AutoModel.from_pretrained('acme/a', revision='{revision}')\n")
    (pin,) = report.to_json(found, fix=True)["pins"]
    assert (pin["sha"], pin["write"], pin["open"], pin["judged"]) == (None, None, None, False)
    assert revision in pin["how"]
    assert "not known to the history" in pin["how"]


def test_a_short_sha_that_is_known_is_pinned_to_its_full_self(tmp_path: Path) -> None:
    pin = pin_in(tmp_path, "a.py", f"AutoModel.from_pretrained('acme/a', revision='{OLD[:10]}')\n")
    assert (pin.sha, pin.write, pin.worries) == (OLD, f'revision="{OLD}"', ())


@pytest.mark.parametrize(
    ("name", "text", "lines", "says"),
    [
        ("c.yaml", "models: [acme/a, acme/b]\n", [1, 1], "- {repo: acme/a, revision: <sha>}"),
        ("c.yaml", "models:\n  - acme/b\n  - acme/a\n", [2, 3], "- {repo: acme/a, revision: <sha>}"),
        ("c.json", '{"models": [\n"acme/a"]}', [2], '{"repo": "acme/a", "revision": "<sha>"}'),
        ("c.toml", "models = [\n'acme/a',\n]\n", [2], '{repo = "acme/a", revision = "<sha>"}'),
    ],
)
def test_a_list_of_names_has_no_place_for_a_pin(
    tmp_path: Path, name: str, text: str, lines: list[int], says: str
) -> None:
    found = audited(tmp_path, name, text)
    assert [item.line for item in found.references] == lines
    (pin,) = pins(found)
    assert pin.write is None
    assert "no place for a pin" in pin.how
    assert says in pin.how


def test_what_cannot_be_told_is_a_note_at_its_line(tmp_path: Path) -> None:
    found = audited(tmp_path, "a.py", "x = 1\nAutoModel.from_pretrained(pick())\n")
    (note,) = to_sarif(found)["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert (note["level"], note["descriptor"]["id"]) == ("note", "unresolved")
    assert note["locations"][0]["physicalLocation"]["region"] == {"startLine": 2}
    assert [(gap["file"], gap["line"]) for gap in report.to_json(found)["gaps"]] == [("a.py", 2)]


@pytest.mark.parametrize("more", ["", ', revision="main"'])
def test_a_part_beside_the_model_never_takes_the_model_s_place(tmp_path: Path, more: str) -> None:
    pin = pin_in(tmp_path, "a.py", f'LLM(model="other/b", tokenizer="acme/a"{more})\n')
    assert (pin.write, pin.sha) == (f'tokenizer_revision="{HEAD}"', HEAD)
    assert "in place of" not in pin.how
    pin = pin_in(tmp_path, "a.py", f'pipeline(model="other/b", tokenizer="acme/a"{more})\n')
    assert pin.write is None
    assert "by itself" in pin.how
