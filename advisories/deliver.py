"""Drain the outbox: hand each item to the subscriptions that want it, make messages of them, send those.

    outbox -> spread -> notices -> assemble -> deliveries -> send -> attempts

A tick never sends: it hands subscriptions with something due to threads of their own, so that a receiver that is
slow, down or hostile holds up nobody else. Sending to one subscription happens in one place at a time, under a
lease. A message is sent at least once: one that was sent while the process died is sent again, under the same id.

This is where a third party's failure ends: whatever happens to one subscription, the others go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import uuid4

import structlog

from advisories.notify.compose import compose, message_id, test_body
from advisories.notify.interface import CHAT_SCHEMES, Answer, Message, Target
from advisories.notify.plan import plan, ready, wants
from advisories.notify.registry import notifier_of
from advisories.policy import Policy
from storage import advisories, deliveries, outbox, subscriptions
from storage.database import Database, Transaction
from storage.errors import HubwatchError, StorageError, UsageError
from storage.model import Attempt, Delivery, DeliveryState, Notice, Subscription

RETRIES = (
    timedelta(seconds=5),
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
    timedelta(hours=12),
    timedelta(hours=24),
)
"""How long to wait after each failed attempt; when they are used up the message is a dead letter."""
LEASE = timedelta(seconds=90)
"""How long a process may send to a subscription without saying so again: longer than any one attempt."""
TURN_SECONDS = 30.0
"""After this long a subscription lets others have its thread; it is taken up again by the next tick."""
KEPT = timedelta(days=30)
"""How long messages that were sent or given up stay in the log, and can be replayed."""
_BATCH = 500
_HEADS = 20  # messages taken from the database at once

log = structlog.get_logger("hubwatch.deliver")


@dataclass(slots=True)
class Deliverer:
    """Tells subscribers. Any number of processes may run one on the same database."""

    database: Database
    clock: Callable[[], datetime]
    schemes: frozenset[str] = frozenset(CHAT_SCHEMES)
    threads: int = 16
    policy: Policy = field(default_factory=Policy)
    patient: bool = True
    """Whether settle windows, digests, quiet hours and the time between tries are waited for.

    Else all that waits is due now, and every message is tried once in this deliverer's life: where one is not
    taken, the later ones of its lane still stand behind it.
    """
    _pool: ThreadPoolExecutor = field(init=False, repr=False)
    _busy: dict[str, Future[None]] = field(init=False, repr=False, default_factory=dict)
    _guard: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)
    _stopping: threading.Event = field(init=False, repr=False, default_factory=threading.Event)
    _since: int | None = field(init=False, repr=False, default=None)  # attempts before it do not count as tries
    _pruned_at: datetime | None = field(init=False, repr=False, default=None)
    # by subscription: what it waited for when last looked at, and until when nothing of that is due
    _idle: dict[str, tuple[tuple[int, int], datetime]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Make the pool; its threads start with the first message."""
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="deliver")

    def tick(self) -> int:
        """Hand out what is new, make the messages that are due, start sending; returns how many were started.

        Raises StorageError when the database cannot be used; the next tick goes on from there.
        """
        self.spread()
        self.assemble()
        self._prune()
        with self.database.snapshot() as tx:
            if not self.patient and self._since is None:
                self._since = deliveries.last_attempt(tx)
            due = deliveries.subscriptions_due(tx, self.clock(), untried_since=self._since)
        return sum(self._start(subscription_id) for subscription_id in due)

    def settle(self, timeout: float | None = None) -> bool:
        """Wait for what is being sent; False when that took longer than ``timeout`` seconds."""
        with self._guard:
            running = list(self._busy.values())
        return not wait(running, timeout).not_done

    def stop(self, timeout: float = 30.0) -> bool:
        """Begin no more attempts and wait for those under way; what is left stays due."""
        self._stopping.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        return self.settle(timeout)

    # --- from the outbox to messages -------------------------------------------------------------

    def spread(self) -> int:
        """Give every new item to the subscriptions that want it; returns how many items there were."""
        total = 0
        while not self._stopping.is_set():
            with self.database.snapshot() as tx:
                if not outbox.numbered(tx, 1):
                    return total
            with self.database.transaction() as tx:
                found = outbox.numbered(tx, _BATCH, lock=True)
                told = self._as_house(tx, found)
                for subscription in subscriptions.list_all(tx):
                    deliveries.queue(tx, subscription.id, [n for n in told if wants(subscription, n.item)])
                outbox.mark_done(tx, [notice.item.key for notice in found], now=self.clock())
            total += len(found)
        return total

    def _as_house(self, tx: Transaction, found: Sequence[Notice]) -> list[Notice]:
        """The items as the house's policy has them: without the silenced, with its own severities."""
        if not self.policy.rules:
            return list(found)
        told = []
        for notice in found:
            name = notice.item.payload.get("advisory")
            advisory = advisories.get(tx, str(name)) if name else None
            if advisory is None:
                told.append(notice)
                continue
            seen = self.policy.apply(advisory, self.clock())
            if seen is not None:
                payload = {**notice.item.payload, "severity": seen.severity.label}
                told.append(replace(notice, item=replace(notice.item, payload=payload)))
        return told

    def assemble(self) -> int:
        """Make every message that is due; returns how many. What fails for one subscription is its own matter."""
        with self.database.snapshot() as tx:
            backlog = deliveries.backlog(tx)
        self._idle = {key: idle for key, idle in self._idle.items() if key in backlog}
        made = 0
        for subscription_id, backlogged in backlog.items():
            known, until = self._idle.get(subscription_id, (None, self.clock()))
            if known == backlogged and self.clock() < until:
                continue  # nothing came since, and nothing is due yet
            try:
                made += self._assemble(subscription_id, backlogged)
            except StorageError:
                raise
            except Exception:
                log.exception("messages not made", subscription=subscription_id)
        return made

    def _assemble(self, subscription_id: str, backlogged: tuple[int, int]) -> int:
        now = self.clock()
        with self.database.snapshot() as tx:
            subscription = subscriptions.get(tx, subscription_id)
            planned = plan(subscription, deliveries.waiting(tx, subscription_id)) if subscription else []
        if not planned or (self.patient and planned[0].due > now):
            self._idle[subscription_id] = (backlogged, planned[0].due if planned else now)
            return 0
        with self.database.transaction() as tx:
            subscription = subscriptions.lock(tx, subscription_id)
            if subscription is None or subscription.disabled_at is not None:
                return 0
            waiting = deliveries.waiting(tx, subscription_id)
            batches = ready(subscription, waiting, now) if self.patient else plan(subscription, waiting)
            for batch in batches:
                named = {str(n.item.payload["advisory"]) for n in batch.notices if n.item.payload.get("advisory")}
                found = {key: advisory for key in named if (advisory := advisories.get(tx, key)) is not None}
                deliveries.add(
                    tx,
                    subscription_id,
                    message_id=message_id(subscription_id, [notice.item.key for notice in batch.notices]),
                    lane=batch.lane,
                    body=compose(subscription, batch.notices, found, now=now),
                    numbers=[notice.number for notice in batch.notices],
                    now=now,
                )
        return len(batches)

    def _prune(self) -> None:
        now = self.clock()
        if self._pruned_at is None or now - self._pruned_at >= timedelta(hours=1):
            self._pruned_at = now
            with self.database.transaction() as tx:
                deliveries.prune(tx, now - KEPT)
                outbox.prune(tx, now - KEPT)

    # --- sending ---------------------------------------------------------------------------------

    def _start(self, subscription_id: str) -> bool:
        with self._guard:
            if self._stopping.is_set() or not self._busy.get(subscription_id, _DONE).done():
                return False
            self._busy[subscription_id] = self._pool.submit(self._drain, subscription_id)
            return True

    def _drain(self, subscription_id: str) -> None:
        """Send to one subscription what is due, in order. Never raises."""
        holder = uuid4().hex
        with structlog.contextvars.bound_contextvars(subscription=subscription_id):
            try:
                self._send_all(subscription_id, holder)
            except HubwatchError as error:
                log.warning("sending stopped", error=str(error))
            except Exception:
                log.exception("sending failed")
            finally:
                self._release(subscription_id, holder)

    def _send_all(self, subscription_id: str, holder: str) -> None:
        until = time.monotonic() + TURN_SECONDS
        # First the lease, then a look at what is due: another process may just have sent it.
        while self._claim(subscription_id, holder):
            with self.database.snapshot() as tx:
                subscription = subscriptions.require(tx, subscription_id)
                heads = deliveries.due(tx, subscription_id, self.clock(), _HEADS, untried_since=self._since)
            if not heads:
                return
            for head in heads:
                if self._stopping.is_set() or time.monotonic() > until or not self._claim(subscription_id, holder):
                    return
                answer = self._attempt(subscription, head)
                if answer.gone or answer.silent:
                    return

    def _claim(self, subscription_id: str, holder: str) -> bool:
        now = self.clock()
        with self.database.transaction() as tx:
            return subscriptions.claim(tx, subscription_id, holder, now, now + LEASE)

    def _release(self, subscription_id: str, holder: str) -> None:
        try:
            with self.database.transaction() as tx:
                subscriptions.release(tx, subscription_id, holder)
        except StorageError as error:
            log.error("lease not given back; it runs out by itself", error=str(error))

    def _attempt(self, subscription: Subscription, delivery: Delivery) -> Answer:
        """Send one message once and keep how that went."""
        at, began = self.clock(), time.monotonic()
        answer = send(subscription, Message(id=delivery.message_id, body=delivery.body), self.schemes, now=at)
        attempt = Attempt(
            at=at,
            delivered=answer.delivered,
            status=answer.status,
            error=answer.error,
            milliseconds=int((time.monotonic() - began) * 1000),
        )
        now = self.clock()
        state, next_at = verdict(delivery.attempts + 1, answer, now)
        with self.database.transaction() as tx:
            deliveries.record(tx, delivery, attempt, state=state, next_at=next_at)
            if answer.gone:
                reason = "the receiver answered 410: it wants nothing more"
                subscriptions.disable(tx, subscription.id, reason=reason, now=now)
                deliveries.bury(tx, subscription.id, reason=reason, now=now)
        if answer.delivered:
            log.info("delivered", message=delivery.message_id, status=answer.status)
        else:
            log.warning("not delivered", message=delivery.message_id, state=state, error=answer.error)
        return answer


_DONE: Future[None] = Future()
_DONE.set_result(None)


def send(subscription: Subscription, message: Message, schemes: frozenset[str], *, now: datetime) -> Answer:
    """Send one message once, whatever the address is. Never raises; the answer holds no secret."""
    target = Target(
        url=subscription.url,
        secret=subscription.secret,
        allow_private=subscription.allow_private,
        schemes=schemes,
    )
    try:
        return notifier_of(subscription.url).send(target, message, now=now)
    except UsageError as error:
        return Answer(delivered=False, error=str(error))
    except Exception as error:  # noqa: BLE001 - this is where a third party's failure ends
        # Other people's libraries may put the address into what they raise: only its kind is told.
        return Answer(delivered=False, error=f"sending failed ({type(error).__name__})")


def send_test(subscription: Subscription, schemes: frozenset[str], *, now: datetime) -> tuple[str, Answer]:
    """Send a message that tells of nothing, now; returns its id and the answer. It is not kept in the log."""
    test_id = f"msg_test_{uuid4().hex}"
    return test_id, send(
        subscription, Message(id=test_id, body=test_body(subscription, now=now)), schemes, now=now
    )


def verdict(attempts: int, answer: Answer, now: datetime) -> tuple[DeliveryState, datetime]:
    """What becomes of a message after so many attempts, and when it is tried again."""
    if answer.delivered:
        return DeliveryState.DELIVERED, now
    if answer.gone or attempts > len(RETRIES):
        return DeliveryState.DEAD, now
    return DeliveryState.PENDING, now + max(RETRIES[attempts - 1], answer.retry_after or timedelta(0))
