"""Making subscriptions and showing them: what the command line and the API share."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from advisories.deliver import Deliverer
from advisories.notify.interface import CHAT_SCHEMES, CannotSend, Target
from advisories.notify.registry import notifier_of, shown
from advisories.notify.secrets import is_reference, new_secret, reveal
from advisories.rules.registry import rule_of
from storage import deliveries, subscriptions
from storage.database import Database
from storage.errors import UsageError
from storage.model import (
    Attempt,
    Delivery,
    DeliveryState,
    Digest,
    Json,
    QuietHours,
    RepoRef,
    Severity,
    Subscription,
    valid_owner,
)
from tracker.settings import Settings

LONGEST_SETTLE = timedelta(days=1)
_MOST_FILTERS = 1000
_TURNS = 20  # times that a receiver with much to hear is taken up again


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants to be told, and how. ``secret`` None: make one, where the way of sending signs."""

    url: str
    secret: str | None = None
    min_severity: Severity = Severity.LOW
    classes: Sequence[str] = ()
    repos: Sequence[str] = ()
    digest: Digest = Digest.INSTANT
    settle: timedelta = timedelta(minutes=15)
    quiet: QuietHours | None = None
    timezone: str = "UTC"
    allow_private: bool = False


def add(
    database: Database,
    wish: Wish,
    *,
    now: datetime,
    schemes: frozenset[str] = frozenset(CHAT_SCHEMES),
    remote: bool = False,
) -> tuple[Subscription, str | None]:
    """Keep a new subscription; also returns the secret that was made for it, to be shown once.

    ``remote`` is for wishes that come over the network: webhooks to public addresses only, with a secret made
    by us. Raises UsageError for what can never work or is not allowed.
    """
    notifier = notifier_of(wish.url)
    if remote and (not notifier.signs or wish.allow_private or wish.secret):
        raise UsageError(
            "over the network only webhooks to public addresses can be added, signed with a secret made here",
            help="use the command line: hubwatch subscribe add",
        )
    secret = _secret(wish.secret, signs=notifier.signs)
    notifier.check(Target(url=wish.url, secret=secret, allow_private=wish.allow_private, schemes=schemes))
    subscription = Subscription(
        id=f"sub_{secrets.token_hex(6)}",
        url=wish.url,
        secret=secret,
        min_severity=wish.min_severity,
        classes=frozenset(rule_of(cls).cls for cls in _few(wish.classes, "classes")),
        repos=tuple(dict.fromkeys(_pattern(text) for text in _few(wish.repos, "repos"))),
        digest=wish.digest,
        settle=_settle(wish.settle),
        quiet=wish.quiet,
        timezone=_zone(wish.timezone),
        allow_private=wish.allow_private,
        created_at=now,
    )
    with database.transaction() as tx:
        subscriptions.add(tx, subscription)
    made = secret if secret is not None and not is_reference(secret) else None
    return subscription, made


def send_due(
    settings: Settings, database: Database, *, clock: Callable[[], datetime], at_once: bool = False
) -> dict[str, int]:
    """Send what is due to every subscription, once; with ``at_once`` all that is neither sent nor given up.

    Gives how many messages were taken (``delivered``), not taken (``failed``: they are tried again) and given up
    (``dead``) now; how many were not tried, since their next try is not due or an earlier one of their repo stands
    before them (``held``); and how many events are in no message yet (``waiting``).
    """
    with database.snapshot() as tx:
        before, since = deliveries.counts(tx), deliveries.last_attempt(tx)
    deliverer = Deliverer(
        database,
        clock,
        schemes=frozenset(settings.notify.schemes),
        threads=settings.notify.threads,
        policy=settings.house_policy,
        patient=not at_once,
    )
    try:
        for _ in range(_TURNS):
            if not deliverer.tick():
                break
            deliverer.settle()
    finally:
        deliverer.stop()
    with database.snapshot() as tx:
        after, tried = deliveries.counts(tx), deliveries.tried(tx, since)

    def total(counts: dict[str, dict[str, int]], state: str) -> int:
        return sum(counted.get(state, 0) for counted in counts.values())

    failed = tried.get(DeliveryState.PENDING, 0)
    return {
        "delivered": tried.get(DeliveryState.DELIVERED, 0),
        "failed": failed,
        "dead": max(total(after, "dead") - total(before, "dead"), 0),
        "held": total(after, "pending") - failed,
        "waiting": total(after, "waiting"),
    }


def parse_quiet(text: str) -> QuietHours:
    """Read ``22:00-07:00``; raises UsageError."""
    begins, _, ends = text.strip().partition("-")
    try:
        return QuietHours(begins=time.fromisoformat(begins), ends=time.fromisoformat(ends))
    except ValueError:
        raise UsageError(f"{text[:40]!r} is no span of the day", help="write 22:00-07:00") from None


def _secret(given: str | None, *, signs: bool) -> str | None:
    """The secret to keep: our own, or where a person keeps theirs; never one that was given in plain."""
    if not signs:
        if given:
            raise UsageError("only webhooks are signed", help="leave --secret out")
        return None
    if given is None:
        return new_secret()
    reference = given if is_reference(given) else f"file:{Path(given).expanduser().absolute()}"
    if given.startswith("whsec_") or not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.{1,1000}", reference):
        raise UsageError(
            "a secret is given by where it is kept", help="write env:NAME or the path of a file of mode 600"
        )
    try:
        reveal(reference)
    except CannotSend as error:
        raise UsageError(error.message, help=error.help) from None
    return reference


def _few(values: Sequence[str], what: str) -> Sequence[str]:
    if len(values) > _MOST_FILTERS:
        raise UsageError(f"more than {_MOST_FILTERS} {what}", help="leave the filter out to be told of all")
    return values


def _pattern(text: str) -> str:
    if text.endswith("/*") and valid_owner(text.removesuffix("/*")):
        return text
    return RepoRef.parse(text).id


def _settle(span: timedelta) -> timedelta:
    if not timedelta(0) <= span <= LONGEST_SETTLE:
        raise UsageError("the settle window is at most a day", help="for longer use --digest daily")
    return span


def _zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"{name[:60]!r} is no time zone", help="write a name such as Europe/Berlin") from None


# --- as JSON -------------------------------------------------------------------------------------


def subscription_json(subscription: Subscription, counts: dict[str, int] | None = None) -> dict[str, Json]:
    """A subscription without anything secret; ``counts`` as `storage.deliveries.counts` gives them."""
    quiet = subscription.quiet
    return {
        "id": subscription.id,
        "url": shown(subscription.url),
        "kind": notifier_of(subscription.url).name,
        "secret": _told_secret(subscription.secret),
        "min_severity": subscription.min_severity.label,
        "classes": sorted(subscription.classes),
        "repos": list(subscription.repos),
        "digest": subscription.digest.value,
        "settle_seconds": subscription.settle.total_seconds(),
        "quiet": f"{quiet.begins:%H:%M}-{quiet.ends:%H:%M}" if quiet else None,
        "timezone": subscription.timezone,
        "allow_private": subscription.allow_private,
        "created_at": subscription.created_at.isoformat(),
        "disabled_at": _iso(subscription.disabled_at),
        "disabled_reason": subscription.disabled_reason,
        "messages": {key: (counts or {}).get(key, 0) for key in ("waiting", "pending", "delivered", "dead")},
    }


def delivery_json(delivery: Delivery, attempts: Sequence[Attempt], *, body: bool = False) -> dict[str, Any]:
    """A message and how sending it went; with ``body`` also what it says."""
    made: dict[str, Any] = {
        "number": delivery.number,
        "message_id": delivery.message_id,
        "subscription": delivery.subscription_id,
        "type": delivery.body.get("type"),
        "title": delivery.body.get("data", {}).get("title"),
        "state": delivery.state.value,
        "attempts": [
            {
                "at": attempt.at.isoformat(),
                "delivered": attempt.delivered,
                "status": attempt.status,
                "error": attempt.error,
                "milliseconds": attempt.milliseconds,
            }
            for attempt in attempts
        ],
        "created_at": delivery.created_at.isoformat(),
        "next_at": delivery.next_at.isoformat() if delivery.done_at is None else None,
        "done_at": _iso(delivery.done_at),
        "status": delivery.status,
        "error": delivery.error,
    }
    return made | ({"body": dict(delivery.body)} if body else {})


def _told_secret(secret: str | None) -> str | None:
    if secret is None:
        return None
    return secret if is_reference(secret) else "kept"


def _iso(when: datetime | None) -> str | None:
    return when.isoformat() if when else None
