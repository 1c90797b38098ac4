"""Watch, poll, history, advisories: the main job on real git repositories, by the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.command import Hubwatch
from tests.support.models import TEMPLATE, THINKING, llama, llama_parameters, tokenizer_config, weights
from tracker.demo.hub import LoopbackHub

REPO = "acme/tiny"


@pytest.fixture
def shas(hub: LoopbackHub) -> list[str]:
    """A history in which the template is changed and put back, and a layer is added."""
    repo = hub.create(REPO)
    return [
        repo.commit({".gitattributes": "*.safetensors filter=lfs\n"}, title="initial commit"),
        repo.commit(
            {"config.json": llama(), "model.safetensors": weights(), "README.md": "# Tiny\n"}, title="Upload"
        ),
        repo.commit({"tokenizer_config.json": tokenizer_config()}, title="Tokenizer"),
        repo.commit({"README.md": "# Tiny\n\nMore words.\n"}, title="Card"),
        repo.commit({"tokenizer_config.json": tokenizer_config(THINKING)}, title="Fix template"),
        repo.commit(
            {"config.json": llama(num_hidden_layers=3), "model.safetensors": weights(layers=3)}, title="Layer"
        ),
        repo.commit({"tokenizer_config.json": tokenizer_config(TEMPLATE)}, title="Revert template"),
    ]


def watched(hubwatch: Hubwatch, repo: str = REPO) -> dict[str, Any]:
    added = hubwatch("watch", "add", repo)
    assert added.code == 0, added.err
    polled = hubwatch.json("poll")
    assert polled["repos"][0]["status"] == "ok"
    history: dict[str, Any] = hubwatch.json("history", repo)
    return history


def by_sha(history: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["sha"]: row for row in history["revisions"]}


def advisory(hubwatch: Hubwatch, cls: str, repo: str = REPO) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hubwatch.json("advisories", repo, "--class", cls)["advisories"]
    return found


def test_every_revision_becomes_history_in_order_also_when_pages_are_small(
    hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str]
) -> None:
    hub.pages.commits = hub.pages.commits_most = 3
    hub.pages.tree = 4
    history = watched(hubwatch)
    assert [row["sha"] for row in history["revisions"]] == shas[::-1]
    assert all(row["parents_unknown"] for row in history["revisions"])


def test_changes_say_where_what_and_how_grave(hubwatch: Hubwatch, shas: list[str]) -> None:
    rows = by_sha(watched(hubwatch))
    assert [change["class"] for change in rows[shas[1]]["changes"]] == ["repo.first_files"]
    template = [c for c in rows[shas[4]]["changes"] if c["class"] == "template.generation_prompt"]
    assert len(template) == 1
    assert template[0]["path"] == "tokenizer_config.json"
    assert template[0]["pointer"] == "/chat_template"
    assert template[0]["before"] == TEMPLATE
    assert template[0]["after"] == THINKING
    assert template[0]["severity"] == "high"
    layers = [c for c in rows[shas[5]]["changes"] if c["class"] == "config.arch_shape"]
    assert [(c["path"], c["pointer"], c["before"], c["after"]) for c in layers] == [
        ("config.json", "/num_hidden_layers", 2, 3)
    ]
    assert [c["class"] for c in rows[shas[3]]["changes"]] == ["card.only"]


def test_the_derived_count_is_exact_and_a_layer_moves_it(hubwatch: Hubwatch, shas: list[str]) -> None:
    rows = by_sha(watched(hubwatch))
    assert rows[shas[4]]["estimate"]["status"] == "exact"
    assert rows[shas[4]]["estimate"]["parameters"]["total"] == llama_parameters(layers=2)
    assert rows[shas[5]]["estimate"]["parameters"]["total"] == llama_parameters(layers=3)
    assert rows[shas[0]]["estimate"] is None
    difference = hubwatch.json("diff", REPO, shas[4], shas[5])
    assert difference["estimate"]["before"]["parameters"]["total"] == llama_parameters(layers=2)
    assert difference["estimate"]["after"]["parameters"]["total"] == llama_parameters(layers=3)


def test_one_poll_over_many_commits_names_the_commit_that_did_it(hubwatch: Hubwatch, shas: list[str]) -> None:
    watched(hubwatch)
    (document,) = advisory(hubwatch, "template.generation_prompt")
    (block,) = document["affected"][0]["ranges"]
    assert block["events"] == [{"introduced": shas[4]}, {"fixed": shas[6]}]
    assert document["affected"][0]["versions"] == [shas[4], shas[5]]
    (shape,) = advisory(hubwatch, "config.arch_shape")
    assert shape["affected"][0]["ranges"][0]["events"] == [{"introduced": shas[5]}]
    assert shape["affected"][0]["versions"] == [shas[5], shas[6]]


@pytest.mark.corpus
def test_every_document_is_valid_under_both_schemas(
    corpus: Path, hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str]
) -> None:
    hub.repo(REPO).commit(
        {"pytorch_model.bin": b"PK\x03\x04", "modeling.py": "import os\n"}, title="more", author="eve"
    )
    watched(hubwatch)
    documents = hubwatch.json("advisories", REPO)["advisories"]
    assert len({document["id"] for document in documents}) == len(documents) > 4
    for name in ("schema-current.json", "schema-1.7.5-main.json"):
        schema = json.loads((corpus / "reference" / "osv" / name).read_text())
        validator = jsonschema.validators.validator_for(schema)(schema)
        for document in documents:
            validator.validate(document)


def test_small_blobs_are_fetched_once_and_weights_by_header_range(
    hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str]
) -> None:
    watched(hubwatch)
    got = Counter(
        record.path
        for record in hub.requests
        if record.status == 200 and "/resolve-cache/" in record.path and record.method == "GET"
    )
    assert got
    assert max(got.values()) == 1
    stored = [record for record in hub.requests if record.kind == "storage"]
    assert stored
    assert all(record.range and record.status == 206 for record in stored)


def test_an_unchanged_poll_is_one_request(hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str]) -> None:
    watched(hubwatch)
    hub.clear()
    result = hubwatch.json("poll")
    assert result["repos"] == [
        {"repo": REPO, "status": "unchanged", "new_revisions": 0, "new_advisories": 0, "error": None}
    ]
    assert len(hub.requests) == 1


def test_watch_add_asks_once_and_reads_no_history(hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str]) -> None:
    assert hubwatch("watch", "add", REPO).code == 0
    assert len(hub.requests) == 1
    assert hubwatch.json("history", REPO)["revisions"] == []


def test_three_commits_between_two_polls_are_three_revisions(
    hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str]
) -> None:
    watched(hubwatch)
    hub.clear()
    repo = hub.repo(REPO)
    more = [
        repo.commit({"config.json": llama(num_hidden_layers=3, rope_theta=theta)}, title=f"theta {theta}")
        for theta in (20000.0, 30000.0, 40000.0)
    ]
    polled = hubwatch.json("poll")["repos"][0]
    assert polled["new_revisions"] == 3
    history = hubwatch.json("history", REPO)
    assert [row["sha"] for row in history["revisions"]][:3] == more[::-1]
    # The commit page, then a tree and one config for each revision.
    assert len([record for record in hub.requests if record.kind == "api"]) == 2 + 3
    documents = {
        d["affected"][0]["ranges"][0]["events"][0]["introduced"]: d for d in advisory(hubwatch, "config.rope")
    }
    assert set(documents) == set(more)
    first, second, third = (documents[sha] for sha in more)
    assert first["affected"][0]["ranges"][0]["events"] == [{"introduced": more[0]}, {"last_affected": more[0]}]
    assert first["database_specific"]["superseded_by"] == second["id"]
    assert third["affected"][0]["versions"] == [more[2]]


def test_blame_names_the_revisions_that_set_a_value(hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str]) -> None:
    watched(hubwatch)
    entries = hubwatch.json("blame", REPO, "config.json#/num_hidden_layers")["entries"]
    assert [(entry["sha"], entry["value"]) for entry in entries] == [(shas[5], 3), (shas[1], 2)]
    text = hubwatch("blame", REPO, "config.json#/num_hidden_layers")
    assert shas[5][:10] in text.out


def test_show_and_text_output_work(hubwatch: Hubwatch, shas: list[str]) -> None:
    watched(hubwatch)
    shown = hubwatch.json("show", f"{REPO}@{shas[1][:8]}")
    assert shown["sha"] == shas[1]
    assert [entry["path"] for entry in shown["files"]] == [
        ".gitattributes",
        "README.md",
        "config.json",
        "model.safetensors",
    ]
    for arguments in (("show", REPO), ("history", REPO), ("diff", REPO, shas[4], shas[6]), ("advisories", REPO)):
        result = hubwatch(*arguments)
        assert result.code == 0, result.err
        assert "Traceback" not in result.err
    assert "<think>" in hubwatch("diff", REPO, shas[3], shas[4]).out


def test_two_installations_give_the_same_ids(
    hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str], tmp_path: Path
) -> None:
    watched(hubwatch)
    other_home = tmp_path / "other"
    other_home.mkdir()
    other = Hubwatch(hub.url, f"sqlite:///{other_home}/other.db", other_home)
    watched(other)
    assert ranges(hubwatch) == ranges(other)


def ranges(hubwatch: Hubwatch, repo: str = REPO) -> dict[str, Any]:
    return {
        document["id"]: (document["affected"][0].get("ranges"), document["affected"][0].get("versions"))
        for document in hubwatch.json("advisories", repo)["advisories"]
    }


def test_a_poll_killed_six_times_ends_as_an_undisturbed_one(
    hub: LoopbackHub, hubwatch: Hubwatch, shas: list[str], tmp_path: Path
) -> None:
    repo = hub.repo(REPO)
    for number in range(30):
        repo.commit(
            {"config.json": llama(num_hidden_layers=3, rope_theta=10000.0 + number % 7)}, title=f"n {number}"
        )
    calm_home = tmp_path / "calm"
    calm_home.mkdir()
    calm = Hubwatch(hub.url, f"sqlite:///{calm_home}/calm.db", calm_home)
    watched(calm)
    hubwatch("watch", "add", REPO)
    killed = [hubwatch.kill_after(seconds, "poll") for seconds in (0.5, 0.9, 1.1, 1.3, 1.5, 1.7)]
    assert any(killed)
    assert hubwatch("poll").code == 0
    assert ranges(hubwatch) == ranges(calm)
    shown = hubwatch.json("history", REPO)["revisions"]
    assert [row["sha"] for row in shown] == [row["sha"] for row in calm.json("history", REPO)["revisions"]]
    assert len({row["sha"] for row in shown}) == len(shown) == 37
