"""Many repos are asked about in few questions, within one budget, the urgent ones first."""

from __future__ import annotations

import httpx
import pytest

from tests.e2e.test_daemon import daemon
from tests.support.command import Hubwatch, wait_for
from tests.support.models import llama
from tracker.demo.hub import LoopbackHub
from tracker.hub.budget import SHARE_OF

MANY = 30
SECRET = "s3cret"


@pytest.fixture
def many(hub: LoopbackHub, hubwatch: Hubwatch) -> Hubwatch:
    """An installation that watches many repos of one owner, and has read them."""
    for number in range(MANY):
        repo = hub.create(f"acme/m{number:02d}")
        repo.commit({".gitattributes": "*.bin filter=lfs\n", "config.json": llama(vocab_size=100 + number)})
    assert hubwatch("watch", "add", "acme/*").code == 0
    polled = hubwatch.json("poll")
    assert [row["new_revisions"] for row in polled["repos"]] == [1] * MANY
    hub.requests.clear()
    return hubwatch


def asked(hub: LoopbackHub) -> list[str]:
    return [request.path for request in hub.requests]


def test_a_round_over_an_owner_at_rest_is_one_listing(hub: LoopbackHub, many: Hubwatch) -> None:
    polled = many.json("poll")
    assert {row["status"] for row in polled["repos"]} == {"unchanged"}
    assert asked(hub) == ["/api/models"]


def test_what_moved_in_a_listing_is_asked_in_full_and_lands(hub: LoopbackHub, many: Hubwatch) -> None:
    hub.model("acme/m07").repo.commit({"config.json": llama(vocab_size=999)})
    hub.model("acme/m09").disabled = True
    polled = {row["repo"]: row for row in many.json("poll", codes=(1,))["repos"]}
    assert (polled["acme/m07"]["status"], polled["acme/m07"]["new_revisions"]) == ("ok", 1)
    assert polled["acme/m09"]["status"] == "disabled"
    assert sum(row["status"] == "unchanged" for row in polled.values()) == MANY - 2
    heads = [path for path in asked(hub) if path.count("/") == 4 and path != "/api/models"]
    assert sorted(heads) == ["/api/models/acme/m07", "/api/models/acme/m09"]


def test_a_listing_that_leaves_repos_out_says_nothing_of_them(hub: LoopbackHub, many: Hubwatch) -> None:
    hub.remove("acme/m03")
    polled = {row["repo"]: row for row in many.json("poll", codes=(1,))["repos"]}
    assert polled["acme/m03"]["status"] == "missing"
    assert many.json("advisories", "acme/m03", "--class", "repo.deleted")["advisories"] == []
    assert "/api/models/acme/m03" in asked(hub)


def test_watches_of_single_repos_share_a_listing_too(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    for number in range(4):
        hub.create(f"acme/m{number}").commit({"README.md": "x"})
        assert hubwatch("watch", "add", f"acme/m{number}").code == 0
    hub.create("other/one").commit({"README.md": "x"})
    assert hubwatch("watch", "add", "other/one").code == 0
    hubwatch.json("poll")
    hub.requests.clear()
    assert {row["status"] for row in hubwatch.json("poll")["repos"]} == {"unchanged"}
    assert sorted(asked(hub)) == ["/api/models", "/api/models/other/one"]


def test_the_budget_holds_and_what_is_left_goes_on_in_the_next_window(hubwatch: Hubwatch) -> None:
    with LoopbackHub(quota={"api": 20, "resolvers": 20}, window=4) as hub:
        here = Hubwatch(hub.url, hubwatch.database_url, hubwatch.home)
        for number in range(6):
            hub.create(f"owner{number}/one").commit({"README.md": f"{number}"})
            assert here("watch", "add", f"owner{number}/one").code == 0
        landed = 0
        for _ in range(12):
            rows = here.json("poll", codes=(0, 1))["repos"]
            landed += sum(row["new_revisions"] for row in rows)
            assert {row["status"] for row in rows} <= {"ok", "unchanged", "paused"}
            if landed == 6 and all(row["status"] != "paused" for row in rows):
                break
        assert landed == 6
        assert not [request for request in hub.requests if request.status == 429]
        assert all(not row["errors"] for row in here.json("watch", "list")["watches"])


def test_while_the_api_is_scarce_repos_at_rest_are_peeked_at(hubwatch: Hubwatch) -> None:
    with LoopbackHub(quota={"api": 60, "resolvers": 3000}) as hub:
        here = Hubwatch(hub.url, hubwatch.database_url, hubwatch.home)
        for number in range(5):
            repo = hub.create(f"owner{number}/one")
            repo.commit({".gitattributes": "*.bin filter=lfs\n", "README.md": f"{number}"})
            assert here("watch", "add", f"owner{number}/one").code == 0
        here.json("poll", codes=(0, 1))
        spent = sum(request.path.startswith("/api/models") for request in hub.requests)
        assert spent > 60 * 0.8 / 2
        hub.requests.clear()
        assert {row["status"] for row in here.json("poll")["repos"]} == {"unchanged"}
        assert sorted(asked(hub)) == [f"/owner{number}/one/resolve/main/.gitattributes" for number in range(5)]
        hub.model("owner3/one").repo.commit({"README.md": "moved"})
        rows = {row["repo"]: row["status"] for row in here.json("poll", codes=(0, 1))["repos"]}
        assert rows.pop("owner3/one") in {"ok", "paused"}
        assert set(rows.values()) == {"unchanged"}


def test_a_hint_of_the_hub_has_a_resting_repo_checked_at_once(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create("acme/tiny")
    repo.commit({"config.json": llama()})
    assert hubwatch("watch", "add", "acme/tiny", "--every", "24h").code == 0
    hubwatch.json("poll")
    told = {"HUBWATCH_HUB_WEBHOOK_SECRET": SECRET, "HUBWATCH_PORT": "0"}
    here = Hubwatch(hub.url, hubwatch.database_url, hubwatch.home, told)
    with daemon(here) as (_, url):
        sha = repo.commit({"config.json": llama(vocab_size=101)})
        answer = httpx.post(
            f"{url.rstrip('/')}/hooks/huggingface",
            headers={"X-Webhook-Secret": SECRET},
            json={
                "event": {"action": "update", "scope": "repo.content"},
                "repo": {"type": "model", "name": "acme/tiny", "headSha": sha},
                "updatedRefs": [{"ref": "refs/heads/main", "oldSha": None, "newSha": sha}],
            },
        )
        assert answer.status_code == 202
        wait_for(lambda: here.json("history", "acme/tiny")["revisions"][0]["sha"] == sha, seconds=60)


def test_every_urgency_has_its_share() -> None:
    shares = [SHARE_OF[urgency] for urgency in sorted(SHARE_OF)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
