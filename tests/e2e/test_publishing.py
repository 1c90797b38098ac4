"""Exports, single advisories, and sending without a daemon, by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier

from tests.support.command import Hubwatch
from tests.support.models import llama, weights
from tests.support.receiver import Receiver, Reply, receiving
from tracker.demo.hub import LoopbackHub

OPEN, SECRET = "acme/open", "acme/secret"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def story(hub: LoopbackHub, name: str, **how: object) -> None:
    repo = hub.create(name, **how)
    repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="Upload")
    repo.commit({"config.json": llama(rope_theta=20000.0)}, title="Longer")


def test_what_was_read_with_a_token_is_exported_on_demand_only(
    hub: LoopbackHub, hubwatch: Hubwatch, tmp_path: Path
) -> None:
    hub.tokens = {"hf_good": {SECRET}}
    for name, how in ((OPEN, {}), (SECRET, {"private": True})):
        story(hub, name, **how)
        assert hubwatch("watch", "add", name, HF_TOKEN="hf_good").code == 0
    assert hubwatch("poll", HF_TOKEN="hf_good").code == 0

    def exported(*options: str) -> set[str]:
        told = hubwatch.json("export", str(tmp_path / "osv"), *options)
        assert told["restricted_repos_left_out"] == (0 if options else 1)
        documents = [json.loads(path.read_text()) for path in (tmp_path / "osv" / "GIT").glob("*.json")]
        return {made["affected"][0]["package"]["purl"] for made in documents}

    both = {f"pkg:huggingface/{OPEN}", f"pkg:huggingface/{SECRET}"}
    assert exported() == {f"pkg:huggingface/{OPEN}"}
    assert exported("--include-restricted") == both
    assert exported() == {f"pkg:huggingface/{OPEN}"}  # and what is there too much goes


def test_one_advisory(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    story(hub, OPEN)
    assert hubwatch("watch", "add", OPEN).code == 0
    assert hubwatch("poll").code == 0
    [document] = [
        made
        for made in hubwatch.json("advisories", OPEN)["advisories"]
        if made["database_specific"]["change_class"] == "config.rope"
    ]
    assert hubwatch.json("advisories", document["id"]) == document
    shown = hubwatch("advisories", document["id"])
    assert shown.code == 0
    for text in (document["id"], "rope_theta", "What to do", "high"):
        assert text in shown.out.replace("\n", " ") or text in shown.out
    assert not any(line.endswith(" ") for line in shown.out.split("\n"))
    missing = hubwatch("advisories", "x_HUBWATCH-2020-2222-2222-2222")
    assert missing.code == 2
    assert "no advisory" in missing.err


def test_sending_without_a_daemon(hub: LoopbackHub, hubwatch: Hubwatch, receiver: Receiver) -> None:
    story(hub, OPEN)
    assert hubwatch("watch", "add", OPEN).code == 0
    assert hubwatch("poll").code == 0
    hubwatch.json("subscribe", "add", receiver.url, "--allow-private")
    assert hubwatch.json("subscribe", "send") == {
        "delivered": 0,
        "failed": 0,
        "dead": 0,
        "held": 0,
        "waiting": 0,
    }
    hub.repo(OPEN).commit({"config.json": llama(rope_theta=30000.0)}, title="Longer still")
    assert hubwatch("poll").code == 0
    waiting = hubwatch.json("subscribe", "send")
    assert waiting["delivered"] == 0  # the settle window is not over
    assert waiting["waiting"] > 0
    assert receiver.got == []
    receiver.answer = lambda _: Reply(status=503, headers={"retry-after": "600"})
    refused = hubwatch("subscribe", "send", "--now")
    assert refused.code == 1
    assert "0 sent, 1 not taken, 0 events not due yet" in refused.out
    (pending,) = hubwatch.json("subscribe", "log")["deliveries"]
    assert pending["next_at"][:19] in hubwatch("subscribe", "log", COLUMNS="200").out
    # its time has not come: it is not tried, and not said to have failed
    between = hubwatch.json("subscribe", "send")
    assert (between["failed"], between["held"]) == (0, 1)
    receiver.answer = lambda _: Reply()
    assert hubwatch("subscribe", "send", "--now").out.startswith("1 sent, 0 not taken, 0 events")
    assert len(receiver.taken) == 1


def test_what_is_sent_at_once_verifies_and_is_sent_once(
    hub: LoopbackHub, hubwatch: Hubwatch, receiver: Receiver
) -> None:
    story(hub, OPEN)
    assert hubwatch("watch", "add", OPEN).code == 0
    assert hubwatch("poll").code == 0
    made = hubwatch.json("subscribe", "add", receiver.url, "--allow-private")
    hub.repo(OPEN).commit({"config.json": llama(rope_theta=30000.0)}, title="Longer still")
    assert hubwatch("poll").code == 0
    assert hubwatch.json("subscribe", "send", "--now")["delivered"] == 1
    assert hubwatch.json("subscribe", "send", "--now")["delivered"] == 0
    [got] = receiver.got
    Verifier(made["secret"]).verify(got.body, got.headers)
    [told] = [entry for repo in got.data["repos"] for entry in repo["opened"]]
    assert told["changes"][0]["pointer"] == "/rope_theta"
