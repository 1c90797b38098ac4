from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import feedparser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisories.feeds.atom import atom
from advisories.feeds.entries import Entry, Links, Scope, entry, page_of
from advisories.feeds.jsonfeed import jsonfeed
from storage import watches
from storage.database import Database
from storage.model import RepoRef, Severity
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, START, Story, finding

SELF = "http://127.0.0.1:8600/feeds/acme/tiny-llm.atom"


def links(url: str) -> Links:
    return Links(self_url=url, first_url=url)


@pytest.fixture
def kept(sqlite_database: Database) -> Kept:
    return Kept(sqlite_database)


def entries(kept: Kept, **options: Any) -> list[Entry]:
    options = options or {"repo": REPO}
    with kept.database.snapshot() as tx:
        return list(page_of(tx, **options).entries)


def parsed(found: list[Entry], scope: Scope = REPO) -> Any:
    body, _ = atom(scope, found, links(SELF))
    feed = feedparser.parse(body)
    assert not feed.bozo, feed.get("bozo_exception")
    return feed


def test_one_entry_an_advisory_the_latest_to_change_first(kept: Kept) -> None:
    kept.rope("A", "B", "C")
    feed = parsed(entries(kept))
    old, new = kept.story.of("B"), kept.story.of("C")
    assert feed.version == "atom10"
    assert feed.feed.title == "acme/tiny-llm: changes"
    assert {item.link for item in feed.entries} == {
        f"http://127.0.0.1:8600/advisories/{advisory.id}" for advisory in (old, new)
    }
    assert feed.entries[0].title.startswith("[high] acme/tiny-llm: config:rope")
    assert {tag.term for tag in feed.entries[0].tags} == {"config.rope", "high"}


def test_updated_is_when_it_was_seen_to_open_or_close(kept: Kept) -> None:
    clock = kept.story.clock
    kept.rope("A", "B")
    (opened,) = entries(kept)
    assert opened.published == opened.updated == clock(1)
    kept.rope("B", "B")
    (longer,) = entries(kept)
    assert longer == opened, "more affected commits are no news"
    kept.rope("A")
    (closed,) = entries(kept)
    assert (closed.id, closed.published, closed.updated) == (opened.id, clock(1), clock(4))
    assert "restored" in closed.title
    kept.rope("B")
    (again,) = entries(kept)
    assert (again.id, again.updated) == (opened.id, clock(5))


def test_ids_do_not_depend_on_where_the_feed_is_served(kept: Kept) -> None:
    kept.rope("A", "B")
    found = entries(kept)
    here, there = (
        feedparser.parse(atom(REPO, found, links(f"{site}/feeds/x.atom"))[0])
        for site in ("http://127.0.0.1:8600", "https://hubwatch.example")
    )
    assert here.feed.id == there.feed.id
    assert here.entries[0].id == there.entries[0].id
    assert here.entries[0].id.startswith("urn:uuid:")
    assert here.entries[0].link != there.entries[0].link


def test_scopes_and_severities(kept: Kept) -> None:
    info = finding("card:text", None, "b", cls="card.only", severity=Severity.INFO)
    kept.rope("A", "B").land({"config:rope": "B", "card:text": "b"}, findings=[info])
    assert len(entries(kept)) == 2
    assert len(entries(kept, owner="acme")) == 2
    assert len(entries(kept, limit=1)) == 1
    assert len(entries(kept, repo=REPO, min_severity=Severity.LOW)) == 1
    assert entries(kept, owner="other") == []
    assert entries(kept, repo=RepoRef(owner="acme", name="other")) == []
    assert parsed(entries(kept), "acme").feed.title == "acme: changes"
    assert parsed(entries(kept), None).feed.title == "hubwatch: changes of every watched repo"


def test_an_empty_feed_is_a_feed() -> None:
    body, updated = atom(REPO, [], links(SELF))
    assert updated is None
    assert not feedparser.parse(body).bozo
    assert body == atom(REPO, [], links(SELF))[0]


def test_the_same_entries_give_the_same_bytes(kept: Kept) -> None:
    kept.rope("A", "B", "C")
    assert atom(REPO, entries(kept), links(SELF)) == atom(REPO, entries(kept), links(SELF))


def told(text: str) -> Entry:
    """An entry whose every upstream text is ``text``."""
    advisory = Story().rope("A", "B").of("B")
    item = advisory.findings[0]
    change = replace(item.finding.change, summary=text, path=text)
    items = (replace(item, finding=replace(item.finding, change=change, reason=text)),)
    return entry(replace(advisory, findings=items, reason=text), datetime(2026, 5, 1, tzinfo=UTC))


HOSTILE = (
    "]]><script>alert('x')</script>&lt;b&gt; <a href=javascript:x>"
    " \x00\x07\x1b]0;t\x07 \u202e \ud800 \uffff \U000e0041"
)


def test_hostile_text_is_shown_and_does_nothing() -> None:
    feed = parsed([told(HOSTILE)])
    html = feed.entries[0].content[0].value
    assert "<script" not in html
    assert "javascript:x&gt;" in html
    assert "\u202e" not in html
    assert "\\u{202e}" in feed.entries[0].title


@given(st.text(alphabet=st.characters(), max_size=300))
@settings(max_examples=80)
def test_whatever_a_title_holds_the_feeds_are_well_formed(text: str) -> None:
    item = told(text)
    parsed([item])
    body, _ = jsonfeed(REPO, [item], links(SELF))
    assert json.loads(body.decode("utf-8"))["items"][0]["title"] == item.title


def test_json_feed(kept: Kept) -> None:
    kept.rope("A", "B", "A")
    body, updated = jsonfeed(REPO, entries(kept), links(SELF.replace(".atom", ".json")))
    feed = json.loads(body)
    assert updated == kept.story.clock(2)
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert feed["feed_url"].endswith(".json")
    (item,) = feed["items"]
    assert item["url"] == f"http://127.0.0.1:8600/advisories/{kept.story.of('B').id}"
    assert item["date_published"] < item["date_modified"]
    assert item["tags"] == ["config.rope", "high"]


def test_pages_hold_every_advisory_once_though_more_happens_in_between(kept: Kept) -> None:
    kept.rope("A", "B", "C", "D", "E")
    with kept.database.snapshot() as tx:
        first = page_of(tx, REPO, limit=2)
    kept.rope("F")  # opens one and closes one
    with kept.database.snapshot() as tx:
        second = page_of(tx, REPO, limit=2, before=first.older)
        whole = page_of(tx, REPO, limit=50)
    shown = [item.advisory_id for item in (*first.entries, *second.entries)]
    assert len(set(shown)) == len(shown) == 4
    assert second.older is None
    assert len(whole.entries) == 5


def test_pages_are_linked(kept: Kept) -> None:
    kept.rope("A", "B")
    places = Links(self_url=SELF, first_url=SELF, next_url=f"{SELF}?cursor=x&class=a.b")
    feed = feedparser.parse(atom(REPO, entries(kept), places)[0])
    assert {link.rel: link.href for link in feed.feed.links} == {
        "self": SELF,
        "alternate": f"http://127.0.0.1:8600/models/{REPO.id}",
        "first": SELF,
        "next": f"{SELF}?cursor=x&class=a.b",
    }
    assert json.loads(jsonfeed(REPO, entries(kept), places)[0])["next_url"] == places.next_url


def test_filters_by_class_and_what_is_not_for_everybody(kept: Kept) -> None:
    kept.land({"config:rope": "A", "config:eos": "1"})
    kept.land({"config:rope": "B", "config:eos": "2"})
    assert [item.cls for item in entries(kept, cls="tokens.eos")] == ["tokens.eos"]
    assert len(entries(kept, public_only=True)) == 2
    with kept.database.transaction() as tx:
        watches.add(tx, REPO, now=START, restricted=True)
    assert entries(kept, public_only=True) == []
