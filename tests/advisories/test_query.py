from __future__ import annotations

import pytest

from advisories.query import (
    PAGE,
    DocumentSource,
    Query,
    StoredSource,
    answer,
    answer_batch,
    matches,
    normalized,
    parse_query,
)
from storage import watches
from storage.database import Database
from storage.errors import UsageError
from storage.model import Json, Severity
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, START, finding, sha

NAME = "https://huggingface.co/acme/tiny-llm"
PURL = "pkg:huggingface/acme/tiny-llm"


@pytest.fixture
def kept(sqlite_database: Database) -> Kept:
    return Kept(sqlite_database).rope("A", "B", "B", "C")


def ids(kept: Kept, body: Json) -> list[str]:
    with kept.database.snapshot() as tx:
        return [made["id"] for made in answer(StoredSource(tx), body).get("vulns", [])]


GIT = {"ecosystem": "GIT", "name": NAME}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"commit": sha(0)}, ""),
        ({"commit": sha(1)}, "B"),
        ({"commit": sha(2).upper()}, "B"),
        ({"commit": sha(3)}, "C"),
        ({"commit": sha(1), "package": {"name": "", "ecosystem": ""}}, "B"),
        ({"commit": "abcdef"}, ""),
        ({"version": sha(1), "package": GIT}, "B"),
        ({"version": "main", "package": GIT}, ""),
        ({"version": sha(3), "package": {"ecosystem": "GIT", "name": "huggingface.co/acme/tiny-llm.git/"}}, "C"),
        ({"version": sha(3), "package": {"ecosystem": "GIT", "name": "https://huggingface.co/acme/other"}}, ""),
        ({"version": sha(3), "package": {"ecosystem": "PyPI", "name": NAME}}, ""),
        ({"package": {"purl": f"{PURL}@{sha(1)}"}}, "B"),
        ({"package": {"purl": PURL}, "version": sha(3)}, "C"),
        ({"package": {"purl": PURL}}, "BC"),
        ({"package": {"purl": "pkg:huggingface/acme/other"}}, ""),
        ({"package": {"purl": f"{PURL}?repository_url=https://hub.example"}}, ""),
        ({"package": {"purl": "pkg:frobnicate/a/b@1"}}, ""),
        ({"package": {"purl": "pkg:pypi/requests@2.0"}}, ""),
    ],
)
def test_what_a_query_finds(kept: Kept, body: Json, found: str) -> None:
    assert ids(kept, body) == sorted(kept.story.of(value).id for value in found)


def test_nothing_found_is_an_empty_object(kept: Kept) -> None:
    with kept.database.snapshot() as tx:
        assert answer(StoredSource(tx), {"commit": "f" * 40}) == {}


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        "x",
        {"version": "1"},
        {"package": {"name": "a"}},
        {"package": {"ecosystem": "GIT"}},
        {"package": []},
        {"package": "x"},
        {"commit": 5},
        {"commit": "main"},
        {"commit": sha(1), "page_token": "a b\r\n"},
        {"commit": "a" * 2000},
        {"commit": sha(1), "version": "1"},
        {"package": {"purl": "no purl"}},
        {"package": {"purl": "pkg:"}},
        {"package": {"purl": PURL, "name": NAME, "ecosystem": "GIT"}},
        {"package": {"purl": f"{PURL}@{sha(1)}"}, "version": sha(2)},
    ],
)
def test_queries_that_make_no_sense_are_refused(body: Json) -> None:
    with pytest.raises(UsageError):
        parse_query(body)


def test_a_batch_answers_in_order_with_ids_alone(kept: Kept) -> None:
    body = {"queries": [{"commit": sha(1)}, {"commit": sha(0)}, {"package": {"purl": f"{PURL}@{sha(3)}"}}]}
    with kept.database.snapshot() as tx:
        results = answer_batch(StoredSource(tx), body)["results"]
    assert [[item["id"] for item in result.get("vulns", [])] for result in results] == [
        [kept.story.of("B").id],
        [],
        [kept.story.of("C").id],
    ]
    assert results[1] == {}
    assert set(results[0]["vulns"][0]) == {"id", "modified"}


@pytest.mark.parametrize(
    "body", [None, {}, {"queries": "x"}, {"queries": [{}]}, {"queries": [{"commit": "a"}] * 1001}]
)
def test_batches_that_make_no_sense_are_refused(kept: Kept, body: Json) -> None:
    with kept.database.snapshot() as tx, pytest.raises(UsageError):
        answer_batch(StoredSource(tx), body)


def test_info_is_left_out(kept: Kept) -> None:
    made = finding("card:text", None, "b", cls="card.only", severity=Severity.INFO)
    kept.land({"config:rope": "C", "card:text": "b"}, findings=[made])
    assert ids(kept, {"commit": sha(4)}) == [kept.story.of("C").id]
    assert kept.story.of("b").id not in ids(kept, {"package": {"purl": PURL}})


def test_repos_that_may_not_be_seen_are_left_out(kept: Kept) -> None:
    with kept.database.transaction() as tx:
        watch = watches.add(tx, REPO, now=START, restricted=True)
    for public in (False, True):
        with kept.database.transaction() as tx:
            watches.change(tx, watch.repo, now=START, public=public)
        with kept.database.snapshot() as tx:
            outside, inside = StoredSource(tx, public_only=True), StoredSource(tx)
            known = kept.story.of("B").id
            for body in ({"commit": sha(1)}, {"package": {"purl": PURL}}, {"version": sha(1), "package": GIT}):
                assert ("vulns" in answer(outside, body)) == public
                assert "vulns" in answer(inside, body)
            assert (outside.get(known) is not None) == public
            assert inside.get(known) is not None


def test_a_batch_says_the_same_times_as_the_documents(kept: Kept) -> None:
    with kept.database.snapshot() as tx:
        source = StoredSource(tx)
        for number in range(4):
            whole = answer(source, {"commit": sha(number)}).get("vulns", [])
            (short,) = answer_batch(source, {"queries": [{"commit": sha(number)}]})["results"]
            assert short.get("vulns", []) == [{"id": made["id"], "modified": made["modified"]} for made in whole]


def test_long_answers_come_in_pages() -> None:
    affected = [{"package": {"ecosystem": "GIT", "name": NAME}, "versions": [sha(1)]}]
    source = DocumentSource(
        {"id": f"x_{number:04}", "modified": "now", "affected": affected} for number in range(PAGE + 7)
    )
    first = answer(source, {"commit": sha(1)})
    second = answer(source, {"commit": sha(1), "page_token": first["next_page_token"]})
    assert (len(first["vulns"]), len(second["vulns"])) == (PAGE, 7)
    assert "next_page_token" not in second
    assert first["vulns"][-1]["id"] < second["vulns"][0]["id"]


def test_documents_of_other_ecosystems_match_by_name_version_and_purl() -> None:
    document = {
        "id": "PYSEC-1",
        "affected": [
            {
                "package": {"ecosystem": "PyPI", "name": "jinja2", "purl": "pkg:pypi/jinja2"},
                "versions": ["2.4", "2.5"],
            }
        ],
    }
    for body, found in [
        ({"version": "2.4", "package": {"ecosystem": "PyPI", "name": "jinja2"}}, True),
        ({"version": "2.6", "package": {"ecosystem": "PyPI", "name": "jinja2"}}, False),
        ({"version": "2.4", "package": {"ecosystem": "npm", "name": "jinja2"}}, False),
        ({"package": {"purl": "pkg:pypi/Jinja2@2.5"}}, True),
        ({"package": {"purl": "pkg:pypi/jinja2@2.6"}}, False),
    ]:
        assert matches(parse_query(body), document) == found
        assert not matches(parse_query(body), document | {"withdrawn": "2026-01-01T00:00:00Z"})


def test_a_commit_of_a_range_matches_though_no_version_lists_it() -> None:
    events = [{"introduced": "0"}, {"last_affected": sha(5)}]
    document = {"id": "x", "affected": [{"ranges": [{"type": "GIT", "events": events}]}]}
    assert matches(Query(commit=sha(5)), document)
    assert not matches(Query(commit="0"), document)


@pytest.mark.parametrize(
    "url",
    [
        NAME,
        NAME + "/",
        NAME + ".git",
        NAME + ".git/",
        "http://huggingface.co/acme/tiny-llm",
        "huggingface.co/acme/tiny-llm",
        "ssh://git@HuggingFace.co/acme/tiny-llm.git",
    ],
)
def test_names_are_compared_by_host_and_path(url: str) -> None:
    assert normalized(url) == "huggingface.co/acme/tiny-llm"
