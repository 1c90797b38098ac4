"""Code that a repo makes its users run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage.model import Change
from tests.tracker.diff.snapshots import read_tree, snapshot_of
from tracker.diff.code import DIFFER
from tracker.diff.registry import compare, observe
from tracker.diff.sources import summarise

PLAIN = "import torch\n\nclass Net:\n    def forward(self, x):\n        return x\n"


def diff(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    return list(DIFFER.diff(snapshot_of(before), snapshot_of(after)))


def dangerous(before: str, after: str) -> list[str]:
    (change,) = diff({"m.py": before}, {"m.py": after})
    assert change.cls == "code.changed"
    return list(change.facts["dangerous"])


def test_auto_map_at_any_depth_holds_until_gone() -> None:
    before = {"config.json": {"vision": {"a/b": {}}}}
    after = {"config.json": {"vision": {"a/b": {"auto_map": {"AutoModel": "m.Net"}}}}}
    (change,) = diff(before, after)
    assert (change.cls, change.pointer) == ("code.auto_map_added", "/vision/a~1b/auto_map")
    moved = {"config.json": {"vision": {"a/b": {"auto_map": {"AutoModel": "other.Net"}}}}}
    assert observe(snapshot_of(moved), change.facet) == change.after_digest
    (again,) = diff(after, moved)
    assert (again.cls, again.path) == ("code.changed", "config.json")
    assert [item.cls for item in diff(after, before)] == ["code.removed"]


def test_code_from_another_repo_is_named_once() -> None:
    config = {"auto_map": {"AutoConfig": "them/code--c.C", "AutoModel": "them/code--m.M"}}
    changes = diff({}, {"config.json": config})
    assert [change.cls for change in changes] == ["code.auto_map_added", "code.cross_repo"]
    assert changes[1].facts["repo"] == "them/code"
    assert [change.cls for change in DIFFER.standing(snapshot_of({"config.json": config}))] == [
        "code.auto_map_added",
        "code.cross_repo",
    ]


@pytest.mark.parametrize(
    ("line", "group"),
    [
        ("import os; os.system('x')", "subprocess"),
        ("from os import system as s; s('x')", "subprocess"),
        ("import subprocess as sp; sp.run(['x'])", "subprocess"),
        ("import urllib.request; urllib.request.urlopen('x')", "network"),
        ("from urllib import request as r; r.urlopen('x')", "network"),
        ("import requests; requests.get('x')", "network"),
        ("import socket; socket.socket()", "network"),
        ("eval('1')", "exec"),
        ("__builtins__.exec('1')", "exec"),
        ("import builtins as b; b.eval('1')", "exec"),
        ("import importlib; importlib.import_module('x')", "exec"),
        ("import os; getattr(os, 'sys' + 'tem')('x')", "exec"),
        ("import pickle; pickle.loads(b'')", "exec"),
        ("open('x', 'w')", "file_write"),
        ("open('x', mode='ab')", "file_write"),
        ("open('x', mode)", "file_write"),
        ("from pathlib import Path; Path('x').write_text('y')", "file_write"),
        ("from pathlib import Path; Path('x').open('w')", "file_write"),
        ("import shutil; shutil.rmtree('x')", "file_write"),
        ("def f():\n    def g():\n        import os\n        os.popen('x')", "subprocess"),
    ],
)
def test_new_calls_that_matter(line: str, group: str) -> None:
    found = dangerous(PLAIN, f"{PLAIN}\n{line}\n")
    assert any(item.endswith(f"({group})") for item in found), found
    assert dangerous(f"{PLAIN}\n{line}\n", f"{PLAIN}\n{line}\nx = 2\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "model.eval()",
        "open('x')",
        "open('x', 'rb')",
        "re.compile('x')",
        "text = 'os.system(1)'",
        "torch.load('x')",
    ],
)
def test_calls_that_do_not_matter(line: str) -> None:
    assert dangerous(PLAIN, f"{PLAIN}\n{line}\n") == []


def test_what_was_added_is_listed() -> None:
    after = PLAIN.replace("x):", "x, padding_side=None):") + "import numpy as np\nnp.load('x')\n"
    (change,) = diff({"m.py": PLAIN}, {"m.py": after})
    assert change.facts["imports_added"] == ["numpy"]
    assert change.facts["calls_added"] == {"deserialise": ["numpy.load"]}
    assert change.facts["signatures"] == [
        {"name": "Net.forward", "before": "self, x", "after": "self, x, padding_side=None"}
    ]


def test_layout_and_comments_are_formatting() -> None:
    before, after = snapshot_of({"m.py": PLAIN}), snapshot_of({"m.py": "# hello\n" + PLAIN.replace("    ", "  ")})
    assert [change.cls for change in compare(before, after, had_model=True)] == ["file.formatting"]


def test_added_moved_and_removed() -> None:
    writing = PLAIN + "open('x', 'w')\n"
    (added,) = diff({}, {"m.py": writing})
    assert added.facts["dangerous"] == ["open for writing (file_write)"]
    moved, removed = diff({"m.py": writing}, {"n.py": writing})
    assert (moved.cls, moved.facts["moved_from"], moved.facts["dangerous"]) == ("code.changed", "m.py", [])
    assert (removed.cls, removed.path) == ("code.removed", "m.py")


def test_what_cannot_be_parsed_may_do_anything() -> None:
    for text in ("def (", "(" * 5_000, "x = " + "-" * 100_000 + "1", "x" + ".a" * 100_000, "a = 1\n" * 200_000):
        (change,) = diff({"m.py": PLAIN}, {"m.py": text})
        if summarise(text) is None:
            assert change.facts["dangerous"] == ["source that cannot be parsed"]


def test_requirements() -> None:
    (change,) = diff({"requirements.txt": "torch\n# x\n"}, {"requirements.txt": "numpy  # y\ntorch\n"})
    assert (change.cls, change.after, change.facts["removed"]) == ("code.requirements", ["numpy"], 0)
    assert diff({"requirements.txt": "a\nb\n"}, {"requirements.txt": "b\n\na # c\n"}) == []


@pytest.mark.corpus
def test_auto_map_as_it_happened(corpus: Path) -> None:
    folder = corpus / "cases" / "inputs" / "C30"
    changes = compare(read_tree(folder / "old"), read_tree(folder / "new"))
    assert {"code.auto_map_added", "code.changed"} <= {change.cls for change in changes}


@pytest.mark.corpus
def test_a_harmless_template_is_no_code(corpus: Path) -> None:
    folder = corpus / "cases" / "inputs" / "C26"
    changes = DIFFER.diff(read_tree(folder / "old"), read_tree(folder / "new"))
    assert list(changes) == []


@pytest.mark.parametrize(
    ("path", "data", "pointer"),
    [
        ("processor_config.json", {"auto_map": {"AutoProcessor": "p.P"}}, "/auto_map"),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["t.T", None]}}, "/auto_map"),
        ("preprocessor_config.json", {"trust_remote_code": True}, "/trust_remote_code"),
        (
            "sentence_bert_config.json",
            {"model_args": {"trust_remote_code": True}},
            "/model_args/trust_remote_code",
        ),
        ("modules.json", [{"idx": 0, "type": "custom_st.Transformer"}], "/0/type"),
        ("model_index.json", {"_class_name": ["my_pipeline", "MyPipeline"]}, "/_class_name"),
    ],
)
def test_every_place_that_makes_loaders_run_code(path: str, data: Any, pointer: str) -> None:
    added = [change for change in diff({}, {path: data}) if change.cls == "code.auto_map_added"]
    assert [(change.path, change.pointer) for change in added] == [(path, pointer)]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("config.json", {"trust_remote_code": True}),
        ("tokenizer_config.json", {"trust_remote_code": False}),
        ("modules.json", [{"type": "sentence_transformers.models.Pooling"}]),
        ("model_index.json", {"_class_name": "StableDiffusionPipeline", "vae": ["diffusers", "AutoencoderKL"]}),
    ],
)
def test_places_that_only_look_like_it(path: str, data: Any) -> None:
    assert diff({}, {path: data}) == []
