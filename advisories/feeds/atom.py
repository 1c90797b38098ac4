"""Entries as an Atom feed (RFC 4287)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from feedgen.feed import FeedGenerator

from advisories.feeds.entries import Entry, Links, Scope, feed_title, feed_urn

MEDIA_TYPE = "application/atom+xml"
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)  # Atom wants a date even where nothing has happened


def atom(scope: Scope, entries: Sequence[Entry], links: Links) -> tuple[bytes, datetime | None]:
    """The feed as UTF-8 XML, and when it last changed (None: never).

    The same entries give the same bytes. Advisories are linked on the host of the feed; pages are those of
    RFC 5005, section 3.
    """
    updated = max((item.updated for item in entries), default=None)
    feed = FeedGenerator()
    feed.id(feed_urn(scope))
    feed.title(feed_title(scope))
    feed.updated(updated or _NEVER)
    feed.generator("hubwatch")
    feed.author({"name": "hubwatch"})
    feed.link(href=links.self_url, rel="self", type=MEDIA_TYPE)
    feed.link(href=links.home(scope), rel="alternate", type="text/html")
    feed.link(href=links.first_url, rel="first", type=MEDIA_TYPE)
    if links.next_url:
        feed.link(href=links.next_url, rel="next", type=MEDIA_TYPE)
    for item in entries:
        made = feed.add_entry(order="append")
        made.id(item.id)
        made.title(item.title)
        made.link(href=f"{links.site}/advisories/{item.advisory_id}", rel="alternate")
        made.published(item.published)
        made.updated(item.updated)
        made.category([{"term": item.cls}, {"term": item.severity}])
        made.content(item.html, type="html")
    return feed.atom_str(pretty=True), updated
