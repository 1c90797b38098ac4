"""Changes that hurt people, played again: each case's before and after as revisions or states of a repo.

All cases share one Hub and one installation: every repo is put up as it was, watched and read, then altered,
then read again. What a case records of itself (class, paths, severity) must be what is said of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from advisories.rules.rating import CLASS_REASON
from storage.model import Severity
from tests.support.command import Hubwatch
from tests.support.models import llama, weights
from tracker.demo.files import LargeFile, gguf, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content, GitRepo

pytestmark = pytest.mark.corpus

CASES = (
    "C01", "C02", "C03", "C04", "C06", "C07", "C09", "C11", "C12", "C13", "C15", "C17", "C19", "C20", "C22",
    "C23", "C24", "C25", "C26", "C28", "C30", "C32", "C34", "C35", "C61", "C64",
)  # fmt: skip
TOKEN = "hf_cases"
_ENVIRONMENT = {"HF_TOKEN": TOKEN, "HUBWATCH_POLL_REFS_EVERY": "0s"}  # refs are read at every check
# Files that a case names without giving their bytes: other bytes before and after, of the kind it says.
_CODE = {"old": "def forward(x):\n    return x\n", "new": "def forward(x, mask=None):\n    return x + 1\n"}
_NAMED_ONLY: Mapping[str, Mapping[str, tuple[Content, Content]]] = {
    "C11": {"configuration_RW.py": (_CODE["old"], None), "modelling_RW.py": (_CODE["old"], None)},
    "C12": {
        "configuration_phi.py": (_CODE["old"], _CODE["new"]),
        "modeling_phi.py": (_CODE["old"], _CODE["new"]),
        "pytorch_model.bin": (LargeFile(b"PK\x03\x04", 4000), None),
    },
    "C13": {
        "tokenization_chatglm.py": (_CODE["old"], _CODE["new"]),
        "pytorch_model-00001-of-00002.bin": (LargeFile(b"PK\x03\x04a", 4000), LargeFile(b"PK\x03\x04b", 3900)),
        "pytorch_model-00002-of-00002.bin": (LargeFile(b"PK\x03\x04c", 4000), LargeFile(b"PK\x03\x04d", 3900)),
    },
}
# Where the recorded revision was followed by its own undoing.
_REVERTED = frozenset({"C11"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an installation said of one case: its advisories."""

    documents: list[dict[str, Any]]

    @property
    def classes(self) -> set[str]:
        return {document["database_specific"]["change_class"] for document in self.documents}

    def of(self, cls: str) -> list[dict[str, Any]]:
        return [doc for doc in self.documents if doc["database_specific"]["change_class"] == cls]


def repo_of(case: str) -> str:
    return f"cases/{case.lower()}"


def read(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def files_of(folder: Path, case: str, side: str) -> dict[str, Content]:
    """One side of a case as files of a repo, its stand-ins played as the collection says."""
    files: dict[str, Content] = dict(read(folder / case / side))
    if "tensor_names.json" in files:
        names = json.loads(read(folder / case / side)["tensor_names.json"])
        del files["tensor_names.json"]
        files["model-00001-of-00001.safetensors"] = safetensors(dict.fromkeys(names, ("F16", (8, 8))))
    if "siblings.json" in files:
        names = json.loads(read(folder / case / side)["siblings.json"])
        files = {name: stand_in(name) for name in names}
    if "lfs.json" in files:
        told = json.loads(read(folder / case / side)["lfs.json"])
        header = gguf({"general.architecture": "gemma3", "general.name": "gemma"}).header
        files = {told["path"]: LargeFile(header, told["size"], told["sha256"])}
    for path, (old, new) in _NAMED_ONLY.get(case, {}).items():
        files[path] = old if side == "old" else new
    files.setdefault("config.json", llama())
    return files


def stand_in(name: str) -> Content:
    if name.endswith(".safetensors"):
        return weights()
    if name.endswith(".bin"):
        return LargeFile(b"PK\x03\x04", 4000)
    return llama() if name == "config.json" else "---\nlicense: mit\n---\n# A model\n"


def commit(repo: GitRepo, files: Mapping[str, Content], title: str) -> str:
    """Commit exactly these files, whatever was there."""
    gone: dict[str, Content] = (
        dict.fromkeys(path for path, _ in repo.files("main")) if repo.resolve("main") else {}
    )
    return repo.commit({**gone, **files}, title=title)


# --- the states that are no files ---------------------------------------------------------------------


def plain(hub: LoopbackHub, name: str) -> GitRepo:
    repo = hub.create(name)
    repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="Upload")
    return repo


def taken(hub: LoopbackHub, name: str, folder: Path) -> None:
    old, new = (json.loads(read(folder / side)["api.json"]) for side in ("old", "new"))
    stranger = GitRepo(hub.root / "stranger.git")
    stranger.commit({"config.json": llama(hidden_size=32), "model.safetensors": weights(salt="x")}, title="Hello")
    assert old["_id"] != new["_id"]
    hub.replace_identity(name, new["_id"], repo=stranger)


def forced(hub: LoopbackHub, name: str) -> None:
    repo = hub.repo(name)
    repo.reset("main", repo.log("main")[-1])
    repo.commit({"config.json": llama(rope_theta=5.0)}, title="Another history")


def proposed(hub: LoopbackHub, name: str) -> None:
    repo = hub.repo(name)
    repo.commit({"model.safetensors": weights(salt="pr")}, ref="refs/pr/7", parents=[repo.log("main")[0]])


def begin(hub: LoopbackHub, folder: Path, case: str) -> None:
    name = repo_of(case)
    match case:
        case "C20" | "C22" | "C23" | "C24" | "C32":
            repo = plain(hub, name)
            if case == "C32":
                repo.commit({"model.safetensors": None, "pytorch_model.bin": LargeFile(b"PK\x03\x04", 4000)})
            if case == "C24":
                repo.commit({"config.json": llama(rope_theta=4.0)}, title="Soon to be gone")
        case "C35":
            base = hub.create("cases/c35-base")
            commit(base, files_of(folder, case, "old"), "Upload")
            hub.create(name).commit({"README.md": "# Soon\n"}, title="initial commit")
        case _:
            commit(hub.create(name), files_of(folder, case, "old"), "Upload")


def alter(hub: LoopbackHub, folder: Path, case: str) -> None:
    name = repo_of(case)
    states: dict[str, Callable[[], object]] = {
        "C20": lambda: hub.remove(name),
        "C22": lambda: hub.rename(name, "cases/c22-new"),
        "C23": lambda: taken(hub, name, folder / case),
        "C24": lambda: forced(hub, name),
        "C32": lambda: proposed(hub, name),
    }
    if case in states:
        states[case]()
        return
    files = files_of(folder, case, "new")
    if case == "C35":
        files["README.md"] = "---\nbase_model: cases/c35-base\n---\n# A copy\n"
    commit(hub.repo(name), files, "The change")
    if case in _REVERTED:
        commit(hub.repo(name), files_of(folder, case, "old"), "Put it back")


@pytest.fixture(scope="module")
def said(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Said]]:
    """Every case played once, and what was said of each."""
    folder = corpus / "cases" / "inputs"
    root = tmp_path_factory.mktemp("cases")
    home = root / "home"
    home.mkdir()
    with LoopbackHub(root / "hub") as hub:
        hub.tokens = {TOKEN: set()}
        hubwatch = Hubwatch(hub.url, f"sqlite:///{home}/hubwatch.db", home, dict(_ENVIRONMENT))
        for case in CASES:
            begin(hub, folder, case)
        assert hubwatch("watch", "add", "cases/*", "--public").code == 0
        assert hubwatch("poll").code == 0
        for case in CASES:
            alter(hub, folder, case)
        for _ in range(3):  # a repo that is gone must be gone for a while
            assert hubwatch("poll").code in {0, 1}
        assert not hub.crashes
        documents = hubwatch.json("advisories")["advisories"]
        yield {case: Said(documents=[doc for doc in documents if is_about(doc, repo_of(case))]) for case in CASES}


def is_about(document: dict[str, Any], repo: str) -> bool:
    return any(affected["package"]["name"].endswith(f"/{repo}") for affected in document["affected"])


@pytest.fixture(scope="module")
def recorded(corpus: Path) -> Mapping[str, dict[str, Any]]:
    lines = (corpus / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


def test_every_case_with_inputs_is_played(corpus: Path) -> None:
    assert sorted(path.name for path in (corpus / "cases" / "inputs").iterdir()) == sorted(CASES)


@pytest.mark.parametrize("case", CASES)
def test_class_and_severity_are_as_recorded(
    said: Mapping[str, Said], recorded: Mapping[str, dict[str, Any]], case: str
) -> None:
    wanted, heard_of = recorded[case], said[case]
    assert {wanted["change_class"], *wanted["also_classes"]} <= heard_of.classes
    documents = heard_of.of(wanted["change_class"])
    assert documents
    worst = max(documents, key=lambda doc: Severity.parse(doc["database_specific"]["severity"]))
    severity = Severity.parse(worst["database_specific"]["severity"])
    apart = abs(severity - Severity.parse(wanted["severity"]))
    assert apart <= 1
    if apart:
        assert worst["database_specific"]["severity_reason"] != CLASS_REASON


@pytest.mark.parametrize("case", CASES)
def test_paths_are_the_affected_ones(
    said: Mapping[str, Said], recorded: Mapping[str, dict[str, Any]], corpus: Path, case: str
) -> None:
    wanted, heard_of = recorded[case], said[case]
    paths = {
        path
        for doc in heard_of.documents
        for affected in doc["affected"]
        for path in affected["database_specific"]["paths"]
    }
    changed = {
        path
        for side in ("old", "new")
        for path in read(corpus / "cases" / "inputs" / case / side)
        if path.endswith((".jinja", ".py"))
        or path in {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"}
        if _differs(corpus / "cases" / "inputs" / case, path)
    }
    assert changed <= paths
    named = [pattern for pattern in wanted["files"] if not pattern.startswith("(") and ":" not in pattern]
    if named:
        told = {
            path
            for doc in heard_of.of(wanted["change_class"])
            for path in doc["affected"][0]["database_specific"]["paths"]
        }
        assert any(path in changed or fnmatchcase(path, pattern) for path in told for pattern in named), told


def _differs(case: Path, path: str) -> bool:
    old, new = (read(case / side).get(path) for side in ("old", "new"))
    return old != new


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_said_that_must_not_be(
    said: Mapping[str, Said], recorded: Mapping[str, dict[str, Any]], case: str
) -> None:
    for pattern in recorded[case].get("must_not", []):
        assert not [cls for cls in said[case].classes if fnmatchcase(cls, pattern)]


@pytest.mark.parametrize("case", CASES)
def test_every_advisory_says_why_and_what_to_do(said: Mapping[str, Said], case: str) -> None:
    for document in said[case].documents:
        about = document["database_specific"]
        assert about["severity_reason"].strip()
        assert len(about["advice"].split()) > 3
        assert "{" not in about["advice"]
