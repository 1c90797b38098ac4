"""Entries as an Atom feed (RFC 4287)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from feedgen.feed import FeedGenerator

from advisories.feeds.entries import Entry, Scope, feed_title, feed_urn, site_of

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)  # Atom wants a date even where nothing has happened


def atom(scope: Scope, entries: Sequence[Entry], *, self_url: str) -> tuple[bytes, datetime | None]:
    """The feed as UTF-8 XML, and when it last changed (None: never).

    The same entries give the same bytes. ``self_url`` is the feed's own address; advisories are linked on
    the same host.
    """
    site = site_of(self_url)
    updated = max((item.updated for item in entries), default=None)
    feed = FeedGenerator()
    feed.id(feed_urn(scope))
    feed.title(feed_title(scope))
    feed.updated(updated or _NEVER)
    feed.generator("hubwatch")
    feed.author({"name": "hubwatch"})
    feed.link(href=self_url, rel="self", type="application/atom+xml")
    feed.link(href=f"{site}/", rel="alternate", type="text/html")
    for item in entries:
        made = feed.add_entry(order="append")
        made.id(item.id)
        made.title(item.title)
        made.link(href=f"{site}/advisories/{item.advisory_id}", rel="alternate")
        made.published(item.published)
        made.updated(item.updated)
        made.category([{"term": item.cls}, {"term": item.severity}])
        made.content(item.html, type="html")
    return feed.atom_str(pretty=True), updated
