"""Advisories that follow no commit, opened and ended in one transaction with what was learned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from advisories.outbox import announcements
from advisories.rules.judge import judge_state
from advisories.states import end_state, open_state
from storage import advisories, outbox
from storage.database import Transaction
from storage.model import Advisory, AdvisoryAction, Change, Json, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A state that begins. ``key`` and ``sha`` make the advisory's id (`advisories.states.open_state`)."""

    change: Change
    key: str
    sha: str | None
    context: Mapping[str, Json] = field(default_factory=dict)


# Whether an open advisory's state has ended.
Ended = Callable[[Advisory], bool]


def write(
    tx: Transaction, watch: Watch, begun: Iterable[Begun], *, ended: Ended = lambda _: False, now: datetime
) -> int:
    """End and open a repo's state advisories, tell subscribers, and return how many were opened.

    What had ended is ended before anything begins, so that a state may follow another of its class.
    """
    state = {advisory.id: advisory for advisory in advisories.of_repo_state(tx, watch.repo)}
    steps = []
    for advisory in list(state.values()):
        if advisory.withdrawn is None and ended(advisory):
            key = str(advisory.context.get("state"))
            step = end_state(list(state.values()), cls=advisory.cls, now=now, key=key)
            state.update((item.id, item) for item in step.advisories)
            steps.append(step)
    for item in begun:
        step = open_state(
            list(state.values()),
            repo=watch.repo,
            ref=watch.ref,
            finding=judge_state(item.change),
            key=item.key,
            sha=item.sha,
            now=now,
            repo_created_at=watch.repo_created_at,
            context=item.context,
            taken=lambda advisory_id: advisories.has(tx, advisory_id),
        )
        state.update((advisory.id, advisory) for advisory in step.advisories)
        steps.append(step)
    for advisory_id in {item.id for step in steps for item in step.advisories}:
        advisories.save(tx, state[advisory_id])
    events = tuple(event for step in steps for event in step.events)
    advisories.record_events(tx, watch.repo, events, now=now)
    outbox.append(tx, announcements(watch.repo, events, state, now=now))
    opening = {AdvisoryAction.OPENED, AdvisoryAction.REINTRODUCED}
    return sum(event.action in opening for event in events)


def open_states(tx: Transaction, watch: Watch, cls: str) -> list[Advisory]:
    """The state advisories of a class that stand now."""
    return [
        item for item in advisories.of_repo_state(tx, watch.repo) if item.cls == cls and item.withdrawn is None
    ]
