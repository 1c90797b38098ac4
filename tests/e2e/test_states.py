"""States of a repo, as they come and go: refs, history, identity, related repos, by the real command line.

All repos share one Hub and one installation, which reads them three times: as they were, after a first round
of trouble, and after a second one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Hubwatch
from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tracker.demo.files import LargeFile
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import GitRepo

OWNER = "states"
LATER = datetime(2025, 6, 1, tzinfo=UTC)


@dataclass(slots=True)
class Told:
    """What was said of one repo after each reading: its documents by class, and its revisions."""

    documents: list[dict[str, Any]]
    revisions: list[dict[str, Any]]

    def of(self, cls: str) -> list[dict[str, Any]]:
        return [item for item in self.documents if item["database_specific"]["change_class"] == cls]

    def one(self, cls: str) -> dict[str, Any]:
        found = self.of(cls)
        assert len(found) == 1, [item["summary"] for item in self.documents]
        return found[0]


Round = Mapping[str, Told]


class Story:
    """The repos, and what happens to them."""

    def __init__(self, hub: LoopbackHub, root: Path) -> None:
        self.hub, self.root = hub, root
        self.shas: dict[str, str] = {}
        self.paths: list[str] = []

    def repo(self, name: str) -> GitRepo:
        return self.hub.repo(f"{OWNER}/{name}")

    def create(self, name: str, **files: Any) -> GitRepo:
        repo = self.hub.create(f"{OWNER}/{name}")
        repo.commit({"config.json": llama(), "model.safetensors": weights(), **files}, title="Upload")
        return repo

    def begin(self) -> None:
        refs = self.create("refs")
        refs.tag("v1")
        refs.branch("dev")
        refs.branch("old")
        refs.pull_request(1)
        for name in ("ancestor", "squashed", "taken"):
            repo = self.create(name)
            self.shas[f"{name}:1"] = repo.commit({"config.json": llama(rope_theta=2e4)}, title="Theta")
            self.shas[f"{name}:2"] = repo.commit({"tokenizer_config.json": tokenizer_config()}, title="Tokenizer")
        self.create("gone")
        self.create("gated")
        self.create("disabled")
        self.create("renamed")
        code = self.hub.create("other/code")
        self.shas["code:1"] = code.commit({"net.py": "class Net: ...\n"}, title="Code")
        self.create("caller", **{"config.json": llama(auto_map={"AutoModel": "other/code--net.Net"})})
        base = self.hub.create("other/base")
        base.commit(
            {"config.json": llama(), "tokenizer_config.json": tokenizer_config(THINKING)}, title="The base"
        )
        self.create(
            "copy", **{"README.md": card("other/base"), "tokenizer_config.json": tokenizer_config(THINKING)}
        )
        self.create(
            "tuned",
            **{
                "README.md": card("other/base", "base_model_relation: finetune\n"),
                "config.json": llama(eos_token_id=99),
                "tokenizer_config.json": tokenizer_config(TEMPLATE),
            },
        )

    def first_round(self) -> None:
        refs = self.repo("refs")
        main = refs.resolve("main")
        assert main is not None
        self.shas["refs:dev"] = refs.commit({"notes.txt": "x"}, ref="dev", title="On a branch")
        refs.tag("v1", self.shas["refs:dev"])
        refs.delete_ref("refs/heads/old")
        refs.pull_request(2)
        refs.commit({"model.bin": LargeFile(b"PK\x03\x04", 4000)}, ref="refs/pr/2", title="Convert")
        refs.pull_request(3)
        refs.commit({"README.md": "# Words\n"}, ref="refs/pr/3", title="Words")
        self.repo("ancestor").reset("main", self.shas["ancestor:1"])
        self.repo("squashed").squash()
        stranger = GitRepo(self.root / "stranger.git")
        self.shas["stranger"] = stranger.commit(
            {"config.json": llama(hidden_size=32), "model.safetensors": weights(salt="x")}, title="Hello"
        )
        self.hub.replace_identity(f"{OWNER}/taken", repo=stranger)
        self.removed = self.hub.remove(f"{OWNER}/gone")
        self.hub.model(f"{OWNER}/gated").gated = "auto"
        self.hub.model(f"{OWNER}/disabled").disabled = True
        self.hub.rename(f"{OWNER}/renamed", "elsewhere/renamed")
        self.shas["code:2"] = self.hub.repo("other/code").commit({"net.py": "import os\n"}, title="More code")
        self.hub.repo("other/base").commit({"config.json": llama(eos_token_id=7)}, title="Another end token")
        imitator = self.hub.create("sta-tes/copy", created_at=LATER)
        imitator.commit({"config.json": llama()}, title="Upload")

    def second_round(self) -> None:
        refs = self.repo("refs")
        main = refs.resolve("main")
        assert main is not None
        refs.tag("v1", main)
        refs.branch("old")
        refs.delete_ref("refs/pr/2")
        self.repo("ancestor").reset("main", self.shas["ancestor:2"])
        self.hub.restore(self.removed)
        self.hub.model(f"{OWNER}/gated").gated = False
        self.hub.model(f"{OWNER}/disabled").disabled = False
        self.repo("caller").commit({"config.json": llama()}, title="No code any more")
        self.repo("copy").commit({"config.json": llama(eos_token_id=7)}, title="Follow the base")


def card(base: str, more: str = "") -> str:
    return f"---\nbase_model: {base}\n{more}---\n# A model\n"


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, list[Round]]]:
    """The story, told once: what stands after each reading."""
    root = tmp_path_factory.mktemp("states")
    (root / "home").mkdir()
    token = "hf_states"
    with LoopbackHub(root / "hub") as hub:
        hub.tokens = {token: {f"{OWNER}/gated"}}
        hubwatch = Hubwatch(hub.url, f"sqlite:///{root}/home/hubwatch.db", root / "home", {"HF_TOKEN": token})
        story = Story(hub, root)
        story.begin()
        assert hubwatch("watch", "add", f"{OWNER}/*", "--public").code == 0
        told = [read(hubwatch, hub)]
        story.first_round()
        assert hubwatch("watch", "add", "sta-tes/copy").code == 0
        hub.clear()
        for flag in ([], [], ["--refs"]):  # a repo that is gone must be gone for a while
            assert hubwatch("poll", *flag).code in {0, 1}
        story.paths = [f"{record.path} {record.authorization}" for record in hub.requests]
        told.append(listed(hubwatch))
        story.second_round()
        told.append(read(hubwatch, hub, "--refs"))
        assert not hub.crashes
        yield story, told


def read(hubwatch: Hubwatch, hub: LoopbackHub, *flags: str) -> Round:
    assert hubwatch("poll", *flags).code in {0, 1}
    return listed(hubwatch)


def listed(hubwatch: Hubwatch) -> Round:
    documents = hubwatch.json("advisories", "--state", "all")["advisories"]
    watched = [row["repo"] for row in hubwatch.json("watch", "list")["watches"]]
    history = {name: hubwatch.json("history", name)["revisions"] for name in watched if named(name) in HISTORIES}
    return {
        named(name): Told([item for item in documents if repo_of(item) == name], history.get(name, []))
        for name in watched
    }


HISTORIES = frozenset({"ancestor", "squashed", "taken"})


def named(repo: str) -> str:
    owner, _, name = repo.partition("/")
    return name if owner == OWNER else repo


def repo_of(document: Mapping[str, Any]) -> str:
    name: str = document["affected"][0]["package"]["name"]
    return "/".join(name.split("/")[-2:])


Rounds = tuple[Story, list[Round]]


def test_where_refs_stand_at_first_is_no_news(rounds: Rounds) -> None:
    _, told = rounds
    assert {item["database_specific"]["change_class"] for item in told[0]["refs"].documents} == {
        "repo.first_files"
    }


def test_a_moved_tag_a_branch_that_moved_on_and_one_that_is_gone(rounds: Rounds) -> None:
    story, told = rounds
    moved = {
        item["database_specific"]["changes"][0]["facts"]["ref"]: item for item in told[1]["refs"].of("ref.moved")
    }
    assert {ref: item["database_specific"]["severity"] for ref, item in moved.items()} == {
        "refs/tags/v1": "MODERATE",
        "refs/heads/dev": "LOW",
    }
    change = moved["refs/tags/v1"]["database_specific"]["changes"][0]
    assert change["after"] == story.shas["refs:dev"]
    assert moved["refs/tags/v1"]["affected"][0]["ranges"][0]["events"] == [{"introduced": "0"}]
    gone = told[1]["refs"].one("ref.removed")
    assert gone["database_specific"]["severity"] == "MODERATE"
    assert "branch old" in gone["summary"]


def test_a_pull_request_that_brings_weights_and_not_one_that_brings_words(rounds: Rounds) -> None:
    _, told = rounds
    document = told[1]["refs"].one("ref.pr")
    assert document["database_specific"]["severity"] == "LOW"
    assert document["affected"][0]["database_specific"]["paths"] == ["model.bin"]
    assert "pull request 2" in document["summary"]


def test_refs_that_are_as_they_were_end_what_was_said(rounds: Rounds) -> None:
    _, told = rounds
    last = told[2]["refs"]
    status = {
        item["database_specific"]["changes"][0]["facts"]["ref"]: item["database_specific"]["status"]
        for cls in ("ref.moved", "ref.removed", "ref.pr")
        for item in last.of(cls)
    }
    assert status == {
        "refs/tags/v1": "ended",
        "refs/heads/dev": "open",
        "refs/heads/old": "ended",
        "refs/pr/2": "ended",
    }


def test_a_force_push_to_an_ancestor_and_back(rounds: Rounds) -> None:
    story, told = rounds
    document = told[1]["ancestor"].one("history.rewritten")
    assert document["database_specific"]["severity"] == "HIGH"
    assert document["database_specific"]["before"] == story.shas["ancestor:2"]
    assert told[1]["ancestor"].revisions[0]["sha"] == story.shas["ancestor:1"]
    assert [row["sha"] for row in told[2]["ancestor"].revisions] == [
        row["sha"] for row in told[0]["ancestor"].revisions
    ]
    assert len(told[2]["ancestor"].of("history.rewritten")) == 1


def test_a_super_squash_is_one_advisory_and_no_storm(rounds: Rounds) -> None:
    _, told = rounds
    squashed = told[1]["squashed"]
    document = squashed.one("history.rewritten")
    assert document["database_specific"]["changes"][0]["facts"]["common"] is None
    assert len(squashed.revisions) == 1
    assert squashed.revisions[0]["changes"] == []
    new = {item["id"] for item in squashed.documents} - {item["id"] for item in told[0]["squashed"].documents}
    assert new == {document["id"]}


def test_a_name_that_was_taken_begins_a_new_history_and_keeps_the_old(rounds: Rounds) -> None:
    story, told = rounds
    document = told[1]["taken"].one("repo.owner_changed")
    assert document["database_specific"]["severity"] == "CRITICAL"
    assert [row["sha"] for row in told[1]["taken"].revisions] == [story.shas["stranger"]]
    assert [change["class"] for change in told[1]["taken"].revisions[0]["changes"]] == ["repo.first_files"]
    assert not told[1]["taken"].of("history.rewritten")
    before = {item["id"] for item in told[0]["taken"].documents}
    assert before <= {item["id"] for item in told[1]["taken"].documents}
    (rope,) = told[1]["taken"].of("config.rope")
    assert rope["affected"][0]["ranges"][0]["events"] == [
        {"introduced": story.shas["taken:1"]},
        {"last_affected": story.shas["taken:2"]},
    ]


@pytest.mark.parametrize(
    ("name", "cls", "severity"),
    [
        ("gone", "repo.deleted", "HIGH"),
        ("gated", "repo.gated", "HIGH"),
        ("disabled", "repo.disabled", "HIGH"),
        ("renamed", "repo.renamed", "MODERATE"),
    ],
)
def test_states_that_begin_and_end(rounds: Rounds, name: str, cls: str, severity: str) -> None:
    _, told = rounds
    document = told[1][name].one(cls)
    assert document["database_specific"]["severity"] == severity
    assert document["database_specific"]["status"] == "open"
    if name != "renamed":
        assert told[2][name].one(cls)["database_specific"]["status"] == "ended"
        assert "withdrawn" in told[2][name].one(cls)


def test_a_move_in_the_repo_that_code_comes_from(rounds: Rounds) -> None:
    story, told = rounds
    assert not [item for item in told[0]["caller"].of("code.cross_repo") if "moved" in item["summary"]]
    (document,) = [item for item in told[1]["caller"].of("code.cross_repo") if "moved" in item["summary"]]
    assert document["database_specific"]["severity"] == "HIGH"
    assert document["affected"][0]["database_specific"]["paths"] == ["config.json"]
    assert document["affected"][0]["ranges"][0]["events"] == [{"introduced": "0"}]
    assert any(
        item["url"].endswith(f"/other/code/commit/{story.shas['code:2']}") for item in document["references"]
    )
    (ended,) = [item for item in told[2]["caller"].of("code.cross_repo") if "moved" in item["summary"]]
    assert ended["database_specific"]["status"] == "ended"


def test_a_copy_that_differs_from_its_base_until_it_follows(rounds: Rounds) -> None:
    _, told = rounds
    assert not told[0]["copy"].of("lineage.diverged")
    document = told[1]["copy"].one("lineage.diverged")
    assert document["database_specific"]["severity"] == "MODERATE"
    change = document["database_specific"]["changes"][0]
    assert (change["path"], change["before"], change["after"]) == (
        "config.json",
        {"eos_token_id": 7},
        {"eos_token_id": 2},
    )
    for cls in ("lineage.diverged", "tokens.eos"):
        status = [
            [
                item["database_specific"]["status"]
                for item in reading["copy"].of(cls)
                if "its base" in item["summary"]
            ]
            for reading in told
        ]
        assert status == [[], ["open"], ["ended"]]


def test_a_fine_tune_may_differ_from_its_base(rounds: Rounds) -> None:
    _, told = rounds
    assert not any(reading["tuned"].of("lineage.diverged") for reading in told)


def test_related_repos_are_read_without_the_token(rounds: Rounds) -> None:
    story, _ = rounds
    related = [line for line in story.paths if "/other/" in line]
    assert related
    assert all(line.endswith(" False") for line in related)
    assert any(line.endswith(" True") for line in story.paths)


def test_an_owner_that_reads_like_a_watched_one(rounds: Rounds) -> None:
    _, told = rounds
    document = told[1]["sta-tes/copy"].one("repo.lookalike")
    assert document["database_specific"]["severity"] == "CRITICAL"
    assert "states/copy" in document["summary"]
    assert not told[1]["copy"].of("repo.lookalike")


def test_documents_are_json_that_can_be_written_again(rounds: Rounds) -> None:
    _, told = rounds
    for reading in told:
        for item in (document for repo in reading.values() for document in repo.documents):
            assert json.loads(json.dumps(item)) == item
