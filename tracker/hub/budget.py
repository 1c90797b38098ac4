"""One budget for all processes that ask the same Hub as the same user, spent by urgency.

The Hub counts requests in fixed windows and says in every answer what is left (`tracker.hub.limits`). Here each
request is paid before it is sent, from an account in the database: never above a share of the Hub's limit, and
the less urgent a question, the earlier it has to wait, so that a hint is still answered in a window which a long
backfill has used up. Whoever may not ask gets `BudgetSpent` at once, with the time to wait; nobody sleeps.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from storage import budgets
from storage.budgets import Quota
from storage.database import Database
from storage.model import Urgency
from tracker.hub.errors import BudgetSpent
from tracker.hub.limits import Budget

SHARE_OF = {Urgency.IDLE: 0.6, Urgency.QUIET: 0.85, Urgency.MOVING: 0.95, Urgency.HINTED: 1.0}
"""How much of what may be spent at all each urgency may bring it to."""
SCARCE = 0.5
"""Share of what may be spent in a window from which on a quota is scarce."""
BLOCK_SHARE = 0.01
"""Share of the limit that is paid for at once, so that not every request is a write to the database."""
MAX_BLOCK = 20
TOLERANCE = timedelta(seconds=5)
"""Ends of windows closer than this are one window: the Hub tells whole seconds, answers take their time."""
MOST = 10**9
"""Largest limit that is believed."""
MAX_WINDOW_S = 86_400
STALE = timedelta(seconds=2)

_URGENCY: ContextVar[Urgency] = ContextVar("hubwatch_urgency", default=Urgency.MOVING)


@contextmanager
def asking_as(urgency: Urgency) -> Iterator[None]:
    """Everything asked inside, by this thread, is of this urgency."""
    token = _URGENCY.set(urgency)
    try:
        yield
    finally:
        _URGENCY.reset(token)


def current_urgency() -> Urgency:
    """The urgency of what this thread asks; MOVING where nobody said."""
    return _URGENCY.get()


class Gate(Protocol):
    """What a request passes before it is sent, and what sees the limits that answers tell."""

    def take(self, name: str) -> None:
        """Pay for one request of a quota. Raises BudgetSpent."""
        ...

    def learn(self, told: Sequence[Budget]) -> None:
        """Take in what an answer says of the quotas."""
        ...


def scope_of(endpoint: str, token: str | None) -> str:
    """The name of a payer: who shares an endpoint and a token (or an address without one) shares a budget."""
    who = hashlib.sha256(token.encode()).hexdigest()[:16] if token else "anonymous"
    return f"{endpoint.rstrip('/')} {who}"


@dataclass(slots=True)
class _Held:
    """Requests that are paid for and not yet sent, good until the window's end."""

    left: int
    ends: datetime


class SharedBudget(Gate):
    """A payer's account in the database. Shared by threads.

    Args:
        database: Where the account is.
        scope: The payer (`scope_of`).
        share: How much of the Hub's limit may be used, 0 to 1.
        clock: The wall clock.

    """

    def __init__(self, database: Database, scope: str, *, share: float, clock: Callable[[], datetime]) -> None:
        self._database, self._scope, self._share, self._clock = database, scope, share, clock
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._known: dict[str, Quota] = {}

    def take(self, name: str) -> None:
        """See `Gate`. Before the Hub told its limit for the first time everything is let through."""
        now = self._clock()
        with self._lock:
            held = self._held.get(name)
            if held is not None and held.left > 0 and now < held.ends:
                held.left -= 1
                return
        share = self._share * SHARE_OF[current_urgency()]
        with self._database.snapshot() as tx:
            known = budgets.get(tx, self._scope, name)
        if known is None:
            return
        wanted = max(1, min(MAX_BLOCK, int(known.limit * BLOCK_SHARE)))
        granted, quota = 0, known
        if known.spent_at(now) < budgets.allowed(known.limit, share):
            with self._database.transaction() as tx:
                granted, quota = budgets.spend(tx, self._scope, name, wanted, share=share, now=now)
        with self._lock:
            self._known[name] = quota
            if granted:
                self._held[name] = _Held(granted - 1, quota.window_ends)
                return
        raise _spent(quota, share, now)

    def learn(self, told: Sequence[Budget]) -> None:
        """See `Gate`. Written only where it differs from the account."""
        now = self._clock()
        for budget in told:
            if budget.limit is None or budget.window_s is None or budget.resets_at <= now + STALE:
                continue  # the last answers of a window say nothing of the next one
            limit = min(budget.limit, MOST)
            quota = Quota(
                scope=self._scope,
                name=budget.name,
                limit=limit,
                window_s=max(1, min(budget.window_s, MAX_WINDOW_S)),
                window_ends=budget.resets_at,
                spent=max(0, limit - budget.remaining),
            )
            with self._lock:
                known = self._known.get(budget.name)
            if known is not None and _covers(known, quota):
                continue
            with self._database.transaction() as tx:
                stands = budgets.learn(tx, quota, tolerance=TOLERANCE)
            with self._lock:
                self._known[budget.name] = stands

    def room(self, name: str, urgency: Urgency) -> int | None:
        """How many more requests of an urgency may be sent now; None while the limit is not known."""
        now = self._clock()
        with self._database.snapshot() as tx:
            quota = budgets.get(tx, self._scope, name)
        if quota is None:
            return None
        return max(0, budgets.allowed(quota.limit, self._share * SHARE_OF[urgency]) - quota.spent_at(now))

    def whole(self, name: str) -> int | None:
        """How many requests may be sent in one window; None while the limit is not known."""
        with self._database.snapshot() as tx:
            quota = budgets.get(tx, self._scope, name)
        return None if quota is None else budgets.allowed(quota.limit, self._share)

    def is_scarce(self, name: str = "api") -> bool:
        """Whether so much of a quota's window is spent that others are to be drawn on where they can be."""
        whole, left = self.whole(name), self.room(name, Urgency.HINTED)
        return whole is not None and left is not None and left < whole * (1 - SCARCE)

    def least_urgent(self, name: str) -> Urgency | None:
        """The least urgent questions that may be asked now, IDLE aside; None when none may."""
        for urgency in (Urgency.QUIET, Urgency.MOVING, Urgency.HINTED):
            if self.room(name, urgency) != 0:
                return urgency
        return None


def _covers(known: Quota, told: Quota) -> bool:
    """Whether what is known says as much as what is told."""
    return (
        known.limit == told.limit
        and known.window_s == told.window_s
        and abs(known.window_ends - told.window_ends) <= TOLERANCE
        and known.spent >= told.spent
    )


def _spent(quota: Quota, share: float, now: datetime) -> BudgetSpent:
    seconds = max(1.0, (quota.window_ends - now).total_seconds())
    return BudgetSpent(
        f"{quota.spent} of the Hub's {quota.limit} {quota.name} requests in {quota.window_s} s are spent, and "
        f"{budgets.allowed(quota.limit, share)} may be for this: the next window begins in {seconds:.0f} s",
        seconds=seconds,
        help="nothing is lost, and it goes on by itself; a token (HF_TOKEN) has a larger quota, and "
        "hub.budget_share sets how much of it is used",
    )
