"""Repos that cannot be followed, a Hub that misbehaves, files made to hurt: one clear line, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import Hubwatch
from tests.support.models import llama, weights
from tracker.demo import faults
from tracker.demo.files import LargeFile
from tracker.demo.hub import LoopbackHub

GOOD = "acme/good"


@pytest.fixture(autouse=True)
def _good(hub: LoopbackHub) -> None:
    hub.create(GOOD).commit({"config.json": llama()}, title="Upload")


def one_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


@pytest.mark.parametrize(
    "name", ["nothing", "a/b/c", "../etc", "acme/ti ny", "acme/tiny?x=1", "-x/y", "acme/", "a" * 200]
)
def test_an_invalid_repo_id_never_reaches_the_network(hub: LoopbackHub, hubwatch: Hubwatch, name: str) -> None:
    result = hubwatch("watch", "add", "--", name)
    assert result.code == 2
    assert "owner/name" in one_line(result.err)
    assert hub.requests == []


def test_an_unknown_repo_is_refused_with_what_to_do(hubwatch: Hubwatch) -> None:
    result = hubwatch("watch", "add", "acme/absent")
    assert result.code == 2
    assert "HF_TOKEN" in one_line(result.err)
    assert hubwatch("history", "acme/absent").code == 2


def test_a_bad_token_is_not_a_missing_repo(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    hub.tokens = {"hf_good": set()}
    hubwatch("watch", "add", GOOD)
    result = hubwatch("poll", HF_TOKEN="hf_bad")
    assert result.code == 1
    assert "HF_TOKEN" in result.err
    assert "hf_bad" not in result.err + result.out
    assert hubwatch.json("poll", codes=(1,), HF_TOKEN="hf_bad")["repos"][0]["status"] == "token_bad"
    assert hubwatch.json("poll")["repos"][0]["status"] == "ok"


def test_a_hub_that_is_down_is_said_so(hubwatch: Hubwatch) -> None:
    hubwatch("watch", "add", GOOD)
    dead = "http://127.0.0.1:9"
    added = hubwatch("watch", "add", "acme/other", HF_ENDPOINT=dead)
    assert added.code == 2
    one_line(added.err)
    polled = hubwatch.json("poll", codes=(1,), HF_ENDPOINT=dead)
    assert polled["repos"][0]["status"] == "error"
    assert hubwatch.json("poll")["repos"][0]["status"] == "ok"


def test_states_are_told_apart_and_the_other_repos_still_polled(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    for name in ("gated", "disabled", "gone", "moved"):
        hub.create(f"acme/{name}").commit({"config.json": llama()}, title="Upload")
        assert hubwatch("watch", "add", f"acme/{name}").code == 0
    hubwatch("watch", "add", GOOD)
    assert hubwatch("poll").code == 0
    hub.model("acme/gated").gated = "manual"
    hub.repo("acme/gated").commit({"config.json": llama(rope_theta=5.0)}, title="behind the gate")
    hub.model("acme/disabled").disabled = True
    hub.remove("acme/gone")
    hub.rename("acme/moved", "acme/elsewhere")
    hub.repo("acme/elsewhere").commit({"config.json": llama(rope_theta=5.0)}, title="after the move")
    hub.repo(GOOD).commit({"config.json": llama(rope_theta=5.0)}, title="goes on")
    rows = {row["repo"]: row for row in hubwatch.json("poll", codes=(1,))["repos"]}
    assert {name.removeprefix("acme/"): row["status"] for name, row in rows.items()} == {
        "gated": "gated", "disabled": "disabled", "gone": "missing", "moved": "renamed", "good": "ok",
    }  # fmt: skip
    assert rows["acme/moved"]["new_revisions"] == 1
    assert "acme/elsewhere" in rows["acme/moved"]["error"]
    assert rows[GOOD]["new_revisions"] == 1
    classes = {
        document["database_specific"]["change_class"] for document in hubwatch.json("advisories")["advisories"]
    }
    assert {"repo.gated", "repo.disabled", "repo.renamed"} <= classes
    assert "repo.deleted" not in classes
    for _ in range(2):
        hubwatch("poll", "acme/gone")
    (gone,) = hubwatch.json("advisories", "acme/gone", "--class", "repo.deleted")["advisories"]
    assert gone["affected"][0]["ranges"][0]["events"] == [{"introduced": "0"}]
    assert len(hubwatch.json("history", "acme/gone")["revisions"]) == 1


def test_a_rate_limit_is_a_pause_that_everybody_keeps(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    hubwatch("watch", "add", GOOD)
    hub.faults.add(faults.rate_limited(300), times=1)
    hub.clear()
    first = hubwatch.json("poll", codes=(1,))["repos"][0]
    assert first["status"] == "paused"
    assert len(hub.requests) == 1
    second = hubwatch.json("poll", codes=(1,))["repos"][0]
    assert second["status"] == "paused"
    assert len(hub.requests) == 1


def test_a_short_pause_is_waited_for(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    hubwatch("watch", "add", GOOD)
    hub.faults.add(faults.rate_limited(3), times=1)
    assert hubwatch.json("poll")["repos"][0]["status"] == "ok"


HOSTILE: dict[str, bytes | LargeFile] = {
    "deep": b'{"model_type": ' + b"[" * 64 + b"]" * 64 + b"}",
    "very-deep": b"[" * 200_000 + b"]" * 200_000,
    "duplicate": b'{"model_type": "llama", "model_type": "bert"}',
    "nan": b'{"model_type": "llama", "rope_theta": NaN}',
    "not-utf8": b'{"model_type": "\xff\xfe"}',
    "huge-number": b'{"model_type": "llama", "hidden_size": ' + b"9" * 10_000 + b"}",
    "not-an-object": b"[1, 2, 3]",
    "two-hundred-megabytes": LargeFile(b'{"a": "', 200_000_000),
    "surrogate": b'{"model_type": "llama", "note": "\\ud800"}',
}


@pytest.mark.parametrize("kind", [key for key in HOSTILE if key != "surrogate"])
def test_a_config_made_to_hurt_is_a_finding(hub: LoopbackHub, hubwatch: Hubwatch, kind: str) -> None:
    repo = hub.create("acme/hostile")
    repo.commit({"config.json": llama()}, title="Upload")
    bad = repo.commit({"config.json": HOSTILE[kind]}, title="Break it")
    repo.commit({"config.json": llama()}, title="Mend it")
    hubwatch("watch", "add", "acme/hostile")
    assert hubwatch.json("poll")["repos"][0]["status"] == "ok"
    rows = {row["sha"]: row for row in hubwatch.json("history", "acme/hostile")["revisions"]}
    (finding,) = [change for change in rows[bad]["changes"] if change["class"] == "document.unreadable"]
    assert finding["path"] == "config.json"
    assert finding["severity"] == "medium"
    (document,) = hubwatch.json("advisories", "acme/hostile", "--class", "document.unreadable")["advisories"]
    assert "fixed" in document["affected"][0]["ranges"][0]["events"][1]


def test_lone_surrogates_survive(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create("acme/surrogate")
    repo.commit({"config.json": llama()}, title="Upload")
    repo.commit({"config.json": HOSTILE["surrogate"]}, title="odd\u202etext\x1b[31m")
    hubwatch("watch", "add", "acme/surrogate")
    assert hubwatch("poll").code == 0
    shown = hubwatch.json("history", "acme/surrogate")["revisions"][0]
    assert any(change["after"] == "\\ud800" for change in shown["changes"])
    text = hubwatch("history", "acme/surrogate")
    assert text.code == 0
    assert "\u202e" not in text.out
    assert "\x1b[31m" not in text.out


def test_a_lying_safetensors_header_is_a_finding(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create("acme/liar")
    repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="Upload")
    lie = LargeFile((2**60).to_bytes(8, "little") + b"{", 10_000_000)
    sha = repo.commit({"model.safetensors": lie}, title="Lie")
    hubwatch("watch", "add", "acme/liar")
    assert hubwatch.json("poll")["repos"][0]["status"] == "ok"
    rows = {row["sha"]: row for row in hubwatch.json("history", "acme/liar")["revisions"]}
    assert "document.unreadable" in {change["class"] for change in rows[sha]["changes"]}


def test_a_repo_of_twenty_thousand_files(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create("acme/many")
    repo.commit({f"data/{n % 100}/part-{n}.txt": f"{n}\n" for n in range(20_000)}, title="Many files")
    repo.commit({"config.json": llama()}, title="A model at last")
    hubwatch("watch", "add", "acme/many")
    assert hubwatch.json("poll")["repos"][0]["status"] == "ok"
    assert len(hubwatch.json("show", "acme/many")["files"]) == 20_001
    history = hubwatch.json("history", "acme/many")
    assert len(json.dumps(history)) < 2_000_000


def test_a_database_of_another_schema_is_refused_with_the_command_that_mends_it(hubwatch: Hubwatch) -> None:
    import sqlite3

    hubwatch("watch", "list")
    with sqlite3.connect(hubwatch.home / "hubwatch.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'ffff'")
    result = hubwatch("watch", "list")
    assert result.code == 2
    assert "hubwatch" in one_line(result.err)


def test_a_file_that_is_no_database_is_refused(hubwatch: Hubwatch, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, but long enough to be read as one\n" * 100)
    result = hubwatch("watch", "list", HUBWATCH_DATABASE_URL=f"sqlite:///{tmp_path}/text.db")
    assert result.code == 2
    one_line(result.err)
