from __future__ import annotations

import base64
from typing import Any

import pytest
from fastapi.routing import APIRoute

from storage import tokens, watches
from storage.errors import NotFound, UsageError
from storage.model import Scope
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, sha
from tests.tracker.web.conftest import NOW, Site
from tracker.demo.hub import LoopbackHub
from tracker.web.limits import Limiter

OPEN_ALWAYS = {"/healthz", "/readyz", "/style.css", "/icon.svg"}
OWN_SECRET = "/hooks/huggingface"
PARTS = {
    "owner": "acme",
    "name": "tiny-llm",
    "rev": "main",
    "kind": "atom",
    "advisory_id": "x",
    "vuln_id": "x",
    "pair": "main...main",
    "subscription": "sub_0123456789ab",
}


def test_a_secret_is_kept_nowhere_and_is_found_until_revoked(kept: Kept) -> None:
    with kept.database.transaction() as tx:
        made, secret = tokens.create(tx, "ci", [Scope.WRITE], now=NOW)
        assert tokens.find(tx, secret) == made
        assert tokens.find(tx, secret + "x") is None
        assert tokens.find(tx, "") is None
        assert made.allows(Scope.READ)
        row = tx.exec_driver_sql("SELECT * FROM tokens").one()
        assert secret not in map(str, row)
        assert secret.removeprefix(tokens.PREFIX) not in "".join(map(str, row))
        with pytest.raises(UsageError, match="already"):
            tokens.create(tx, "ci", [Scope.READ], now=NOW)
        revoked = tokens.revoke(tx, "ci", now=NOW)
        assert not revoked.allows(Scope.READ)
        assert tokens.find(tx, secret) is None
        with pytest.raises(NotFound):
            tokens.revoke(tx, str(made.id), now=NOW)
        again, _ = tokens.create(tx, "ci", [Scope.READ], now=NOW)
        assert not again.allows(Scope.WRITE)
        assert tokens.revoke(tx, str(again.id), now=NOW).id == again.id


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101])
def test_names_that_make_no_sense_are_refused(kept: Kept, name: str) -> None:
    with kept.database.transaction() as tx, pytest.raises(UsageError):
        tokens.create(tx, name, [Scope.READ], now=NOW)


def _routes(site: Site) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def walk(routes: Any, prefix: str = "") -> None:
        for route in routes:
            if isinstance(route, APIRoute):
                path = (prefix + route.path.replace(":path}", "}")).format(**PARTS)
                found.extend((method, path) for method in route.methods)
            elif hasattr(route, "original_router"):
                walk(route.original_router.routes, prefix)

    walk(site.app.routes)
    return found


def test_every_route_asks_for_a_token_where_reading_needs_one(kept: Kept) -> None:
    site = Site(kept.database, web={"read": "token"}, hub={"webhook_secret": "of the Hub"})
    paths = _routes(site)
    assert len(paths) > 30
    for method, path in paths:
        answer = site.client.request(method, path, json={} if method in {"POST", "PATCH"} else None)
        if path in OPEN_ALWAYS:
            assert answer.status_code == 200
            continue
        assert answer.status_code == 401, (method, path, answer.status_code)
        assert path == OWN_SECRET or "Bearer" in answer.headers["www-authenticate"]
    header = site.token(Scope.READ)
    assert site.client.get("/api/v1/repos", headers=header).status_code == 200
    assert site.client.get("/feeds/all.atom", headers=header).headers["cache-control"] == "private, no-cache"


def test_a_feed_reader_can_send_the_token_as_a_password_but_may_not_write_with_it(kept: Kept) -> None:
    site = Site(kept.database, web={"read": "token"})
    secret = site.token(Scope.WRITE)["Authorization"].removeprefix("Bearer ")
    basic = {"Authorization": "Basic " + base64.b64encode(f"me:{secret}".encode()).decode()}
    assert site.client.get("/feeds/all.atom", headers=basic).status_code == 200
    assert site.client.delete("/api/v1/watches/acme/tiny-llm", headers=basic).status_code == 401


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer x", "Bearer hubwatch_x", "Basic x", "Basic eDp5", "Digest a"]
)
def test_bad_tokens_are_refused_also_where_reading_is_open(site: Site, header: str) -> None:
    answer = site.client.get("/api/v1/repos", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthorized"
    osv = site.client.post("/v1/query", json={"commit": sha(1)}, headers={"Authorization": header})
    assert (osv.status_code, osv.json()["code"]) == (401, 16)


def _everything(site: Site, known: str) -> dict[str, str]:
    """What each way of reading says of acme/tiny-llm."""
    get, post = site.client.get, site.client.post
    asked = {"commit": sha(1)}
    return {
        "pages": get("/").text,
        "repos": get("/api/v1/repos").text,
        "changes": get("/api/v1/changes").text,
        "advisories": get("/api/v1/advisories").text,
        "watches": get("/api/v1/watches").text,
        "search": get("/api/v1/search?q=tiny").text + get(f"/api/v1/search?q={known}").text,
        "commits": get(f"/api/v1/search?q={sha(1)}").text.replace(sha(1), "acme/tiny-llm"),
        "query": post("/v1/query", json=asked).text,
        "purl": post("/v1/query", json={"package": {"purl": "pkg:huggingface/acme/tiny-llm"}}).text,
        "batch": post("/v1/querybatch", json={"queries": [asked]}).text.replace(known, "acme/tiny-llm"),
        "csv": get("/osv/modified_id.csv").text.replace(known, "acme/tiny-llm"),
        "json": get("/osv/all.json").text.replace(known, "acme/tiny-llm"),
        "feed": get("/feeds/all.json").text,
    }


def test_what_was_read_with_a_token_is_shown_only_with_one_of_ours(kept: Kept) -> None:
    site = Site(kept.database)
    known = kept.story.of("B").id
    with kept.database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
    alone = (
        "/api/v1/repos/acme/tiny-llm",
        "/api/v1/repos/acme/tiny-llm/revisions",
        "/api/v1/repos/acme/tiny-llm/revisions/main",
        "/api/v1/repos/acme/tiny-llm/revisions/main/files",
        "/api/v1/repos/acme/tiny-llm/changes",
        "/api/v1/repos/acme/tiny-llm/estimates",
        "/api/v1/repos/acme/tiny-llm/advisories",
        f"/api/v1/repos/acme/tiny-llm/diff?from={sha(0)}&to={sha(1)}",
        "/api/v1/repos/acme/tiny-llm/blame?path=config.json",
        "/api/v1/watches/acme/tiny-llm",
        f"/api/v1/advisories/{known}",
        f"/advisories/{known}",
        f"/v1/vulns/{known}",
        f"/osv/GIT/{known}.json",
        f"/osv/{known}.json",
        "/feeds/acme.atom",
        "/feeds/acme/tiny-llm.atom",
    )

    def seen() -> tuple[set[bool], set[int], int]:
        shown = {"acme/tiny-llm" in text for text in _everything(site, known).values()}
        return (
            shown,
            {site.client.get(path).status_code for path in alone},
            len(site.client.get("/osv/all.zip").content),
        )

    assert seen()[:2] == ({True}, {200})
    whole = seen()[2]
    with kept.database.transaction() as tx:
        watches.remove(tx, REPO)
        watches.add(tx, REPO, now=NOW, restricted=True)
    shown, statuses, size = seen()
    assert (shown, statuses) == ({False}, {404})
    assert size < whole
    unknown = site.client.get("/api/v1/repos/acme/never").json()
    hidden = site.client.get("/api/v1/repos/acme/tiny-llm").json()
    assert {key: str(text).replace("tiny-llm", "never") for key, text in hidden.items()} == {
        key: str(text) for key, text in unknown.items()
    }
    header = site.token(Scope.READ)
    site.client.headers.update(header)
    assert seen() == ({True}, {200}, whole)
    del site.client.headers["Authorization"]
    with kept.database.transaction() as tx:
        watches.change(tx, REPO, now=NOW, public=True)
    assert seen() == ({True}, {200}, whole)


def test_watches_are_managed_with_a_token_of_scope_write(kept: Kept, upstream: LoopbackHub) -> None:
    upstream.create("cedar/model").commit({"config.json": "{}"}, title="first")
    site = Site(kept.database, hub={"endpoint": upstream.url})
    write, read = site.token(Scope.WRITE, name="writer"), site.token(Scope.READ, name="reader")
    asked = {"repo": "cedar/model", "every": "30m"}
    assert site.client.post("/api/v1/watches", json=asked).status_code == 401
    assert site.client.post("/api/v1/watches", json=asked, headers=read).status_code == 403
    made = site.client.post("/api/v1/watches", json=asked, headers=write)
    assert (made.status_code, made.headers["location"]) == (201, "/api/v1/watches/cedar/model")
    assert made.json()["every_seconds"] == 1800
    assert site.client.post("/api/v1/watches", json=asked, headers=write).status_code == 409
    assert site.client.post("/api/v1/watches", json={"repo": "cedar/none"}, headers=write).status_code == 404
    assert site.client.post("/api/v1/watches", json={"repo": "cedar/*"}, headers=write).json() == {
        "owner": "cedar",
        "paused": False,
    }
    here = "/api/v1/watches/cedar/model"
    changed = site.client.patch(here, json={"paused": True, "every": None, "public": True}, headers=write).json()
    assert (changed["paused"], changed["every_seconds"], changed["public"]) == (True, None, True)
    assert site.client.patch(here, json={"paused": False}, headers=write).json()["paused"] is False
    assert site.client.patch("/api/v1/watches/cedar/*", json={"paused": True}, headers=write).json()["paused"]
    assert site.client.get(here, headers=write).json()["paused"]  # all of the owner's
    assert site.client.patch("/api/v1/watches/cedar/*", json={}, headers=write).status_code == 400
    for body in ({"paused": 5}, {"every": "soon"}, {"colour": 1}, [], "x"):
        assert site.client.patch(here, json=body, headers=write).status_code == 422
    assert site.client.patch(here, json={"every": "0s"}, headers=write).status_code == 400
    assert site.client.delete(here, headers=write).status_code == 204
    assert site.client.delete(here, headers=write).status_code == 404
    assert site.client.delete("/api/v1/watches/cedar/*", headers=write).status_code == 204
    assert site.client.get("/api/v1/audit-log").status_code == 401
    log = site.client.get("/api/v1/audit-log", headers=read).json()["entries"]
    assert [(item["actor"], item["action"], item["target"]) for item in log] == [
        ("writer", "watch.remove", "cedar/*"),
        ("writer", "watch.remove", "cedar/model"),
        ("writer", "watch.change", "cedar/*"),
        ("writer", "watch.change", "cedar/model"),
        ("writer", "watch.change", "cedar/model"),
        ("writer", "watch.add", "cedar/*"),
        ("writer", "watch.add", "cedar/model"),
    ]
    assert site.get("/api/v1/token", **read) == {"name": "reader", "scopes": ["read"]}


def test_a_hub_that_does_not_answer_is_a_bad_gateway(kept: Kept) -> None:
    site = Site(kept.database, hub={"endpoint": "http://127.0.0.1:9", "deadline_seconds": 2})
    answer = site.client.post("/api/v1/watches", json={"repo": "a/b"}, headers=site.token(Scope.WRITE))
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"


def test_one_client_may_write_only_so_often(kept: Kept) -> None:
    site = Site(kept.database, web={"writes_per_minute": 3})
    header, other = site.token(Scope.WRITE), site.token(Scope.WRITE, name="other")
    codes = [site.client.delete("/api/v1/watches/a/b", headers=header).status_code for _ in range(5)]
    assert codes == [404, 404, 404, 429, 429]
    answer = site.client.delete("/api/v1/watches/a/b", headers=header)
    assert int(answer.headers["retry-after"]) >= 1
    assert site.client.delete("/api/v1/watches/a/b", headers=other).status_code == 404
    bad = {"Authorization": "Bearer hubwatch_guess"}
    assert [site.client.get("/api/v1/repos", headers=bad).status_code for _ in range(4)] == [401, 401, 401, 429]
    assert site.client.get("/api/v1/repos").status_code == 200


def test_time_gives_requests_back() -> None:
    now = [0.0]
    limiter = Limiter(60, lambda: now[0])
    assert [limiter.take("a") for _ in range(60)] == [0.0] * 60
    assert limiter.take("a") == pytest.approx(1.0)
    assert limiter.take("b") == 0.0
    now[0] = 1.0
    assert limiter.take("a") == 0.0
    assert limiter.take("a") > 0


def test_a_tokens_last_use_is_kept(site: Site) -> None:
    header = site.token(Scope.READ)
    for _ in range(2):
        assert site.client.get("/api/v1/repos", headers=header).status_code == 200
    with site.database.snapshot() as tx:
        (token,) = tokens.list_all(tx)
    assert token.last_used_at == NOW
