"""Webhooks on the wire: signed, pinned to a judged address, never led astray, never held up."""

from __future__ import annotations

import ipaddress
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from advisories.notify import addresses, webhook
from advisories.notify.addresses import is_public
from advisories.notify.interface import CannotSend, Message, Target
from advisories.notify.secrets import new_secret, reveal
from advisories.notify.webhook import NOTIFIER
from storage.errors import UsageError
from tests.support.receiver import Got, Receiver, Reply, receiving

MESSAGE = Message(id="msg_1", body={"type": "subscription.test", "data": {"title": "\ud800 é"}})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def target(url: str, secret: str | None = None, *, private: bool = True) -> Target:
    return Target(url=url, secret=secret or new_secret(), allow_private=private)


def now() -> datetime:
    return datetime.now(UTC)


def test_the_signature_verifies_with_the_reference_library(receiver: Receiver) -> None:
    secret = new_secret()
    answer = NOTIFIER.send(target(receiver.url + "?a=1", secret), MESSAGE, now=now())
    assert (answer.delivered, answer.status, answer.error) == (True, 204, None)
    (got,) = receiver.got
    assert Verifier(secret).verify(got.body, got.headers) == dict(MESSAGE.body)
    assert got.id == "msg_1"
    assert got.path == "/hook?a=1"
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    with pytest.raises(WebhookVerificationError):
        Verifier(new_secret()).verify(got.body, got.headers)
    with pytest.raises(WebhookVerificationError):
        Verifier(secret).verify(got.body.replace("test", "best"), got.headers)


def test_the_name_stays_in_the_request_while_the_address_is_pinned(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "resolve", lambda *_: ["127.0.0.1"])
    url = f"http://hooks.example:{receiver.port}/x"
    assert NOTIFIER.send(target(url), MESSAGE, now=now()).delivered
    assert receiver.got[0].headers["host"] == f"hooks.example:{receiver.port}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for hooks.example that vouches for itself, and its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl program to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "cert.pem", folder / "key.pem"
    name = ["-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"]
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(made)]
    subprocess.run([program, "req", *kind, *name], check=True, capture_output=True)
    return made, key


@pytest.mark.parametrize(("host", "delivered"), [("hooks.example", True), ("other.example", False)])
def test_the_certificate_must_be_for_the_name_not_for_the_address(
    receiver: Receiver,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    delivered: bool,
) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    asked: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: asked.append(name)
    monkeypatch.setattr(addresses, "resolve", lambda *_: ["127.0.0.1"])
    monkeypatch.setattr(webhook, "_tls", lambda: ssl.create_default_context(cafile=str(certificate[0])))
    with receiving(tls=serving) as secure:
        answer = NOTIFIER.send(target(f"https://{host}:{secure.port}/"), MESSAGE, now=now())
        assert answer.delivered is delivered
        assert asked == [host]
        assert len(secure.got) == delivered
    if not delivered:
        assert "certificate" in str(answer.error).lower()


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1",
        "224.0.0.1", "255.255.255.255", "168.63.129.16", "192.0.2.1", "198.18.0.1", "240.0.0.1", "::1", "::",
        "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe",
        "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "::7f00:1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_on_the_public_internet(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_addresses_that_are(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "0", "[::ffff:127.0.0.1]", "127.1"]
)
def test_an_inside_host_is_refused_when_added_and_when_sent(receiver: Receiver, host: str) -> None:
    aim = target(f"http://{host}:{receiver.port}/", private=False)
    with pytest.raises(UsageError, match=r"public internet|no webhook|not a webhook"):
        NOTIFIER.check(aim)
    try:
        answer = NOTIFIER.send(aim, MESSAGE, now=now())
    except UsageError:
        pass
    else:
        assert not answer.delivered
        assert "allow-private" in str(answer.error)
    assert receiver.got == []


def test_a_name_that_moves_inside_after_it_was_added_is_refused_at_connect(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([["8.8.8.8"], ["127.0.0.1"]])
    monkeypatch.setattr(addresses, "resolve", lambda *_: next(answers))
    aim = target(f"http://rebind.example:{receiver.port}/", private=False)
    NOTIFIER.check(aim)
    answer = NOTIFIER.send(aim, MESSAGE, now=now())
    assert not answer.delivered
    assert "public internet" in str(answer.error)
    assert receiver.got == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    with receiving() as inside:
        receiver.answer = lambda _: Reply(status=status, headers={"location": inside.url})
        answer = NOTIFIER.send(target(receiver.url), MESSAGE, now=now())
        assert (answer.delivered, answer.status) == (False, status)
        assert "redirects are not followed" in str(answer.error)
        assert inside.got == []


def test_a_huge_answer_is_not_read(receiver: Receiver) -> None:
    sent = []

    def flood() -> Iterator[bytes]:
        for _ in range(4096):
            sent.append(1)
            yield b"x" * (1 << 20)

    receiver.answer = lambda _: Reply(status=500, pieces=flood)
    answer = NOTIFIER.send(target(receiver.url), MESSAGE, now=now())
    assert (answer.delivered, answer.status) == (False, 500)
    assert len(str(answer.error)) < 300
    assert len(sent) < 200


def test_an_answer_that_trickles_is_given_up_at_the_deadline(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()

    def trickle() -> Iterator[bytes]:
        while not done.wait(0.05):
            yield b"x"

    # An answer that is taken or refused by its status is not held up by a body that never ends ...
    receiver.answer = lambda _: Reply(status=500, pieces=trickle)
    answer = NOTIFIER.send(target(receiver.url), MESSAGE, now=now())
    receiver.answer = lambda _: Reply(status=200, pieces=trickle)
    assert NOTIFIER.send(target(receiver.url), MESSAGE, now=now()).delivered
    # ... and no answer at all ends at the deadline, short only here: a slow machine may miss it elsewhere.
    monkeypatch.setattr(webhook, "DEADLINE_SECONDS", 0.5)
    receiver.answer = lambda _: Reply(before=lambda: done.wait(30))
    silent = NOTIFIER.send(target(receiver.url), MESSAGE, now=now())
    done.set()
    assert (answer.delivered, answer.status) == (False, 500)
    assert silent.silent
    assert "no answer within 0.5 s" in str(silent.error)


def test_gone_and_later(receiver: Receiver) -> None:
    receiver.answer = lambda _: Reply(status=410)
    assert NOTIFIER.send(target(receiver.url), MESSAGE, now=now()).gone
    for text, wished in (("120", 120), ("9" * 30, 86400), ("soon", None), ("-5", None)):
        refusal = Reply(status=429, headers={"retry-after": text})
        receiver.answer = partial(_always, refusal)
        answer = NOTIFIER.send(target(receiver.url), MESSAGE, now=now())
        assert answer.retry_after == (None if wished is None else timedelta(seconds=wished))


def _always(reply: Reply, _: Got) -> Reply:
    return reply


def test_nobody_listens() -> None:
    with receiving() as receiver:
        url = receiver.url
    answer = NOTIFIER.send(target(url), MESSAGE, now=now())
    assert (answer.delivered, answer.silent) == (False, True)
    assert "cannot connect" in str(answer.error)


def test_secrets_come_from_where_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = new_secret()
    monkeypatch.setenv("HOOK_SECRET", secret)
    assert reveal("env:HOOK_SECRET") == secret
    file = tmp_path / "secret"
    file.write_text(secret + "\n")
    file.chmod(0o600)
    assert reveal(f"file:{file}") == secret
    file.chmod(0o640)
    with pytest.raises(CannotSend, match="chmod 600"):
        reveal(f"file:{file}")
    for bad in (
        None,
        "",
        "env:NOT_SET_ANYWHERE",
        f"file:{tmp_path}/none",
        f"file:{tmp_path}",
        "whsec_",
        "whsec_AAAA",
    ):
        with pytest.raises(CannotSend):
            reveal(bad)
    os.environ["HOOK_SECRET"] = "short"
    with pytest.raises(CannotSend) as caught:
        reveal("env:HOOK_SECRET")
    assert "short" not in str(caught.value)
    assert len({new_secret() for _ in range(50)}) == 50


@pytest.mark.parametrize(
    "url", ["ftp://x/", "https://", "http://:80/", "https://x:99999/", "https://" + "a" * 3000, "https://x y/"]
)
def test_what_is_no_webhook(url: str) -> None:
    with pytest.raises(UsageError):
        NOTIFIER.check(target(url, private=True))


def test_lists_show_no_user_and_no_query() -> None:
    assert NOTIFIER.shown("https://me:pass@host.example/a/b?token=1#x") == "https://host.example/a/b"
