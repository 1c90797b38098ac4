"""``/metrics``: what this process counted, and what the database tells, when asked.

The database's figures are worked out at most every few seconds, whoever asks and however often: what waits costs
as much as there is of it, what is there one look at every watch. A database that cannot be read leaves its
figures out and says so by ``hubwatch_database_up``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from storage import gauges
from storage.budgets import Quota
from storage.database import Database
from storage.errors import StorageError
from storage.model import AdvisoryAction, RepoState, Severity, Urgency
from tracker import metrics
from tracker.vitals import Vitals

PRESSING_S = 10.0
"""Seconds that the figures of what waits are kept."""
STANDING_S = 60.0
"""Seconds that the figures which cost a look at every watch are kept."""
HUB = "hub"
_URGENCIES = (Urgency.QUIET, Urgency.MOVING, Urgency.HINTED)

log = structlog.get_logger("hubwatch.metrics")


@dataclass(slots=True, eq=False)
class StoredFigures(Collector):
    """The database's figures. Shared by threads."""

    database: Database
    clock: Callable[[], datetime]
    monotonic: Callable[[], float] = time.monotonic
    _news: gauges.News = field(default_factory=gauges.News, repr=False)
    _pressing: tuple[float, gauges.Pressing] | None = field(default=None, repr=False)
    _standing: tuple[float, gauges.Standing] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def look(self) -> None:
        """Bring up to date what is too old. Raises StorageError."""
        now = self.monotonic()
        if self._pressing is None or now - self._pressing[0] >= PRESSING_S:
            self._news.look(self.database)
            self._pressing = (now, gauges.pressing(self.database, self.clock()))
        if self._standing is None or now - self._standing[0] >= STANDING_S:
            self._standing = (now, gauges.standing(self.database))

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        with self._lock:
            try:
                self.look()
            except StorageError as error:
                log.warning("figures of the database left out", error=str(error))
                yield _gauge("hubwatch_database_up", "Whether the database could be read.", {(): 0})
                return
            assert self._pressing is not None  # noqa: S101 - looked at just now
            assert self._standing is not None  # noqa: S101
            found = [*_waiting(self._pressing[1], self.clock()), *_there(self._standing[1]), *_news(self._news)]
        yield _gauge("hubwatch_database_up", "Whether the database could be read.", {(): 1})
        yield from found


@dataclass(frozen=True, slots=True, eq=False)
class Beats(Collector):
    """When the scheduler last ticked."""

    vitals: Vitals

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        if "scheduler" in self.vitals.roles:
            yield _gauge(
                "hubwatch_tick_timestamp_seconds",
                "When a tick of the scheduler last ended well.",
                {(name,): at.timestamp() for name, at in sorted(self.vitals.beats.items())},
                "tick",
            )


def registry_of(vitals: Vitals) -> CollectorRegistry:
    """All that one process shows: its counters, its beats, and the database's figures unless it only works.

    A worker leaves the database's figures to the scheduler and the web, so that many workers cost nothing.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics.REGISTRY)
    registry.register(Beats(vitals))
    if set(vitals.roles) != {"worker"}:
        registry.register(StoredFigures(vitals.database, vitals.clock))
    return registry


def exposition(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """The text that Prometheus reads and its media type."""
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


def _waiting(found: gauges.Pressing, now: datetime) -> Iterator[Metric]:
    overdue = {urgency: found.overdue.get(urgency) for urgency in _URGENCIES}
    yield _gauge(
        "hubwatch_poll_lag_seconds",
        "For how long the longest overdue watch has been due, by urgency; 0 when none is due.",
        {(u.name.lower(),): _age(o.oldest if o else None, now) for u, o in overdue.items()},
        "urgency",
    )
    yield _gauge(
        "hubwatch_watches_due",
        "Watches that are due, by urgency.",
        {(u.name.lower(),): o.due if o else 0 for u, o in overdue.items()},
        "urgency",
    )
    yield _gauge(
        "hubwatch_watches_late",
        "Watches that have been due for at least so many seconds, by urgency.",
        {
            (u.name.lower(), f"{by.total_seconds():.0f}"): o.late[n] if o else 0
            for u, o in overdue.items()
            for n, by in enumerate(gauges.LATE)
        },
        "urgency",
        "seconds",
    )
    pauses = {HUB: now, **found.pauses}
    yield _gauge(
        "hubwatch_pause_remaining_seconds",
        "Seconds left of a pause that the Hub asked for; 0 without one.",
        {(scope,): max(0.0, (until - now).total_seconds()) for scope, until in pauses.items()},
        "scope",
    )
    yield from _quotas(found.quotas, now)
    yield _gauge("hubwatch_outbox_waiting", "Events not yet handed to subscriptions.", {(): found.outbox.count})
    yield _gauge("hubwatch_notices_waiting", "Events that wait to be part of a message.", {(): found.notices})
    yield _gauge("hubwatch_deliveries_pending", "Messages not yet delivered.", {(): found.deliveries.count})
    yield _gauge(
        "hubwatch_delivery_oldest_seconds",
        "Age of the oldest message or event that is not yet delivered or handed on; 0 when there is none.",
        {(): max(_age(found.deliveries.oldest, now), _age(found.outbox.oldest, now))},
    )
    if found.jobs is not None:
        yield _gauge(
            "hubwatch_queue_jobs",
            "Jobs of the queue in PostgreSQL, by status.",
            {(status,): count for status, count in found.jobs.items()},
            "status",
        )
    yield _gauge("hubwatch_database_bytes", "Size of the database.", {(): found.database_bytes})
    if found.database_free_bytes is not None:
        yield _gauge(
            "hubwatch_database_free_bytes",
            "Free space on the SQLite file's disk.",
            {(): found.database_free_bytes},
        )


def _quotas(found: tuple[Quota, ...], now: datetime) -> Iterator[Metric]:
    # a window that is over is a whole one again
    named = {(quota.scope.rpartition(" ")[2][:12], quota.name): quota for quota in found}
    labels = ("payer", "name")
    yield _gauge(
        "hubwatch_budget_limit",
        "Requests that the Hub allows in one window, by who asks and quota.",
        {key: quota.limit for key, quota in named.items()},
        *labels,
    )
    yield _gauge(
        "hubwatch_budget_remaining",
        "Requests left in the present window.",
        {key: max(0, quota.limit - quota.spent_at(now)) for key, quota in named.items()},
        *labels,
    )
    yield _gauge(
        "hubwatch_budget_window_end_timestamp_seconds",
        "When the window ends that was last known.",
        {key: quota.window_ends.timestamp() for key, quota in named.items()},
        *labels,
    )


def _there(found: gauges.Standing) -> Iterator[Metric]:
    yield _gauge(
        "hubwatch_watches",
        "Watches that are not paused, by what the Hub last said of the repo.",
        {(state.value,): found.watches.get(state.value, 0) for state in RepoState},
        "state",
    )
    yield _gauge("hubwatch_watches_paused", "Watches paused by a person.", {(): found.paused})
    yield _gauge("hubwatch_watches_failing", "Watches whose last check failed.", {(): found.failing})
    yield _gauge("hubwatch_dead_letters", "Messages given up and still in the log.", {(): found.dead_letters})
    yield _gauge(
        "hubwatch_subscriptions",
        "Subscriptions, by whether they are enabled.",
        {(word,): found.subscriptions.get(on, 0) for word, on in (("yes", True), ("no", False))},
        "enabled",
    )


def _news(found: gauges.News) -> Iterator[Metric]:
    yield _counter(
        "hubwatch_revisions_landed",
        "Revisions landed by any process, by whether they were there before the watch began.",
        {(word,): found.revisions[backfill] for word, backfill in (("yes", True), ("no", False))},
        "backfill",
    )
    events: dict[tuple[str, ...], float] = {
        (action.value, severity.label): found.advisories[action.value, severity.label]
        for action in AdvisoryAction
        for severity in Severity
    }
    yield _counter(
        "hubwatch_advisory_events",
        "What happened to advisories, by action and severity.",
        events,
        "action",
        "severity",
    )
    yield _counter(
        "hubwatch_delivery_attempts",
        "Tries to send a message, by outcome.",
        {(word,): found.attempts[ok] for word, ok in (("delivered", True), ("failed", False))},
        "outcome",
    )


def _age(oldest: datetime | None, now: datetime) -> float:
    return 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())


def _gauge(name: str, about: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, about: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
