"""Subscriptions by the command line and the real daemon, on a loopback Hub and a loopback receiver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from tests.support.command import Hubwatch, wait_for
from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tests.support.receiver import Receiver, Reply, receiving
from tracker import cli
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content

REPO = "acme/tiny"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def watched(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    """A repo that was read once: what comes now is news."""
    repo = hub.create(REPO)
    files: dict[str, Content] = {
        "config.json": llama(),
        "model.safetensors": weights(),
        "tokenizer_config.json": tokenizer_config(),
    }
    repo.commit(files, title="Upload")
    repo.commit({"config.json": llama(rope_theta=20000.0)}, title="Backfill, never sent")
    assert hubwatch("watch", "add", REPO).code == 0
    assert hubwatch("poll").code == 0


@contextmanager
def daemon(hubwatch: Hubwatch) -> Iterator[subprocess.Popen[str]]:
    process = hubwatch.start("run", "--roles", "scheduler,worker")
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def subscribe(hubwatch: Hubwatch, url: str, *options: str) -> dict[str, Any]:
    made: dict[str, Any] = hubwatch.json("subscribe", "add", url, "--allow-private", *options)
    assert set(made) == {"id", "url", "secret"}
    return made


def events(receiver: Receiver) -> list[tuple[str, str, str]]:
    found = [event for got in receiver.taken for event in got.data["events"]]
    return [(event["repo"], event["action"], event["sha"]) for event in found]


def test_what_opens_and_closes_is_sent_signed_once_and_in_order(
    hub: LoopbackHub, hubwatch: Hubwatch, watched: None, receiver: Receiver
) -> None:
    made = subscribe(hubwatch, receiver.url, "--settle", "0s")
    assert made["secret"].startswith("whsec_")
    with daemon(hubwatch):
        first = hub.repo(REPO).commit({"tokenizer_config.json": tokenizer_config(THINKING)}, title="Think")
        assert hubwatch("poll").code == 0
        wait_for(lambda: receiver.taken, what="the first message")
    second = hub.repo(REPO).commit({"tokenizer_config.json": tokenizer_config(TEMPLATE)}, title="Back")
    assert hubwatch("poll").code == 0
    with daemon(hubwatch):  # started anew: what was not sent yet is sent now, what was sent is not
        wait_for(lambda: len(receiver.taken) == 2, what="the second message")
    told = events(receiver)
    assert {event[:2] for event in told} == {(REPO, "opened"), (REPO, "fixed")}
    assert [sha for _, action, sha in told if action == "opened"] == [first] * (len(told) // 2)
    assert [sha for _, action, sha in told if action == "fixed"] == [second] * (len(told) // 2)
    for got in receiver.got:
        message = Verifier(made["secret"]).verify(got.body, got.headers)
        assert message["type"] == "advisories.changed"
        assert message["data"]["repos"][0]["repo"] == REPO
    rows = hubwatch.json("subscribe", "log", made["id"])["deliveries"]
    assert [row["state"] for row in rows] == ["delivered"] * 2
    assert [row["message_id"] for row in rows] == [got.id for got in receiver.got][::-1]
    assert rows[0]["body"]["data"]["events"][0]["sha"] == second
    again = hubwatch.json("subscribe", "replay", made["id"], "--since", "1h")
    assert again == {"id": made["id"], "messages": 2}
    with daemon(hubwatch):
        wait_for(lambda: len(receiver.got) == 4, what="the replay")
    assert [got.id for got in receiver.got][2:] == [got.id for got in receiver.got][:2]


def test_a_new_repo_of_a_watched_owner_is_one_message(
    hub: LoopbackHub, hubwatch: Hubwatch, receiver: Receiver
) -> None:
    hub.create(REPO).commit({"config.json": llama()}, title="Upload")
    assert hubwatch("watch", "add", "acme/*").code == 0
    assert hubwatch("poll").code == 0
    subscribe(hubwatch, receiver.url, "--settle", "0s", "--repo", "acme/*")
    new = hub.create("acme/second")
    new.commit({"config.json": llama()}, title="Upload")
    new.commit({"config.json": llama(num_hidden_layers=3)}, title="Layer")
    assert hubwatch("poll").code == 0
    with daemon(hubwatch):
        wait_for(lambda: receiver.taken, what="the message")
    (got,) = receiver.taken
    assert got.data["title"] == "acme/second: new repo"
    assert [event["type"] for event in got.data["events"]] == ["repo.new"]


def test_the_command_line(hubwatch: Hubwatch, receiver: Receiver, tmp_path: Path) -> None:
    refused = hubwatch("subscribe", "add", receiver.url)
    assert (refused.code, refused.out) == (2, "")
    assert "--allow-private" in refused.err
    assert "Traceback" not in refused.err
    made = subscribe(hubwatch, receiver.url + "?key=t0psecret", "--min-severity", "high", "--repo", "acme/*")
    secret_file = tmp_path / "secret"
    secret_file.write_text(made["secret"])
    secret_file.chmod(0o644)
    bad = hubwatch("subscribe", "add", receiver.url, "--allow-private", "--secret", str(secret_file))
    assert bad.code == 2
    assert "chmod 600" in bad.err
    secret_file.chmod(0o600)
    filed = subscribe(hubwatch, receiver.url, "--secret", str(secret_file))
    assert filed["secret"] is None
    listed = hubwatch.json("subscribe", "list")["subscriptions"]
    assert [row["id"] for row in listed] == [made["id"], filed["id"]]
    assert listed[0]["min_severity"] == "high"
    assert listed[0]["settle_seconds"] == 900
    told = hubwatch("subscribe", "list").out + hubwatch("subscribe", "list", "--json").out
    assert "t0psecret" not in told
    assert made["secret"] not in told
    for one in (made, filed):
        assert hubwatch.json("subscribe", "test", one["id"])["status"] == 204
        Verifier(made["secret"]).verify(receiver.got[-1].body, receiver.got[-1].headers)
    receiver.answer = lambda _: Reply(status=500)
    failed = hubwatch("subscribe", "test", made["id"])
    assert failed.code == 1
    assert "500" in failed.err
    assert hubwatch("subscribe", "remove", made["id"]).code == 0
    for arguments in (("test", made["id"]), ("remove", made["id"])):
        gone = hubwatch("subscribe", *arguments)
        assert (gone.code, "Traceback" in gone.err) == (2, False)


@pytest.mark.parametrize(
    "options",
    [
        ("ftp://example.org/",),
        ("json://example.org/",),
        ("http://127.0.0.1/", "--settle", "0s"),
        ("http://169.254.169.254/latest/meta-data",),
        ("http://127.0.0.1/", "--allow-private", "--class", "no.such"),
        ("http://127.0.0.1/", "--allow-private", "--repo", "../etc"),
        ("http://127.0.0.1/", "--allow-private", "--settle", "40h"),
        ("http://127.0.0.1/", "--allow-private", "--settle", "-1s"),
        ("http://127.0.0.1/", "--allow-private", "--quiet", "late"),
        ("http://127.0.0.1/", "--allow-private", "--timezone", "../../etc/passwd"),
        ("http://127.0.0.1/", "--allow-private", "--secret", "whsec_" + "A" * 40),
        ("http://127.0.0.1/", "--allow-private", "--secret", "env:NOT_SET_ANYWHERE"),
        ("http://127.0.0.1/", "--allow-private", "--min-severity", "bad"),
        ("http://127.0.0.1/", "--allow-private", "--digest", "weekly"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_subscribed_is_refused_in_one_line(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUBWATCH_DATABASE_URL", f"sqlite:///{tmp_path}/hubwatch.db")
    assert cli.execute(["subscribe", "add", *options]) == 2
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err
    assert "Traceback" not in told.err
    assert cli.execute(["subscribe", "list", "--json"]) == 0
    assert '"subscriptions": []' in capfd.readouterr().out
