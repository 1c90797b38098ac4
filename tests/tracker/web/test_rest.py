from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from advisories.osv_model import OsvDocument
from storage import history, watches
from storage.model import Landing, Manifest, RepoRef, Revision
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, sha
from tests.tracker.web.conftest import NOW, OTHER, Site

HERE = "/api/v1/repos/acme/tiny-llm"


def land(site: Site, repo: RepoRef, label: int) -> None:
    with site.database.transaction() as tx:
        history.land(
            tx,
            Landing(
                repo=repo,
                ref="main",
                revision=Revision(sha=f"{label:040x}", committed_at=NOW, author="eve", title="\ud800\x00"),
                observed_at=NOW,
                backfill=False,
                manifest=Manifest(files={}),
                gaps=(),
                findings=(),
                estimate=None,
                advisories=(),
                events=(),
            ),
        )


def pages(site: Site, path: str, key: str) -> list[Any]:
    found: list[Any] = []
    cursor = ""
    while True:
        page = site.get(path + cursor)
        found += page[key]
        if page["next_cursor"] is None:
            return found
        assert page[key]
        assert len(found) < 100
        cursor = f"&cursor={page['next_cursor']}"


def test_repos_and_one_repo(site: Site) -> None:
    land(site, OTHER, 77)
    (first, second) = site.get("/api/v1/repos")["repos"]
    assert [first["repo"], second["repo"]] == ["acme/tiny-llm", "birch/stories"]
    assert first == site.get(HERE)
    assert (first["head"], first["revisions"], first["watched"]) == (sha(5), 6, False)
    assert first["open_advisories"] == 1
    assert [item["repo"] for item in site.get("/api/v1/repos?q=TINY")["repos"]] == ["acme/tiny-llm"]
    assert [item["repo"] for item in site.get("/api/v1/repos?owner=birch")["repos"]] == ["birch/stories"]
    assert site.get("/api/v1/repos?watched=true")["repos"] == []
    assert len(pages(site, "/api/v1/repos?limit=1", "repos")) == 2


def test_history_has_the_contracts_keys_and_hostile_text_survives(site: Site) -> None:
    body = site.get(f"{HERE}/revisions")
    assert body["repo"] == "acme/tiny-llm"
    assert [row["sha"] for row in body["revisions"]] == [sha(number) for number in range(5, -1, -1)]
    newest = body["revisions"][0]
    assert set(newest) >= {
        "sha",
        "committed_at",
        "observed_at",
        "author",
        "title",
        "changes",
        "estimate",
        "advisories",
    }
    (change,) = newest["changes"]
    assert set(change) == {"class", "severity", "path", "pointer", "before", "after", "summary", "reason"}
    assert (change["before"], change["summary"][:6]) == ("NaN", "\\ud800")
    assert newest["estimate"]["parameters"] == {"total": 1005}
    assert "cards" not in newest["estimate"]
    land(site, OTHER, 77)
    assert site.get("/api/v1/repos/birch/stories/revisions")["revisions"][0]["title"].startswith("\\ud800")


def test_pages_of_history_survive_a_revision_that_lands_in_between(site: Site, kept: Kept) -> None:
    first = site.get(f"{HERE}/revisions?limit=4")
    kept.rope("D")
    rest = site.get(f"{HERE}/revisions?limit=4&cursor={first['next_cursor']}")
    shown = [row["sha"] for row in (*first["revisions"], *rest["revisions"])]
    assert shown == [sha(number) for number in range(5, -1, -1)]
    assert rest["next_cursor"] is None
    again = [row["sha"] for row in pages(site, f"{HERE}/revisions?limit=3", "revisions")]
    assert again == [sha(number) for number in range(6, -1, -1)]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("class=config.rope", [5, 3, 1]),
        ("min_severity=MODERATE", [5, 3, 1]),
        ("class=card.only&min_severity=low", []),
        ("path=extra2.txt", [3, 2]),
        ("path=nothing", []),
        ("since=2026-03-05T00:00:00Z", [5, 4]),
        ("since=2026-03-05", [5, 4]),
    ],
)
def test_history_filters(site: Site, query: str, numbers: list[int]) -> None:
    found = site.get(f"{HERE}/revisions?{query}")["revisions"]
    assert [row["sha"] for row in found] == [sha(number) for number in numbers]


def test_one_revision_and_its_files(site: Site) -> None:
    shown = site.get(f"{HERE}/revisions/main")
    assert shown["sha"] == sha(5)
    assert [item["path"] for item in shown["files"]] == ["config.json", "extra5.txt"]
    assert shown["estimate"]["cards"] == [{"name": "L4"}]
    assert len(shown["open_advisories"]) == 1
    assert site.get(f"{HERE}/revisions/{sha(2)}/files?prefix=extra")["files"][0]["path"] == "extra2.txt"
    assert len(pages(site, f"{HERE}/revisions/main/files?limit=1", "files")) == 2


def test_changes_of_a_repo_and_of_all(site: Site) -> None:
    every = site.get(f"{HERE}/changes")["changes"]
    assert [row["sha"] for row in every] == [sha(number) for number in (5, 4, 3, 2, 1)]
    assert every[0]["repo"] == "acme/tiny-llm"
    assert len(pages(site, f"{HERE}/changes?limit=2", "changes")) == 5
    assert pages(site, "/api/v1/changes?limit=2", "changes") == every
    assert site.get("/api/v1/changes?owner=birch")["changes"] == []
    assert len(site.get("/api/v1/changes?class=card.only&path=config.json")["changes"]) == 2


def test_a_diff_of_any_two(site: Site) -> None:
    made = site.get(f"{HERE}/diff?from={sha(0)}&to=main")
    assert (made["from"], made["to"]) == (sha(0), sha(5))
    (config,) = [item for item in made["changes"] if item["path"] == "config.json"]
    assert (config["pointer"], config["before"], config["after"]) == ("/rope", "A", "B")
    assert set(made["estimate"]) == {"before", "after"}
    back = site.get(f"{HERE}/diff?from={sha(5)}&to={sha(0)}")
    assert [(item["before"], item["after"]) for item in back["changes"] if item["path"] == "config.json"] == [
        ("B", "A")
    ]


def test_blame(site: Site) -> None:
    entries = site.get(f"{HERE}/blame?path=config.json&pointer=/rope")["entries"]
    assert [(item["sha"], item["value"]) for item in entries] == [
        (sha(5), "B"), (sha(4), "A"), (sha(3), "C"), (sha(1), "B"), (sha(0), "A")
    ]  # fmt: skip
    removed = site.get(f"{HERE}/blame?path=extra0.txt")["entries"][0]
    assert (removed["sha"], removed["present"]) == (sha(1), False)


def test_estimates_over_time(site: Site) -> None:
    rows = pages(site, f"{HERE}/estimates?limit=4", "estimates")
    assert [row["estimate"]["parameters"]["total"] for row in rows] == [1005, 1004, 1003, 1002, 1001, 1000]
    assert len(site.get(f"{HERE}/estimates?since=2026-03-05T00:00:00Z")["estimates"]) == 2


def test_advisories_are_osv_documents(site: Site, kept: Kept) -> None:
    (new, old) = site.get("/api/v1/advisories")["advisories"]
    assert {new["id"], old["id"]} == {kept.story.of("B").id, kept.story.of("C").id}
    assert new["published"] >= old["published"]
    for made in (new, old):
        OsvDocument.model_validate(made)
        assert site.get(f"/api/v1/advisories/{made['id']}") == made
        assert site.client.post("/v1/query", json={"commit": made["affected"][0]["versions"][0]}).json() == {
            "vulns": [made]
        }
    assert site.get(f"{HERE}/advisories?state=open")["advisories"] == [old]
    assert site.get("/api/v1/advisories?state=closed")["advisories"] == [new]
    assert site.get("/api/v1/advisories?path=config.json&owner=acme&min_severity=high")["advisories"] == [new, old]
    for query in (
        "path=onfig.json",
        "owner=birch",
        "min_severity=critical",
        "class=tokens.eos",
        "since=2027-01-01",
    ):
        assert site.get(f"/api/v1/advisories?{query}")["advisories"] == []
    assert pages(site, "/api/v1/advisories?limit=1", "advisories") == [new, old]


def test_search(site: Site, kept: Kept) -> None:
    known = kept.story.of("B").id
    assert [item["repo"] for item in site.get("/api/v1/search?q=tiny")["repos"]] == ["acme/tiny-llm"]
    assert [item["sha"] for item in site.get(f"/api/v1/search?q={sha(3)}")["revisions"]] == [sha(3)]
    assert [item["id"] for item in site.get(f"/api/v1/search?q={known[:22]}")["advisories"]] == [known]
    assert len(site.get("/api/v1/search?q=config.rope")["advisories"]) == 2
    assert site.get("/api/v1/search?q=%25%00_")["repos"] == []


def test_what_is_no_pointer_is_refused(site: Site) -> None:
    answer = site.client.get(f"{HERE}/blame?path=config.json&pointer=rope")
    assert (answer.status_code, answer.json()["help"]) == (400, "write it like /rope_theta")


def test_what_is_not_there_is_a_problem(site: Site) -> None:
    for path in (
        "/nothing",
        "/api/v1/nothing",
        "/api/v1/repos/acme/other",
        "/api/v1/repos/acme/other/revisions",
        "/api/v1/repos/acme/other/changes",
        "/api/v1/repos/acme/other/diff?from=a&to=b",
        "/api/v1/repos/acme/other/blame?path=x",
        f"{HERE}/revisions/beef",
        f"{HERE}/revisions/%00",
        f"{HERE}/blame?path=nothing.json",
        "/api/v1/advisories/x_HUBWATCH-2026-2222-2222-2222",
        "/api/v1/advisories/%00",
        "/api/v1/watches/acme/tiny-llm",
        "/feeds/nobody.atom",
        "/feeds/acme/other.json",
        "/advisories/x",
    ):
        answer = site.client.get(path)
        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "application/problem+json"
        made = answer.json()
        assert made["type"] == "urn:hubwatch:problem:not_found"
        assert (made["status"], made["title"]) == (404, "Not Found")
        assert made["instance"].startswith("/")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/api/v1/repos", 405),
        ("POST", HERE, 405),
        ("GET", "/api/v1/repos/-x/y", 400),
        ("GET", "/api/v1/repos/a--b/c", 400),
        ("GET", "/api/v1/repos/a%0d%0aX/c", 422),
        ("GET", "/api/v1/repos?limit=0", 422),
        ("GET", "/api/v1/repos?limit=99999", 422),
        ("GET", "/api/v1/repos?sort=x", 422),
        ("GET", f"{HERE}/revisions?min_severity=awful", 422),
        ("GET", f"{HERE}/revisions?since=yesterday", 422),
        ("GET", f"{HERE}/revisions?class=a%0d%0aSet-Cookie:x", 422),
        ("GET", f"{HERE}/diff", 422),
        ("GET", "/feeds/all.atom?min_severity=%0d%0a", 422),
        ("GET", "/feeds/all.rss", 422),
        ("GET", "/feeds/all.atom?min_severty=high", 422),
        ("GET", "/feeds/all.json?class=config.rope&class=config.quant", 422),
        ("GET", "/api/v1/changes?class=config.rope&class=config.quant", 422),
        ("GET", "/feeds/all.atom?cursor=x", 400),
    ],
)
def test_what_makes_no_sense_is_a_problem(site: Site, method: str, path: str, status: int) -> None:
    answer = site.client.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert "set-cookie" not in answer.headers


def _cursor(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "%00",
        "é",
        "AAAA",
        "[" * 3000,
        base64.urlsafe_b64encode(b"[" * 5000).decode(),
        _cursor("repos", "a", "b", "c"),
        _cursor("revisions"),
        _cursor("revisions", "5"),
        _cursor("revisions", True),
        _cursor("revisions", 1.5),
        _cursor("revisions", 2**70),
        _cursor("revisions", None),
        _cursor("revisions", 1, 2),
        _cursor({"a": 1}),
    ],
)
def test_hostile_cursors_are_refused(site: Site, cursor: str) -> None:
    answer = site.client.get(f"{HERE}/revisions", params={"cursor": cursor})
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:hubwatch:problem:cursor"


def test_a_cursor_far_out_of_time_is_refused(site: Site) -> None:
    answer = site.client.get("/api/v1/advisories", params={"cursor": _cursor("advisories", 2**61, "x")})
    assert answer.status_code == 400


def test_what_did_not_change_is_not_sent_again(site: Site, kept: Kept) -> None:
    for path in (
        HERE,
        f"{HERE}/revisions",
        "/feeds/all.atom",
        "/osv/modified_id.csv",
        "/osv/all.zip",
        "/v1/vulns/" + kept.story.of("B").id,
    ):
        first = site.client.get(path)
        tag = first.headers["etag"]
        assert tag.startswith('W/"')
        again = site.client.get(path, headers={"If-None-Match": f'"other", {tag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        assert site.client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
        head = site.client.head(path)
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    tag = site.client.get(f"{HERE}/revisions").headers["etag"]
    kept.rope("D")
    assert site.client.get(f"{HERE}/revisions", headers={"If-None-Match": tag}).status_code == 200


def test_times_answer_conditions_where_there_is_no_name(site: Site) -> None:
    modified = site.client.get("/feeds/all.atom").headers["last-modified"]
    assert site.client.get("/feeds/all.atom", headers={"If-Modified-Since": modified}).status_code == 304
    for other in ("Mon, 02 Mar 2026 12:00:00 GMT", "nonsense", "Mon, 99 Foo 99999 99:99:99 GMT"):
        assert site.client.get("/feeds/all.atom", headers={"If-Modified-Since": other}).status_code == 200
    both = {"If-Modified-Since": modified, "If-None-Match": '"other"'}
    assert site.client.get("/feeds/all.atom", headers=both).status_code == 200


def test_long_answers_are_compressed_and_archives_are_not(site: Site) -> None:
    answer = site.client.get(f"{HERE}/revisions", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert {part.strip() for part in answer.headers["vary"].split(",")} == {"Accept-Encoding", "Authorization"}
    archive = site.client.get("/osv/all.zip", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in archive.headers


def test_unknown_hosts_are_refused(site: Site) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "[::2]"):
        assert site.client.get(HERE, headers={"Host": host}).status_code == 421
    for host in ("localhost:8600", "127.0.0.1", "[::1]:8600"):
        assert site.client.get(HERE, headers={"Host": host}).status_code == 200


def test_no_other_site_may_read_or_frame(site: Site) -> None:
    answer = site.client.options(
        HERE, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    )
    assert answer.status_code == 405
    plain = site.client.get(HERE, headers={"Origin": "https://evil.example"})
    for found in (answer, plain):
        assert not [name for name in found.headers if name.startswith("access-control")]
        assert found.headers["x-frame-options"] == "DENY"
        assert found.headers["x-content-type-options"] == "nosniff"


def test_bodies_beyond_all_measure_are_refused(site: Site) -> None:
    big = b"x" * (5 << 20)
    assert site.client.post("/v1/query", content=big).status_code == 413
    streamed = site.client.post("/v1/query", content=iter([big[: 1 << 20]] * 6))
    assert streamed.status_code == 413
    assert streamed.json()["code"] == 3


def test_the_front_page_names_the_feeds(site: Site) -> None:
    text = site.client.get("/").text
    assert '<link rel="alternate" type="application/atom+xml" title="All changes" href="/feeds/all.atom">' in text
    assert "acme/tiny-llm" in text


def test_a_database_that_fails_says_nothing_of_itself(site: Site) -> None:
    site.database.dispose()
    with site.database.transaction() as tx:
        tx.exec_driver_sql("DROP TABLE spans")
    answer = site.client.get("/api/v1/advisories")
    assert answer.status_code == 503
    assert answer.json()["code"] == "storage"
    assert site.database.place not in answer.text
    assert site.client.post("/v1/query", json={"commit": sha(1)}).json()["code"] == 14


def test_watches_are_listed(site: Site) -> None:
    with site.database.transaction() as tx:
        watches.add(tx, REPO, now=NOW)
        watches.add(tx, OTHER, now=NOW)
        watches.add_owner(tx, "cedar", now=NOW)
    body = site.get("/api/v1/watches?limit=1")
    assert [row["repo"] for row in body["watches"]] == ["acme/tiny-llm"]
    assert body["owners"] == [{"owner": "cedar", "paused": False}]
    rest = site.get(f"/api/v1/watches?limit=1&cursor={body['next_cursor']}")
    assert ([row["repo"] for row in rest["watches"]], rest["owners"]) == (["birch/stories"], [])
    assert site.get("/api/v1/watches/birch/stories") == rest["watches"][0]
