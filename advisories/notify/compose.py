"""What a message says: the net effect of all it tells, and the single events behind it. Pure.

    {"type": ..., "timestamp": ..., "data": {"subscription", "title", "severity", "repos": [...], "events": [...]}}

Every entry of ``repos`` has ``repo``, ``url``, ``new`` and the advisories by net effect: ``opened``, ``closed``,
``undone`` (came and went within the message) and ``unchanged`` (went and came back).
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from advisories.advice import advice
from advisories.osv import status, summary, timestamp
from advisories.rules.registry import by_class
from advisories.view import clipped, plain
from storage.model import Advisory, AdvisoryAction, Change, Digest, Notice, RepoRef, Severity, Subscription

CHANGED = "advisories.changed"
DIGEST = "advisories.digest"
NEW_REPO = "repo.new"
TEST = "subscription.test"

_PATHS = 20  # paths, and changes, listed of an advisory
_OPENING = frozenset({AdvisoryAction.OPENED, AdvisoryAction.REINTRODUCED})


class Net(enum.StrEnum):
    """What is left of several events of one advisory."""

    OPENED = "opened"
    CLOSED = "closed"
    UNDONE = "undone"  # it was not open before and is not now
    UNCHANGED = "unchanged"  # it was open before and is so again


def net_effect(actions: Sequence[AdvisoryAction]) -> Net:
    """The net effect of what happened to one advisory, in order; there is at least one action."""
    was_open, is_open = actions[0] not in _OPENING, actions[-1] in _OPENING
    if was_open:
        return Net.UNCHANGED if is_open else Net.CLOSED
    return Net.OPENED if is_open else Net.UNDONE


def message_id(subscription_id: str, keys: Iterable[str]) -> str:
    """The id of the message that tells a subscription of these events: the same whenever it is worked out."""
    return "msg_" + hashlib.sha256("\n".join((subscription_id, *keys)).encode()).hexdigest()[:32]


def compose(
    subscription: Subscription,
    notices: Sequence[Notice],
    advisories: Mapping[str, Advisory],
    *,
    now: datetime,
) -> dict[str, Any]:
    """The body of one message.

    Args:
        subscription: Who is told.
        notices: What is told, in the order observed.
        advisories: The advisories that the notices speak of, as they stand now.
        now: When the message is made.

    """
    by_repo: dict[RepoRef, list[Notice]] = {}
    for notice in notices:
        by_repo.setdefault(notice.item.repo, []).append(notice)
    repos = [_repo(repo, group, advisories) for repo, group in by_repo.items()]
    grave = [Severity.parse(entry["severity"]) for repo in repos for net in Net for entry in repo[net]]
    data = {
        "subscription": subscription.id,
        "title": _title(repos),
        "severity": max(grave).label if grave else None,
        "repos": repos,
        "events": [_event(notice) for notice in notices],
    }
    return _body(_type(subscription, notices), now, data)


def test_body(subscription: Subscription, *, now: datetime) -> dict[str, Any]:
    """The body of a message that tells of nothing, to try out a receiver."""
    data: dict[str, Any] = {
        "subscription": subscription.id,
        "title": "hubwatch: a test message",
        "severity": None,
        "repos": [],
        "events": [],
    }
    return _body(TEST, now, data)


def _body(kind: str, now: datetime, data: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = plain({"type": kind, "timestamp": timestamp(now), "data": data})
    return body


def _type(subscription: Subscription, notices: Sequence[Notice]) -> str:
    if subscription.digest is not Digest.INSTANT:
        return DIGEST
    return NEW_REPO if all(notice.item.kind == NEW_REPO for notice in notices) else CHANGED


def _repo(repo: RepoRef, notices: Sequence[Notice], advisories: Mapping[str, Advisory]) -> dict[str, Any]:
    told: dict[str, list[Notice]] = {}
    for notice in notices:
        if notice.item.payload.get("advisory"):
            told.setdefault(str(notice.item.payload["advisory"]), []).append(notice)
    groups: dict[str, list[dict[str, Any]]] = {net.value: [] for net in Net}
    for advisory_id, group in told.items():
        actions = [AdvisoryAction(notice.item.payload["action"]) for notice in group]
        net = net_effect(actions)
        last = group[-1].item.payload
        groups[net].append(
            {
                "id": advisory_id,
                "class": last.get("class"),
                "severity": last.get("severity") or Severity.INFO.label,
                "how": actions[-1].value,
                "sha": last.get("sha"),
                **_about(advisories.get(advisory_id)),
            }
        )
    new = any(notice.item.kind == NEW_REPO for notice in notices)
    return {"repo": repo.id, "url": repo.url, "new": new, **groups}


def _about(advisory: Advisory | None) -> dict[str, Any]:
    """What an advisory says of itself; nothing when it is not here any more."""
    if advisory is None:
        return {"summary": ""}
    rule = by_class().get(advisory.cls)  # a class that an upgrade gave up must not hold up what waits
    paths = sorted({item.finding.change.path for item in advisory.findings} - {""})
    return {
        "class": advisory.cls,
        "severity": advisory.severity.label,
        "title": rule.title if rule else advisory.cls,
        "summary": summary(advisory) if rule else "",
        "status": status(advisory),
        "reason": clipped(advisory.reason),
        "advice": advice(advisory) if rule else "",
        "introduced": advisory.introduced or None,
        "last_known_before": advisory.predecessor,
        "superseded_by": advisory.superseded_by,
        "paths": [clipped(path, 200) for path in paths[:_PATHS]],
        "changes": [_change(item.finding.change) for item in advisory.findings[:_PATHS]],
    }


def _change(change: Change) -> dict[str, str | None]:
    pointer = None if change.pointer is None else clipped(change.pointer, 200)
    return {"path": clipped(change.path, 200), "pointer": pointer, "summary": clipped(change.summary, 300)}


def _event(notice: Notice) -> dict[str, Any]:
    item = notice.item
    return {
        "id": item.key,
        "type": item.kind,
        "repo": item.repo.id,
        "at": timestamp(item.created_at),
        "advisory": item.payload.get("advisory"),
        "action": item.payload.get("action"),
        "sha": item.payload.get("sha"),
    }


def _title(repos: Sequence[Mapping[str, Any]]) -> str:
    """One line: which repo, or how many, and how much of what."""
    parts = []
    new = sum(bool(repo["new"]) for repo in repos)
    if new:
        parts.append("new repo" if new == 1 else f"{new} new repos")
    for net, word in ((Net.OPENED, "opened"), (Net.CLOSED, "closed"), (Net.UNDONE, "undone")):
        entries = [entry for repo in repos for entry in repo[net]]
        if entries:
            worst = max(Severity.parse(entry["severity"]) for entry in entries)
            parts.append(f"{len(entries)} {word} (up to {worst.label})")
    unchanged = sum(len(repo[Net.UNCHANGED]) for repo in repos)
    if unchanged:
        parts.append(f"{unchanged} closed and opened again")
    head = repos[0]["repo"] if len(repos) == 1 else f"{len(repos)} repos"
    return f"{head}: {', '.join(parts)}"
