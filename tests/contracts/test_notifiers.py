"""Every way of sending keeps the contract: it refuses early, never raises late, and shows nothing secret."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from advisories.notify.interface import CHAT_SCHEMES, Answer, Message, Notifier, Target
from advisories.notify.registry import load, notifier_of, shown
from advisories.notify.secrets import new_secret
from storage.errors import UsageError

NOTIFIERS = load()
MESSAGE = Message(
    id="msg_1",
    body={
        "type": "subscription.test",
        "timestamp": "",
        "data": {"title": "a test\ud800", "repos": [], "events": []},
    },
)
# An address that each notifier takes, that leads nowhere, with words in it that nobody must see.
NOWHERE = {
    "webhook": "http://user:hunter2@127.0.0.1:9/path?key=t0psecret",
    "apprise": "ntfys://user:hunter2@127.0.0.1:9/t0psecret",
}
SECRETS = ("hunter2", "t0psecret")
ALL = pytest.mark.parametrize("notifier", NOTIFIERS, ids=lambda notifier: notifier.name)


def target(notifier: Notifier) -> Target:
    secret = new_secret() if notifier.signs else None
    return Target(url=NOWHERE[notifier.name], secret=secret, allow_private=True)


def test_notifiers_are_sorted_and_no_scheme_has_two() -> None:
    names = [notifier.name for notifier in NOTIFIERS]
    assert names == sorted(set(names)) == sorted(NOWHERE)
    for scheme in ("http", "https", *CHAT_SCHEMES):
        assert sum(notifier.takes(scheme) for notifier in NOTIFIERS) == 1


@ALL
def test_its_own_address_is_its_own_and_is_shown_without_secrets(notifier: Notifier) -> None:
    assert notifier_of(NOWHERE[notifier.name]) is notifier
    assert not any(secret in shown(NOWHERE[notifier.name]) for secret in SECRETS)


@ALL
def test_an_address_that_is_fine_is_taken(notifier: Notifier) -> None:
    notifier.check(target(notifier))


@ALL
@pytest.mark.parametrize("rest", ["", "\x00", "[", "%zz", "@", "//" * 9])
def test_nonsense_is_refused_or_fails_but_raises_nothing_else(notifier: Notifier, rest: str) -> None:
    scheme = NOWHERE[notifier.name].partition(":")[0]
    aim = Target(url=f"{scheme}://{rest}", secret=new_secret(), allow_private=True)
    for attempt in (lambda: notifier.check(aim), lambda: notifier.send(aim, MESSAGE, now=datetime.now(UTC))):
        try:
            answer = attempt()
        except UsageError:
            continue
        assert answer is None or (isinstance(answer, Answer) and not answer.delivered)


@ALL
def test_a_failure_is_an_answer_that_tells_no_secret(
    notifier: Notifier, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING)
    aim = target(notifier)
    answer = notifier.send(aim, MESSAGE, now=datetime.now(UTC))
    assert not answer.delivered
    assert answer.error
    told = repr(answer) + caplog.text + "".join(capfd.readouterr())
    assert not any(secret in told for secret in (*SECRETS, *([aim.secret] if aim.secret else [])))


def test_only_listed_chat_schemes_may_be_used() -> None:
    for url in ("json://127.0.0.1/", "syslog://", "dbus://", "exec://x", "xml://127.0.0.1/", "form://127.0.0.1"):
        with pytest.raises(UsageError, match="not allowed"):
            notifier_of(url).check(Target(url=url))
        answer = notifier_of(url).send(Target(url=url), MESSAGE, now=datetime.now(UTC))
        assert "not allowed" in str(answer.error)


@pytest.mark.parametrize("url", ["", "no address", "://x", "a b://c", "https:/x", "\ud800://x"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError):
        notifier_of(url)
