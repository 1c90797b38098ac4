"""Chat messages as apprise sends them, to a receiver that takes apprise's own JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from advisories.notify.apprise import NOTIFIER, installed
from advisories.notify.interface import Message, Target
from tests.support.receiver import Reply, receiving

pytestmark = pytest.mark.skipif(not installed(), reason="apprise is not installed: hubwatch[notify]")

BODY = {
    "type": "advisories.changed",
    "timestamp": "2026-05-01T12:00:00Z",
    "data": {
        "title": "acme/tiny: 1 opened (up to high)",
        "repos": [
            {
                "repo": "acme/tiny",
                "url": "https://huggingface.co/acme/tiny",
                "new": False,
                "opened": [
                    {
                        "id": "x_HUBWATCH-2026-2222-2222-2222",
                        "class": "template.semantic",
                        "severity": "high",
                        "how": "opened",
                        "summary": "acme/tiny: <!channel> @here *template* changed (abc1234)",
                    }
                ],
                "closed": [],
                "undone": [],
                "unchanged": [],
            }
        ],
        "events": [],
    },
}


def test_a_message_arrives_as_text_and_a_refusal_is_told() -> None:
    with receiving() as receiver:
        target = Target(url=f"json://127.0.0.1:{receiver.port}/", schemes=frozenset({"json"}))
        NOTIFIER.check(target)
        message = Message(id="msg_1", body=BODY)
        assert NOTIFIER.send(target, message, now=datetime.now(UTC)).delivered
        told = json.loads(receiver.got[0].body)
        assert told["title"] == "acme/tiny: 1 opened (up to high)"
        assert "x_HUBWATCH-2026-2222-2222-2222" in told["message"]
        assert "opened, high: " in told["message"]
        assert "@here" not in told["message"]
        assert "<!channel>" not in told["message"]
        receiver.answer = lambda _: Reply(status=500)
        refused = NOTIFIER.send(target, message, now=datetime.now(UTC))
        assert (refused.delivered, refused.error) == (False, "json did not take the message")
