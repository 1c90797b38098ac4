"""Subscriptions over REST: with a token only, webhooks to public addresses only, the secret shown once."""

from __future__ import annotations

from storage.model import Scope
from tests.tracker.web.conftest import Site

WISH = {"url": "https://hooks.example.org/x", "min_severity": "high", "repos": ["acme/*"], "settle": "0s"}
PATH = "/api/v1/subscriptions"


def test_a_webhook_is_added_shown_and_removed(site: Site) -> None:
    writer, reader = site.token(Scope.WRITE, Scope.READ), site.token(Scope.READ, name="reader")
    made = site.client.post(PATH, json=WISH, headers=writer)
    assert made.status_code == 201, made.text
    assert made.json()["secret"].startswith("whsec_")
    where = made.headers["location"]
    shown = site.get(where, **reader)
    assert shown["min_severity"] == "high"
    assert "whsec_" not in str(shown)
    assert [item["id"] for item in site.get(PATH, **reader)["subscriptions"]] == [shown["id"]]
    assert site.get(f"{where}/deliveries", **reader) == {"deliveries": [], "next_cursor": None}
    assert site.client.delete(where, headers=writer).status_code == 204
    assert site.client.get(where, headers=reader).status_code == 404
    actions = [entry["action"] for entry in site.get("/api/v1/audit-log", **reader)["entries"]]
    assert {"subscription.add", "subscription.remove"} <= set(actions)


def test_nobody_reads_or_writes_them_without_a_token(site: Site) -> None:
    assert site.client.get(PATH).status_code == 401
    assert site.client.post(PATH, json=WISH).status_code == 401
    assert site.client.post(PATH, json=WISH, headers=site.token(Scope.READ)).status_code == 403


def test_what_is_not_allowed_over_the_network_is_a_problem(site: Site) -> None:
    writer = site.token(Scope.WRITE)
    for wrong in (
        {"url": "http://127.0.0.1:9/hook"},
        {"url": "slack://a/b/c"},
        {"url": "https://hooks.example.org/x", "min_severity": "awful"},
        {"url": "https://hooks.example.org/x", "classes": ["no.such"]},
        {"url": "https://hooks.example.org/x", "secret": "mine"},
        {"url": "https://hooks.example.org/x", "settle": "9000d"},
    ):
        answer = site.client.post(PATH, json=wrong, headers=writer)
        assert answer.status_code in {400, 422}, (wrong, answer.text)
        assert answer.headers["content-type"].startswith("application/problem+json")
    assert site.get(PATH, **site.token(Scope.READ, name="reader"))["subscriptions"] == []
