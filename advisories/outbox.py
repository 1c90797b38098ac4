"""Which events of a revision are to be told to subscribers, and under which key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from storage.model import Advisory, AdvisoryEvent, OutboxItem, RepoRef, Severity


def announcements(
    repo: RepoRef, events: Iterable[AdvisoryEvent], advisories: Mapping[str, Advisory], *, now: datetime
) -> tuple[OutboxItem, ...]:
    """One item an event; `info` is kept in history and feeds but never sent.

    The payload has what filters ask for. The key is unique by content, so that landing a revision again adds
    nothing: it holds the advisory, what happened, and the commit; a state of the repo has no commit and may
    come and go many times, so there it holds the moment.
    """
    return tuple(
        OutboxItem(
            key=f"{event.advisory_id}:{event.action}:{event.sha or now.astimezone(UTC).isoformat()}",
            kind=f"advisory.{event.action}",
            repo=repo,
            payload={
                "advisory": event.advisory_id,
                "action": str(event.action),
                "sha": event.sha,
                "class": advisories[event.advisory_id].cls,
                "severity": advisories[event.advisory_id].severity.label,
            },
            created_at=now,
        )
        for event in events
        if advisories[event.advisory_id].severity > Severity.INFO
    )


def new_repo(repo: RepoRef, *, now: datetime) -> OutboxItem:
    """A repo that appeared under a watched owner: one message, whatever its history holds."""
    return OutboxItem(key=f"repo.new:{repo.url}", kind="repo.new", repo=repo, payload={}, created_at=now)
