"""``/health``: how the installation stands, for people."""

from __future__ import annotations

import importlib.metadata
import platform
from collections import Counter

from fastapi import APIRouter, Response

from storage import budgets, catalog, deliveries, outbox, pauses, schema, watches
from tracker.estimate import classic, exact
from tracker.web.access import Reader
from tracker.web.context import Here
from tracker.web.pages.render import PageRoute, html

_OUTBOX = 1000
_QUOTAS = 20

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/health")
def health(web: Here, viewer: Reader) -> Response:
    """Queue, pauses the Hub asked for, errors, versions."""
    now = web.clock()
    hidden = viewer.public_only
    schema_version = schema.current(web.database)
    with web.database.snapshot() as tx:
        watched = watches.list_all(tx, public_only=hidden)
        owners = watches.owners(tx)
        known = catalog.repos_page(tx, watched=True, public_only=hidden)
        waiting = len(outbox.numbered(tx, _OUTBOX))
        counts: Counter[str] = Counter()
        for states in deliveries.counts(tx).values():
            counts.update(states)
        standing = pauses.standing(tx, now)
        quotas = [item for item in budgets.every(tx) if item.limit][:_QUOTAS]
    due = [item for item in watched if not item.paused and (item.next_check_at or item.created_at) <= now]
    failing = sorted((item for item in watched if item.errors), key=lambda item: -item.errors)
    versions = [
        ("hubwatch", importlib.metadata.version("hubwatch")),
        ("Python", platform.python_version()),
        ("Schema", schema_version or "none"),
        ("Estimator exact", exact.ESTIMATOR.version),
        ("Estimator classic", classic.VERSION),
        *((name, importlib.metadata.version(name)) for name in ("huggingface_hub", "tokenizers", "SQLAlchemy")),
    ]
    return html(
        "health.html",
        now=now,
        watched=len(watched),
        paused=sum(item.paused for item in watched),
        owners=len(owners),
        due=len(due),
        overdue=max((now - (item.next_check_at or item.created_at) for item in due), default=None),
        failing=failing[:50],
        revisions=sum(item.revisions for item in known),
        open=sum(item.open_advisories for item in known),
        waiting=f"{waiting} or more" if waiting == _OUTBOX else str(waiting),
        counts=counts,
        pauses=standing,
        quotas=[(item, item.spent_at(now), _share(item.spent_at(now), item.limit)) for item in quotas],
        share=web.settings.hub.budget_share,
        versions=versions,
    )


def _share(spent: int, limit: int) -> str:
    return f"{spent / limit:.0%}"
