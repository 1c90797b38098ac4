"""Who is told what: subscriptions, and the lease under which one process at a time sends to one."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

from sqlalchemy import Row, delete, insert, or_, select, update

from storage.database import Transaction
from storage.errors import NotFound
from storage.model import Digest, Json, QuietHours, Severity, Subscription
from storage.tables import deliveries, delivery_attempts, notices, subscriptions


def add(tx: Transaction, subscription: Subscription) -> None:
    """Keep a new subscription: it is told of what is observed from its ``created_at`` on."""
    quiet = subscription.quiet
    tx.execute(
        insert(subscriptions).values(
            id=subscription.id,
            url=subscription.url,
            secret=subscription.secret,
            min_severity=int(subscription.min_severity),
            classes=sorted(subscription.classes),
            repos=list(subscription.repos),
            digest=subscription.digest.value,
            settle=subscription.settle,
            quiet=[quiet.begins.isoformat(), quiet.ends.isoformat()] if quiet else None,
            timezone=subscription.timezone,
            allow_private=subscription.allow_private,
            created_at=subscription.created_at,
            disabled_at=subscription.disabled_at,
            disabled_reason=subscription.disabled_reason,
        )
    )


def get(tx: Transaction, subscription_id: str) -> Subscription | None:
    """A subscription by id; None when there is none."""
    row = tx.execute(select(subscriptions).where(subscriptions.c.id == subscription_id)).one_or_none()
    return _subscription(row) if row else None


def require(tx: Transaction, subscription_id: str) -> Subscription:
    """A subscription by id; raises NotFound."""
    found = get(tx, subscription_id)
    if found is None:
        raise NotFound(f"there is no subscription {subscription_id[:80]!r}", help="run: hubwatch subscribe list")
    return found


def list_all(tx: Transaction) -> list[Subscription]:
    """All subscriptions, oldest first, disabled ones included."""
    query = select(subscriptions).order_by(subscriptions.c.created_at, subscriptions.c.id)
    return [_subscription(row) for row in tx.execute(query)]


def remove(tx: Transaction, subscription_id: str) -> None:
    """Drop a subscription with all that waits for it and its delivery log. Raises NotFound."""
    require(tx, subscription_id)
    lock(tx, subscription_id)  # whoever is just adding to it comes first
    own = select(deliveries.c.id).where(deliveries.c.subscription_id == subscription_id)
    tx.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(own)))
    for table in (deliveries, notices):
        tx.execute(delete(table).where(table.c.subscription_id == subscription_id))
    tx.execute(delete(subscriptions).where(subscriptions.c.id == subscription_id))


def disable(tx: Transaction, subscription_id: str, *, reason: str, now: datetime) -> None:
    """Send nothing more to a subscription and collect nothing for it; the first reason stays."""
    tx.execute(
        update(subscriptions)
        .where(subscriptions.c.id == subscription_id, subscriptions.c.disabled_at.is_(None))
        .values(disabled_at=now, disabled_reason=reason)
    )


def enable(tx: Transaction, subscription_id: str) -> None:
    """Take a disabled subscription up again, for what is observed from now on. Raises NotFound."""
    require(tx, subscription_id)
    tx.execute(
        update(subscriptions)
        .where(subscriptions.c.id == subscription_id)
        .values(disabled_at=None, disabled_reason=None)
    )


def lock(tx: Transaction, subscription_id: str) -> Subscription | None:
    """Let one transaction at a time write a subscription's messages; None when it was removed."""
    query = select(subscriptions).where(subscriptions.c.id == subscription_id).with_for_update()
    row = tx.execute(query).one_or_none()
    return _subscription(row) if row else None


# --- leases --------------------------------------------------------------------------------------


def claim(tx: Transaction, subscription_id: str, holder: str, now: datetime, until: datetime) -> bool:
    """Take the right to send to a subscription if it is free or has run out; of many that try, one gets it."""
    free = or_(
        subscriptions.c.lease_until.is_(None),
        subscriptions.c.lease_until <= now,
        subscriptions.c.lease_holder == holder,
    )
    result = tx.execute(
        update(subscriptions)
        .where(subscriptions.c.id == subscription_id, subscriptions.c.disabled_at.is_(None), free)
        .values(lease_holder=holder, lease_until=until)
    )
    return result.rowcount == 1


def release(tx: Transaction, subscription_id: str, holder: str) -> None:
    """Give the right back; what another holder took over meanwhile is left alone."""
    tx.execute(
        update(subscriptions)
        .where(subscriptions.c.id == subscription_id, subscriptions.c.lease_holder == holder)
        .values(lease_holder=None, lease_until=None)
    )


def _quiet(value: Json) -> QuietHours | None:
    if value is None:
        return None
    begins, ends = map(time.fromisoformat, value)
    return QuietHours(begins=begins, ends=ends)


def _subscription(row: Row[Any]) -> Subscription:
    return Subscription(
        id=row.id,
        url=row.url,
        secret=row.secret,
        min_severity=Severity(row.min_severity),
        classes=frozenset(row.classes),
        repos=tuple(row.repos),
        digest=Digest(row.digest),
        settle=row.settle,
        quiet=_quiet(row.quiet),
        timezone=row.timezone,
        allow_private=row.allow_private,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
    )
