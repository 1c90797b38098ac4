"""What a feed holds: one entry an advisory, the same in every format."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from urllib.parse import urlsplit

from advisories.advice import advice
from advisories.osv import status, summary
from advisories.policy import Policy
from advisories.rules.registry import rule_of
from advisories.text import one_line, xml_text
from storage import advisories
from storage.database import Transaction
from storage.model import Advisory, RepoRef, Severity, Span

NO_POLICY = Policy()
_CHANGES = 20  # changes listed in an entry
_STATES = {"closed": "no longer so on the newest revision", "ended": "ended", "withdrawn": "withdrawn"}

# A feed is about a repo, about all repos of an owner, or about everything that is watched.
Scope = RepoRef | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One advisory in a feed.

    ``updated`` is when we saw it open, close or come back; a longer list of affected commits does not move
    it. ``id`` is a URN that stays the same wherever the feed is served from. ``html`` is safe to show.
    """

    id: str
    advisory_id: str
    repo: RepoRef
    title: str
    html: str
    severity: str
    cls: str
    published: datetime
    updated: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a feed. ``older``, an event's number, goes on behind it; None on the last page."""

    entries: tuple[Entry, ...]
    older: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where a feed is served: this page of it, its first page, and the next one with older entries."""

    self_url: str
    first_url: str
    next_url: str | None = None

    @property
    def site(self) -> str:
        """Scheme and host: where the advisories are served, too."""
        return site_of(self.self_url)

    def home(self, scope: Scope) -> str:
        """The page of what a feed is about."""
        return f"{self.site}/models/{scope.id}" if isinstance(scope, RepoRef) else f"{self.site}/"


def page_of(
    tx: Transaction,
    repo: RepoRef | None = None,
    *,
    owner: str | None = None,
    min_severity: Severity | None = None,
    cls: str | None = None,
    public_only: bool = False,
    before: int | None = None,
    limit: int = 50,
    policy: Policy = NO_POLICY,
    at: datetime | None = None,
) -> Page:
    """A page of a feed, the latest to open or close first: of a repo, of an owner's repos, or of all.

    An advisory has one entry, at the last thing that happened to it. ``before`` is the ``older`` of the page
    before this one: what happens in between moves nothing on the pages behind it. ``policy`` is what the
    house silences, raises or lowers; a page may then hold less than ``limit``.
    """
    now = at or datetime.now(UTC)
    found = advisories.recent_events(
        tx,
        repo=repo,
        owner=owner,
        min_severity=min_severity,
        cls=cls,
        public_only=public_only,
        last_only=True,
        before=before,
        limit=limit + 1,
    )
    shown = found[:limit]
    made = advisories.by_ids(tx, [item.event.advisory_id for item in shown])
    by_id = {item.id: seen for item in made if (seen := policy.apply(item, now)) is not None}
    return Page(
        entries=tuple(
            entry(by_id[item.event.advisory_id], item.at) for item in shown if item.event.advisory_id in by_id
        ),
        older=shown[-1].number if len(found) > limit else None,
    )


def entry(advisory: Advisory, updated: datetime) -> Entry:
    """An advisory as an entry, seen to change at ``updated``."""
    return Entry(
        id=urn(advisory.id),
        advisory_id=advisory.id,
        repo=advisory.repo,
        title=xml_text(f"[{advisory.severity.label}] {summary(advisory)}"),
        html=xml_text("\n".join(_body(advisory))),
        severity=advisory.severity.label,
        cls=advisory.cls,
        published=advisory.published,
        updated=max(updated, advisory.published),
    )


def urn(name: str) -> str:
    """A URN made from a name, the same everywhere."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"hubwatch:{name}").urn


def feed_urn(scope: Scope) -> str:
    """The URN of a feed by what it is about."""
    return urn(f"feed:{scope.url if isinstance(scope, RepoRef) else scope or 'all'}")


def feed_title(scope: Scope) -> str:
    """The title of a feed by what it is about."""
    if isinstance(scope, RepoRef):
        return f"{scope.id}: changes"
    return f"{one_line(scope, 100)}: changes" if scope else "hubwatch: changes of every watched repo"


def site_of(self_url: str) -> str:
    """Scheme and host of the feed's own address: where its advisories are served, too."""
    parts = urlsplit(self_url)
    return f"{parts.scheme}://{parts.netloc}"


def _body(advisory: Advisory) -> Iterator[str]:
    rule = rule_of(advisory.cls)
    yield f"<p>{_shown(rule.effect)}</p>"
    yield "<ul>"
    for item in advisory.findings[:_CHANGES]:
        change = item.finding.change
        where = f"<code>{_shown(change.path, 200)}</code>: " if change.path else ""
        ended = "" if item.holds else " (no longer so)"
        yield f"<li>{where}{_shown(change.summary, 300)}{ended}</li>"
    if len(advisory.findings) > _CHANGES:
        yield f"<li>and {len(advisory.findings) - _CHANGES} more</li>"
    yield "</ul>"
    yield f"<p><strong>What to do:</strong> {_shown(advice(advisory))}</p>"
    yield f"<p>{advisory.severity.osv}: {_shown(advisory.reason, 500)}. State: {_state(advisory)}.</p>"
    for span in advisory.spans:
        yield f"<p>{_span(advisory.repo, span)}</p>"
    if advisory.superseded_by:
        yield f"<p>The value changed again: {_shown(advisory.superseded_by)}</p>"


def _state(advisory: Advisory) -> str:
    stands = status(advisory)
    return _STATES.get(stands, stands)


def _span(repo: RepoRef, span: Span) -> str:
    began = "before what was read" if span.introduced == "0" else _commit(repo, span.introduced)
    if span.fixed:
        return f"From {began} until restored by {_commit(repo, span.fixed)}"
    if span.last_affected:
        return f"From {began} up to {_commit(repo, span.last_affected)}"
    return f"Since {began}"


def _commit(repo: RepoRef, sha: str) -> str:
    return f'<a href="{escape(repo.url)}/commit/{escape(sha)}"><code>{escape(sha[:7])}</code></a>'


def _shown(text: str, limit: int = 1000) -> str:
    return escape(one_line(text, limit))
