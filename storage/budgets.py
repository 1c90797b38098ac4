"""What was spent of the upstream's quotas in their present windows: one account for all processes.

A scope is one payer as the upstream sees it (an endpoint and a token, or an address without one); a name is one
of its quotas (``api``, ``resolvers``). Requests are entered before they are sent, in small blocks, so that
processes which know nothing of each other stay under one limit together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select

from storage.database import Transaction
from storage.rows import upsert
from storage.tables import budgets


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota: ``limit`` requests in ``window_s`` seconds, ``spent`` of those until ``window_ends``."""

    scope: str
    name: str
    limit: int
    window_s: int
    window_ends: datetime
    spent: int

    def spent_at(self, now: datetime) -> int:
        """What is spent of the window at a time: nothing once the window is over."""
        return self.spent if now < self.window_ends else 0


def allowed(limit: int, share: float) -> int:
    """How many requests a share of a limit is: one at least, or a limit told wrong would never be told right."""
    return max(1, int(limit * share))


def get(tx: Transaction, scope: str, name: str) -> Quota | None:
    """A quota as last known; None before the upstream ever told of it."""
    row = tx.execute(select(budgets).where(budgets.c.scope == scope, budgets.c.name == name)).one_or_none()
    return Quota(**row._mapping) if row else None


def every(tx: Transaction) -> list[Quota]:
    """All quotas, by scope and name."""
    rows = tx.execute(select(budgets).order_by(budgets.c.scope, budgets.c.name))
    return [Quota(**row._mapping) for row in rows]


def spend(tx: Transaction, scope: str, name: str, count: int, *, share: float, now: datetime) -> tuple[int, Quota]:
    """Enter up to ``count`` requests, as many as keep the window at or under ``share`` of the limit.

    Returns how many were entered, and the quota as it stands then. A window that is over begins anew, for as
    long as the policy says; the upstream's next answer corrects that (`learn`). Raises KeyError for a quota that
    is not known.
    """
    row = tx.execute(
        select(budgets).where(budgets.c.scope == scope, budgets.c.name == name).with_for_update()
    ).one_or_none()
    if row is None:
        raise KeyError(name)
    quota = Quota(**row._mapping)
    ends = quota.window_ends if now < quota.window_ends else now + timedelta(seconds=quota.window_s)
    spent = quota.spent_at(now)
    granted = max(0, min(count, allowed(quota.limit, share) - spent))
    after = Quota(
        scope=scope, name=name, limit=quota.limit, window_s=quota.window_s, window_ends=ends, spent=spent + granted
    )
    if granted:
        _put(tx, after)
    return granted, after


def learn(tx: Transaction, told: Quota, *, tolerance: timedelta) -> Quota:
    """Take in what the upstream says; returns the quota as it stands then.

    Within one window (ends within ``tolerance``) the larger count holds: ours has requests on their way, the
    upstream's those of others. Another window replaces what was known.
    """
    known = get(tx, told.scope, told.name)
    if known is not None and abs(known.window_ends - told.window_ends) <= tolerance:
        told = Quota(
            scope=told.scope,
            name=told.name,
            limit=told.limit,
            window_s=told.window_s,
            window_ends=known.window_ends,
            spent=max(known.spent, told.spent),
        )
    if told != known:
        _put(tx, told)
    return told


def _put(tx: Transaction, quota: Quota) -> None:
    upsert(
        tx,
        budgets,
        {
            "scope": quota.scope,
            "name": quota.name,
            "limit": quota.limit,
            "window_s": quota.window_s,
            "window_ends": quota.window_ends,
            "spent": quota.spent,
        },
    )
