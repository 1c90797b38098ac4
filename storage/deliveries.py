"""What waits to be told to each subscription, the messages made of it, and how sending them went.

    outbox  ->  notices (one for each subscription that wants the item)  ->  deliveries  ->  attempts

An item leaves the outbox in the transaction that writes its notices, and a notice goes in the transaction
that writes the delivery it is part of: nothing is lost or doubled by a crash between the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, exists, func, insert, select, update

from storage.database import Transaction
from storage.errors import NotFound
from storage.model import Attempt, Delivery, DeliveryState, Json, Notice, OutboxItem
from storage.rows import REPO_COLUMNS, chunks, ensure_repo, insert_missing, repo_of
from storage.tables import deliveries, delivery_attempts, notices, repos

# --- what waits ----------------------------------------------------------------------------------


def queue(tx: Transaction, subscription_id: str, waiting: Iterable[Notice]) -> int:
    """Let a subscription wait for these items; returns how many it did not wait for already."""
    return sum(
        insert_missing(
            tx,
            notices,
            {
                "subscription_id": subscription_id,
                "number": notice.number,
                "key": notice.item.key,
                "kind": notice.item.kind,
                "repo_id": ensure_repo(tx, notice.item.repo),
                "payload": dict(notice.item.payload),
                "created_at": notice.item.created_at,
            },
        )
        for notice in waiting
    )


def waiting(tx: Transaction, subscription_id: str) -> list[Notice]:
    """What a subscription is still to be told, in the order observed."""
    query = (
        select(notices, *REPO_COLUMNS)
        .join(repos, repos.c.id == notices.c.repo_id)
        .where(notices.c.subscription_id == subscription_id)
        .order_by(notices.c.number)
    )
    return [Notice(number=row.number, item=_item(row)) for row in tx.execute(query)]


def backlog(tx: Transaction) -> dict[str, tuple[int, int]]:
    """By id of each subscription that waits for anything: how many items, and the newest one's number."""
    query = select(notices.c.subscription_id, func.count(), func.max(notices.c.number)).group_by(
        notices.c.subscription_id
    )
    return {subscription_id: (count, newest) for subscription_id, count, newest in tx.execute(query)}


def add(
    tx: Transaction,
    subscription_id: str,
    *,
    message_id: str,
    lane: str,
    body: Mapping[str, Json],
    numbers: Iterable[int],
    now: datetime,
) -> None:
    """Turn waiting notices into one message, to be sent at once."""
    tx.execute(
        insert(deliveries).values(
            subscription_id=subscription_id,
            message_id=message_id,
            lane=lane,
            body=dict(body),
            state=DeliveryState.PENDING.value,
            attempts=0,
            created_at=now,
            next_at=now,
        )
    )
    for chunk in chunks(numbers):
        tx.execute(
            delete(notices).where(notices.c.subscription_id == subscription_id, notices.c.number.in_(chunk))
        )


# --- sending -------------------------------------------------------------------------------------


def due(
    tx: Transaction, subscription_id: str, now: datetime, limit: int, *, untried_since: int | None = None
) -> list[Delivery]:
    """The messages to send now: of each lane its oldest one not done, if its time has come; oldest first.

    With ``untried_since``, a number of `last_attempt`, no time is waited for: due is what was not tried after it.
    """
    heads = _heads().where(deliveries.c.subscription_id == subscription_id)
    query = (
        select(deliveries)
        .where(deliveries.c.id.in_(heads), _come(now, untried_since))
        .order_by(deliveries.c.next_at, deliveries.c.id)
        .limit(limit)
    )
    return [_delivery(row) for row in tx.execute(query)]


def subscriptions_due(tx: Transaction, now: datetime, *, untried_since: int | None = None) -> list[str]:
    """The ids of subscriptions that have a message to send now; ``untried_since`` as for `due`."""
    query = (
        select(deliveries.c.subscription_id)
        .where(deliveries.c.id.in_(_heads()), _come(now, untried_since))
        .distinct()
    )
    return sorted(tx.scalars(query))


def last_attempt(tx: Transaction) -> int:
    """The number of the newest attempt of all; 0 where there was none. Later ones have higher numbers."""
    return tx.scalar(select(func.max(delivery_attempts.c.id))) or 0


def tried(tx: Transaction, since: int) -> dict[DeliveryState, int]:
    """How many messages that were tried after an attempt's number stand in each state."""
    query = select(deliveries.c.state, func.count()).where(_tried_after(since)).group_by(deliveries.c.state)
    return {DeliveryState(state): number for state, number in tx.execute(query)}


def _come(now: datetime, untried_since: int | None) -> ColumnElement[bool]:
    return deliveries.c.next_at <= now if untried_since is None else ~_tried_after(untried_since)


def _tried_after(number: int) -> ColumnElement[bool]:
    return exists().where(delivery_attempts.c.delivery_id == deliveries.c.id, delivery_attempts.c.id > number)


def _heads() -> Select[tuple[int]]:
    """The first message of each lane that is not done: it holds up those behind it, and no other lane."""
    return (
        select(func.min(deliveries.c.id))
        .where(deliveries.c.state == DeliveryState.PENDING.value)
        .group_by(deliveries.c.subscription_id, deliveries.c.lane)
    )


def record(
    tx: Transaction, delivery: Delivery, attempt: Attempt, *, state: DeliveryState, next_at: datetime
) -> None:
    """Keep how an attempt went and what becomes of the message."""
    tx.execute(
        insert(delivery_attempts).values(
            delivery_id=delivery.number,
            at=attempt.at,
            delivered=attempt.delivered,
            status=attempt.status,
            error=attempt.error,
            milliseconds=attempt.milliseconds,
        )
    )
    tx.execute(
        update(deliveries)
        .where(deliveries.c.id == delivery.number)
        .values(
            state=state.value,
            attempts=delivery.attempts + 1,
            next_at=next_at,
            done_at=None if state is DeliveryState.PENDING else attempt.at,
            status=attempt.status,
            error=attempt.error,
        )
    )


def bury(tx: Transaction, subscription_id: str, *, reason: str, now: datetime) -> int:
    """Make dead letters of all that a subscription has still to get; returns how many messages."""
    return tx.execute(
        update(deliveries)
        .where(deliveries.c.subscription_id == subscription_id, deliveries.c.state == DeliveryState.PENDING.value)
        .values(state=DeliveryState.DEAD.value, done_at=now, error=reason)
    ).rowcount


def replay(
    tx: Transaction,
    subscription_id: str,
    *,
    now: datetime,
    since: datetime | None = None,
    states: Sequence[DeliveryState] = (DeliveryState.DELIVERED, DeliveryState.DEAD),
) -> int:
    """Send messages made since a time again, in their order, under their ids; returns how many."""
    query = update(deliveries).where(
        deliveries.c.subscription_id == subscription_id,
        deliveries.c.state.in_([state.value for state in states]),
    )
    if since is not None:
        query = query.where(deliveries.c.created_at >= since)
    again = {"state": DeliveryState.PENDING.value, "attempts": 0, "next_at": now, "done_at": None, "error": None}
    return tx.execute(query.values(**again)).rowcount


# --- the log -------------------------------------------------------------------------------------


def log(
    tx: Transaction,
    *,
    subscription_id: str | None = None,
    state: DeliveryState | None = None,
    limit: int | None = None,
    before: int | None = None,
) -> list[Delivery]:
    """Messages, newest first; ``before``, the number of the last one seen, continues a list."""
    query = select(deliveries).order_by(deliveries.c.id.desc()).limit(limit)
    if subscription_id is not None:
        query = query.where(deliveries.c.subscription_id == subscription_id)
    if state is not None:
        query = query.where(deliveries.c.state == state.value)
    if before is not None:
        query = query.where(deliveries.c.id < before)
    return [_delivery(row) for row in tx.execute(query)]


def get(tx: Transaction, message_id: str) -> Delivery:
    """A message by its id; raises NotFound."""
    row = tx.execute(select(deliveries).where(deliveries.c.message_id == message_id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no message {message_id[:80]!r}", help="run: hubwatch subscribe log")
    return _delivery(row)


def attempts(tx: Transaction, numbers: Iterable[int]) -> dict[int, list[Attempt]]:
    """By delivery number, every try to send it, oldest first; every number asked for is a key."""
    found: dict[int, list[Attempt]] = {number: [] for number in numbers}
    for chunk in chunks(found):
        query = select(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(chunk))
        for row in tx.execute(query.order_by(delivery_attempts.c.id)).all():
            found[row.delivery_id].append(
                Attempt(
                    at=row.at,
                    delivered=row.delivered,
                    status=row.status,
                    error=row.error,
                    milliseconds=row.milliseconds,
                )
            )
    return found


def counts(tx: Transaction) -> dict[str, dict[str, int]]:
    """By subscription id, how many messages stand in each state, and how many items still wait."""
    found: dict[str, dict[str, int]] = {}
    by_state = select(deliveries.c.subscription_id, deliveries.c.state, func.count()).group_by(
        deliveries.c.subscription_id, deliveries.c.state
    )
    for subscription_id, state, number in tx.execute(by_state):
        found.setdefault(subscription_id, {})[state] = number
    for subscription_id, (number, _) in backlog(tx).items():
        found.setdefault(subscription_id, {})["waiting"] = number
    return found


def prune(tx: Transaction, done_before: datetime) -> int:
    """Drop messages sent or given up before a time, with their attempts; returns how many."""
    old = select(deliveries.c.id).where(deliveries.c.done_at < done_before)
    tx.execute(delete(delivery_attempts).where(delivery_attempts.c.delivery_id.in_(old)))
    return tx.execute(delete(deliveries).where(deliveries.c.done_at < done_before)).rowcount


def _item(row: Row[Any]) -> OutboxItem:
    return OutboxItem(
        key=row.key, kind=row.kind, repo=repo_of(row), payload=row.payload, created_at=row.created_at
    )


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        number=row.id,
        subscription_id=row.subscription_id,
        message_id=row.message_id,
        lane=row.lane,
        body=row.body,
        state=DeliveryState(row.state),
        attempts=row.attempts,
        created_at=row.created_at,
        next_at=row.next_at,
        done_at=row.done_at,
        status=row.status,
        error=row.error,
    )
