"""Every differ keeps the contract, on hostile snapshots and on real ones; together they name every change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.model import Change, Snapshot, canonical_json
from tests.tracker.diff.snapshots import read_tree, snapshot_of
from tests.tracker.snapshot.make import PICKLE, gguf, safetensors
from tracker.diff.files import paths_of
from tracker.diff.interface import Differ
from tracker.diff.registry import compare, load, observe
from tracker.diff.repo import changed_paths
from tracker.snapshot.build import carry

GOLDEN = Path(__file__).parent.parent / "golden" / "diff"
DIFFERS = load()


# --- snapshots that could be --------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        "hidden_size",
        "rope_theta",
        "eos_token_id",
        "auto_map",
        "chat_template",
        "license",
        "dtype",
        "a/b~c",
        "\ud800",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(
        ["model.Net", "owner/name--model.Net", "mit", "{{ messages }}", "\u200bx\u202e", "apache-2.0"]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5).map(lambda value: json.dumps(value).encode())
SOURCES = st.sampled_from(
    [
        b"import os\nos.system('x')\n",
        b"# a comment\nimport   os\nos.system('x')\n",
        b"def f(a, b=1):\n    return a\n",
        b"def f(a, *, b):\n    return eval(a)\n",
        b"def (",
        b"\xff\xfe",
        b"",
    ]
)
TENSORS = st.dictionaries(
    st.sampled_from(["a.weight", "b.weight", "model.a.weight", "lm_head.weight"]),
    st.tuples(st.sampled_from(["F32", "BF16", "I64"]), st.sampled_from([(2,), (2, 3), (3, 2), ()])),
    max_size=3,
)
WEIGHTS = st.builds(safetensors, TENSORS, salt=st.integers(0, 1)) | st.sampled_from(
    [b"", b"PK\x03\x04zip", PICKLE]
)
INDEXES = st.builds(
    lambda names: json.dumps({"weight_map": names}).encode(),
    st.dictionaries(
        st.sampled_from(["a.weight", "b.weight"]),
        st.sampled_from(["model-00001-of-00002.safetensors", "model.safetensors", "gone.safetensors"]),
        max_size=2,
    ),
)
GGUFS = st.builds(
    gguf,
    st.dictionaries(
        st.sampled_from(
            ["general.name", "tokenizer.ggml.pre", "tokenizer.chat_template", "tokenizer.ggml.tokens"]
        ),
        st.sampled_from(["llama", "{{ messages }}", 3, 1.5, True, ["a", "b"], list(range(70))]),
        max_size=3,
    ),
    salt=st.sampled_from([b"", b"x"]),
)
TOKENIZERS = st.builds(
    lambda vocab, extra, more: json.dumps(
        {"model": {"type": "BPE", "vocab": vocab, "merges": extra}, "added_tokens": more}
    ).encode(),
    st.dictionaries(st.text(max_size=3), st.integers(-1, 9) | st.none(), max_size=4),
    st.lists(st.text(max_size=3) | st.lists(st.text(max_size=2), max_size=2), max_size=3),
    VALUES
    | st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "content": st.text(max_size=3)}), max_size=2),
)
BROKEN = st.sampled_from([b"{", b'{"a":1,"a":2}', b"[]", b"\xff", b"\x80\x04.", b'{"a": NaN}', b"null", b""])
CARDS = st.sampled_from(
    [
        b"text",
        b"---\nlicense: mit\n---\ntext",
        b"---\nlicense: cc-by-nc-4.0\ntags: [a, b]\nbase_model: x/y\n---\ntext",
        b"---\nlicense: [\n---\n",
        b"---\n? {a: 1}\n: 2\n---\nmore",
    ]
)
CONFIGS = OBJECTS | BROKEN
FILES = st.fixed_dictionaries(
    {},
    optional={
        "config.json": CONFIGS,
        "text/config.json": CONFIGS,
        "generation_config.json": CONFIGS,
        "tokenizer_config.json": CONFIGS,
        "special_tokens_map.json": CONFIGS,
        "added_tokens.json": CONFIGS,
        "processor_config.json": CONFIGS,
        "adapter_config.json": CONFIGS,
        "modules.json": CONFIGS,
        "quantize_config.json": CONFIGS,
        "model_index.json": CONFIGS,
        "tokenizer.json": TOKENIZERS | CONFIGS,
        "vocab.json": CONFIGS,
        "vocab.txt": st.text(max_size=9).map(str.encode) | BROKEN,
        "merges.txt": st.text(max_size=9).map(str.encode) | BROKEN,
        "chat_template.jinja": st.sampled_from([b"{{ messages }}", b"{{ bos_token }}{{ messages }}", b"{% if"])
        | BROKEN,
        "chat_template.json": CONFIGS,
        "modeling.py": SOURCES,
        "setup.py": SOURCES,
        "requirements.txt": st.sampled_from([b"torch\n", b"torch==1\n# x\n", b"\xff"]),
        "README.md": CARDS,
        "LICENSE": st.sampled_from([b"MIT License", b"MIT  License\n", b"Apache License", b"\xff"]),
        "model.safetensors": WEIGHTS,
        "model-00001-of-00002.safetensors": WEIGHTS,
        "model-00002-of-00002.safetensors": WEIGHTS,
        "model.safetensors.index.json": INDEXES | CONFIGS,
        "other.safetensors": WEIGHTS,
        "pytorch_model.bin": st.sampled_from([PICKLE, PICKLE + b"x"]),
        "optimizer.pt": st.sampled_from([PICKLE, PICKLE + b"x"]),
        "q4.gguf": GGUFS | st.sampled_from([b"", b"GGUF"]),
        "notes.bin.txt": st.binary(max_size=3),
        ".gitattributes": st.binary(max_size=3),
    },
)
SNAPSHOTS = st.builds(snapshot_of, FILES)
HOSTILE = settings(max_examples=40, suppress_health_check=list(HealthCheck))


# --- what must hold -----------------------------------------------------------------------------------


def check_laws(differ: Differ, before: Snapshot, after: Snapshot) -> list[Change]:
    """Every law of `tracker.diff.interface`, and what a change must look like."""
    changes = list(differ.diff(before, after))
    for change in changes:
        check_shape(change)
        if change.facet:
            assert change.facet.startswith(f"{differ.name}:"), change
            assert differ.observe(before, change.facet) == change.before_digest, change
            assert differ.observe(after, change.facet) == change.after_digest, change
            assert change.before_digest != change.after_digest, change
    assert [repr(change) for change in differ.diff(before, after)] == [repr(change) for change in changes]
    return changes


def check_standing(differ: Differ, snapshot: Snapshot) -> None:
    for change in differ.standing(snapshot):
        check_shape(change)
        assert change.before_digest is None
        if change.facet:
            assert differ.observe(snapshot, change.facet) == change.after_digest, change


def check_shape(change: Change) -> None:
    json.loads(json.dumps([change.before, change.after, dict(change.facts)], allow_nan=False))
    canonical_json([change.before, change.after, dict(change.facts)])
    assert "\n" not in change.summary
    assert 0 < len(change.summary) <= 300, change.summary
    assert change.path


def check_complete(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    changes = compare(before, after, had_model=True)
    named = {path for change in changes for path in paths_of(change)}
    assert not set(changed_paths(before.manifest, after.manifest)) - named
    return changes


@pytest.mark.parametrize("differ", DIFFERS, ids=lambda differ: differ.name)
@HOSTILE
@given(before=SNAPSHOTS, after=SNAPSHOTS)
def test_laws_hold_on_any_snapshots(differ: Differ, before: Snapshot, after: Snapshot) -> None:
    after = carry(before, after)
    assert list(differ.diff(before, before)) == []
    assert list(differ.diff(after, after)) == []
    check_laws(differ, before, after)
    check_standing(differ, after)


@HOSTILE
@given(before=SNAPSHOTS, after=SNAPSHOTS)
def test_every_changed_path_is_named(before: Snapshot, after: Snapshot) -> None:
    check_complete(before, carry(before, after))
    assert compare(before, before) == ()


@HOSTILE
@given(snapshot=SNAPSHOTS)
def test_the_first_files_are_one_change_and_the_standing_dangers(snapshot: Snapshot) -> None:
    changes = compare(None, snapshot)
    first = [change for change in changes if change.cls == "repo.first_files"]
    assert len(first) <= 1
    if first:
        rest = [change for change in changes if change is not first[0]]
        assert all(change.facts["since_first"] for change in rest)
        assert {change.facet for change in rest} == {
            change.facet for differ in DIFFERS for change in differ.standing(snapshot)
        }


def test_an_unknown_facet_is_not_there() -> None:
    snapshot = snapshot_of({"config.json": {}})
    for facet in ("", "nobody:x", *(f"{differ.name}:nothing:at/all#/here" for differ in DIFFERS)):
        assert observe(snapshot, facet) is None, facet


def test_differs_are_sorted_and_named_once() -> None:
    names = [differ.name for differ in DIFFERS]
    assert names == sorted(set(names))
    assert {"card", "code", "files", "repo", "weights"} <= set(names)


# --- golden cases -------------------------------------------------------------------------------------


def told(change: Change) -> dict[str, Any]:
    """What a golden case keeps of a change."""
    return {"class": change.cls, "path": change.path, "pointer": change.pointer, "summary": change.summary}


@pytest.mark.parametrize("case", sorted(GOLDEN.glob("*-*")), ids=lambda case: case.name)
def test_golden(case: Path) -> None:
    before, after = read_tree(case / "before"), read_tree(case / "after")
    changes = compare(before, carry(before, after))
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    assert [told(change) for change in changes] == expected["changes"]


# --- real histories -----------------------------------------------------------------------------------


def histories(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    for index in sorted(folder.glob("*/*/index.json")):
        recorded = json.loads(index.read_text(encoding="utf-8"))
        files = [index.parent / version["file"] for version in recorded["versions"] if version.get("file")]
        present = [file for file in files if file.is_file()]
        if len(present) > 1:
            yield recorded["path"], present


@pytest.mark.corpus
@pytest.mark.parametrize("differ", DIFFERS, ids=lambda differ: differ.name)
def test_laws_hold_on_real_histories(differ: Differ, corpus: Path) -> None:
    count = 0
    for path, files in histories(corpus / "corpus" / "histories"):
        name = path.rpartition("/")[2] if path.endswith((".json", ".jinja", ".txt", ".py")) else path
        before: Snapshot | None = None
        for file in files:
            if file.stat().st_size > 2_000_000:
                continue
            after = carry(before, snapshot_of({name: file.read_bytes()}))
            if before is not None:
                check_laws(differ, before, after)
                count += 1
            check_standing(differ, after)
            before = after
    assert count > 50


@pytest.mark.corpus
def test_real_histories_are_told_completely(corpus: Path) -> None:
    classes = set()
    for path, files in histories(corpus / "corpus" / "histories"):
        name = path.rpartition("/")[2]
        before: Snapshot | None = None
        for file in files[:12]:
            if file.stat().st_size > 2_000_000:
                continue
            after = carry(before, snapshot_of({name: file.read_bytes()}))
            if before is not None:
                classes |= {change.cls for change in check_complete(before, after)}
            before = after
    assert {"document.unreadable", "file.formatting"} & classes
