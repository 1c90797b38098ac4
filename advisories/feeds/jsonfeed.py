"""Entries as a JSON Feed (https://jsonfeed.org/version/1.1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from advisories.feeds.entries import Entry, Links, Scope, feed_title
from advisories.osv import timestamp

MEDIA_TYPE = "application/feed+json"


def jsonfeed(scope: Scope, entries: Sequence[Entry], links: Links) -> tuple[bytes, datetime | None]:
    """The feed as UTF-8 JSON, and when it last changed (None: never); the same entries give the same bytes."""
    feed: dict[str, Any] = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": feed_title(scope),
        "home_page_url": links.home(scope),
        "feed_url": links.self_url,
        "authors": [{"name": "hubwatch"}],
        "items": [
            {
                "id": item.id,
                "url": f"{links.site}/advisories/{item.advisory_id}",
                "title": item.title,
                "content_html": item.html,
                "date_published": timestamp(item.published),
                "date_modified": timestamp(item.updated),
                "tags": [item.cls, item.severity],
            }
            for item in entries
        ],
    }
    if links.next_url:
        feed["next_url"] = links.next_url
    body = json.dumps(feed, indent=1, ensure_ascii=False).encode("utf-8")
    return body, max((item.updated for item in entries), default=None)
