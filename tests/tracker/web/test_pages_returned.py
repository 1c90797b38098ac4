"""What is put back is no news; what has ended says so; what is not here is a page of the site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from storage import changes, history, watches
from storage.database import Database
from storage.errors import StorageError
from storage.model import Landing, Manifest, Severity
from tests.advisories.story import REPO, Story, differences, finding, revision, sha
from tests.tracker.web.conftest import NOW, Site
from tests.tracker.web.test_pages import HERE, HTML, get
from tracker.web.pages.returned import closes, fresh_worst


def landed(database: Database, *chain: Mapping[str, str | None]) -> Story:
    """A story whose revisions are kept with the changes that made it, seen within the last day."""
    story = Story()
    for values in chain:
        number, made = story.position, differences(story.values, values) if story.position else []
        step = story.land(values)
        with database.transaction() as tx:
            history.land(
                tx,
                Landing(
                    repo=REPO,
                    ref="main",
                    revision=revision(number),
                    observed_at=NOW - timedelta(hours=2),
                    backfill=False,
                    manifest=Manifest(files={}),
                    gaps=(),
                    findings=tuple(made),
                    estimate=None,
                    advisories=step.advisories,
                    events=step.events,
                ),
            )
    return story


def rope(value: str, **more: str) -> dict[str, str | None]:
    return {"config:rope": value, **{f"config:{name}": text for name, text in more.items()}}


@pytest.fixture
def reverted(database: Database) -> tuple[Site, Story]:
    """A, B, A: the last one puts back what was there first."""
    story = landed(database, rope("A"), rope("B"), rope("A"))
    return Site(database), story


def test_a_revert_is_marked_as_put_back_with_what_it_closes(reverted: tuple[Site, Story]) -> None:
    site, story = reverted
    closed = story.of("B").id
    for path in ("/", HERE, f"{HERE}/changes", "/?q=rope"):
        page = get(site, path)
        assert "put back" in page.text, path
        assert f"/advisories/{closed}" in page.links, path
    for path in ("/", HERE, "/?q=rope"):
        told = get(site, path).text
        assert f"closes {closed}" in told, path
        back = told.partition("config:rope B -> A")[0]
        assert back.rstrip().endswith(("put back acme/tiny-llm", "put back config.rope", "config.json/rope")), back
        assert "high acme/tiny-llm config:rope B -> A" not in told
    assert "high acme/tiny-llm config:rope A -> B" in get(site, "/").text  # that was news, and stays what it was


def test_the_timeline_does_not_colour_what_is_put_back(reverted: tuple[Site, Story]) -> None:
    site, _ = reverted
    entries = [
        attrs["class"] for tag, attrs in get(site, f"{HERE}/changes").tags if tag == "li" and "class" in attrs
    ]
    assert entries == ["", "high", ""]  # newest first; the first revision has no change


def test_what_comes_with_a_revert_and_is_new_stays_news(database: Database) -> None:
    landed(database, rope("A", pad="0"), rope("B", pad="0"), rope("A", pad="1"))
    told = get(Site(database), "/").text
    assert "put back acme/tiny-llm config:rope B -> A" in told
    assert "high acme/tiny-llm config:pad 0 -> 1" in told


def test_a_third_value_puts_nothing_back(database: Database) -> None:
    landed(database, rope("A"), rope("B"), rope("C"))
    site = Site(database)
    assert "put back" not in get(site, "/").text
    assert "put back" not in get(site, f"{HERE}/changes").text


def test_what_a_finding_closes_is_about_its_own_value(database: Database) -> None:
    closed = [landed(database, rope("A"), rope("B"), rope("A")).of("B")]
    back, other = finding("config:rope", "B", "A"), finding("config:pad", "0", "1", severity=Severity.LOW)
    assert closes(back, closed) == [closed[0].id]
    assert closes(finding("config:rope", "A", "B"), closed) == []  # the value that was warned of
    assert closes(replace(back, change=replace(back.change, facet="")), closed) == []
    assert fresh_worst([back, other], closed) is Severity.LOW
    assert fresh_worst([back], closed) is None


# --- advisories that ended -----------------------------------------------------------------------


def test_a_closed_advisory_says_what_that_means_and_what_to_move_to(reverted: tuple[Site, Story]) -> None:
    site, story = reverted
    page = get(site, f"/advisories/{story.of('B').id}")
    assert f'revision="{sha(2)}"' in page.text
    assert f'revision="{sha(0)}"' not in page.text  # what was advised while it was open
    assert f"Closed: revision {sha(2)[:7]} put back what was there before." in page.text
    assert f"{HERE}/compare/{sha(0)}...{sha(2)}" in page.links
    assert page.text.index("Put back at") < page.text.index(sha(2)) < page.text.index("While it was open")


def test_an_open_advisory_pins_the_revision_before_the_change(database: Database) -> None:
    story = landed(database, rope("A"), rope("B"))
    page = get(Site(database), f"/advisories/{story.of('B').id}")
    assert f'revision="{sha(0)}"' in page.text
    assert "Open: it is so at the newest revision read." in page.text
    assert "While it was open" not in page.text


def test_a_superseded_advisory_pins_nothing_and_names_what_came_in_its_place(database: Database) -> None:
    story = landed(database, rope("A"), rope("B"), rope("C"))
    page = get(Site(database), f"/advisories/{story.of('B').id}")
    assert 'revision="' not in page.text.partition("OSV document")[0]
    assert "to another one than before; another advisory tells what came in its place." in page.text
    assert f"/advisories/{story.of('C').id}" in page.links


# --- a paused watch ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", HERE, "/watches"])
def test_a_paused_watch_has_no_next_check(reverted: tuple[Site, Story], path: str) -> None:
    site, _ = reverted
    past = NOW - timedelta(days=3)
    with site.database.transaction() as tx:
        watch = watches.add(tx, REPO, now=NOW)
        watches.save(tx, replace(watch, next_check_at=past, checked_at=past))
    assert "due now" in get(site, path).text
    with site.database.transaction() as tx:
        watches.pause(tx, REPO)
    told = get(site, path).text
    assert "paused" in told
    assert "due now" not in told
    assert told.count("2026-05-29") == 1  # the last check alone


def test_an_interval_is_written_as_people_write_it(reverted: tuple[Site, Story]) -> None:
    site, _ = reverted
    with site.database.transaction() as tx:
        watches.add(tx, REPO, now=NOW, every=timedelta(hours=25))
    assert "25h" in get(site, "/watches").text


# --- refusals ------------------------------------------------------------------------------------


def test_an_unknown_address_is_a_page_for_browsers(site: Site) -> None:
    for path in ("/nope", "/models", "/models/a/b/c/d", "/advisories/", "/%00%E2%80%AE<script>"):
        page = get(site, path, status=404)
        assert "That is not here" in page.text
        assert "/style.css" in {attrs.get("href") for tag, attrs in page.tags if tag == "link"}
        plain = site.client.get(path)
        assert plain.headers["content-type"] == "application/problem+json"
        assert plain.status_code == 404
        assert "Accept" in plain.headers["vary"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/nope", 404),
        ("GET", "/api/v1/repos/no/such", 404),
        ("GET", "/hooks/nope", 404),
        ("GET", "/feeds/nope", 404),
        ("GET", "/osv/nope", 404),
        ("POST", "/healthz", 405),
        ("GET", "/api/v1/changes?limit=0", 422),
    ],
)
def test_what_is_for_programs_stays_a_problem_in_a_browser(
    site: Site, method: str, path: str, status: int
) -> None:
    answer = site.client.request(method, path, headers=HTML)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_osv_clients_are_refused_in_their_own_shape(site: Site) -> None:
    answer = site.client.get("/v1/vulns/nope", headers=HTML)
    assert (answer.status_code, answer.json()["code"]) == (404, 5)


def test_a_method_that_a_page_does_not_take_is_a_page(site: Site) -> None:
    answer = site.client.delete(HERE, headers=HTML)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert "That cannot be done here" in answer.text
    assert site.client.delete(HERE).headers["content-type"] == "application/problem+json"


def test_a_wrong_parameter_is_told_on_a_page(site: Site) -> None:
    page = get(site, f"{HERE}?profile=best", status=422)
    assert "That is not valid" in page.text
    assert "query.profile" in page.text


def test_a_defect_is_a_page_that_says_nothing_of_the_inside(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr(changes, "search", broken)
    page = get(site, "/", status=500)
    assert "Something is wrong with hubwatch" in page.text
    assert "secret inside" not in page.text
    answer = site.client.get("/", headers=HTML)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert site.client.get("/").json()["code"] == "defect"


def test_a_database_that_does_not_answer_is_a_page(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise StorageError("postgresql://user@host is away")

    monkeypatch.setattr(changes, "search", away)
    page = get(site, "/", status=503)
    assert "the database cannot be used now" in page.text
    assert "user@host" not in page.text
    assert site.client.get("/", headers=HTML).headers["retry-after"] == "10"
