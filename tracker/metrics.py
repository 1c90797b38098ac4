"""What one process counts of its own work, for Prometheus.

Every process has counters of its own; what is kept in the database is told by `tracker.exposition`. A label is
one of a few words that we know: never the name of a repo, a path or a message.
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from storage.model import Urgency, Watch

Kind = Literal["api", "resolvers", "git", "storage"]
"""What the Hub counts a request against; ``storage`` is where large files are, outside of every quota."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each counter, used by nobody
REGISTRY = CollectorRegistry(auto_describe=True)
"""The counters of this process."""

_STATUSES = frozenset(map(int, HTTPStatus))
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

CHECKS = Counter("hubwatch_checks", "Checks of watches that ended, by outcome.", ["status"], registry=REGISTRY)
CHECK_SECONDS = Histogram(
    "hubwatch_check_seconds",
    "How long a check took, by outcome.",
    ["status"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 1800),
    registry=REGISTRY,
)
CHECK_LAG = Histogram(
    "hubwatch_check_lag_seconds",
    "How long after it was due a check began, by urgency.",
    ["urgency"],
    buckets=(5, 15, 60, 300, 900, 1800, 3600, 21_600, 86_400, 604_800),
    registry=REGISTRY,
)
LISTED = Counter(
    "hubwatch_checks_by_listing",
    "Watches found unchanged by a listing of their owner, without a request of their own.",
    registry=REGISTRY,
)
RUNNING = Gauge("hubwatch_checks_running", "Checks that this process is at.", registry=REGISTRY)
ERRORS = Counter("hubwatch_errors", "Checks that failed, by the error's code.", ["code"], registry=REGISTRY)
REQUESTS = Counter(
    "hubwatch_hub_requests",
    "Requests to the Hub, by quota and HTTP status (unreachable: no answer).",
    ["kind", "status"],
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "hubwatch_hub_request_seconds",
    "Time to the head of the Hub's answer.",
    ["kind"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
CHILDREN = Counter(
    "hubwatch_probe_children_started", "Sandboxed children started, by kind.", ["kind"], registry=REGISTRY
)
CHILD_FAILURES = Counter(
    "hubwatch_probe_failures",
    "Probes that gave no answer, after which the child is replaced.",
    ["kind", "reason"],
    registry=REGISTRY,
)
HTTP_REQUESTS = Counter(
    "hubwatch_http_requests", "Requests answered by our pages and APIs.", ["method", "status"], registry=REGISTRY
)
HTTP_SECONDS = Histogram(
    "hubwatch_http_request_seconds",
    "Time to the end of our answer, event streams aside.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=REGISTRY,
)
_BUILD = Info("hubwatch_build", "The version that runs.", registry=REGISTRY)

_BUILD.info({"version": importlib.metadata.version("hubwatch"), "python": platform.python_version()})
ProcessCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)
for _urgency in (Urgency.QUIET, Urgency.MOVING, Urgency.HINTED):
    CHECK_LAG.labels(_urgency.name.lower())
for _kind in ("api", "resolvers", "git", "storage"):
    REQUEST_SECONDS.labels(_kind)


class _Outcome(Protocol):
    @property
    def status(self) -> str: ...


Self_ = TypeVar("Self_")
More = ParamSpec("More")
Result = TypeVar("Result", bound=_Outcome)


def observed(
    check: Callable[Concatenate[Self_, Watch, More], Result],
) -> Callable[Concatenate[Self_, Watch, More], Result]:
    """Count and time a method that checks a watch and tells the outcome."""

    @functools.wraps(check)
    def checking(self: Self_, watch: Watch, /, *args: More.args, **kwargs: More.kwargs) -> Result:
        if watch.next_check_at is not None:
            late = (datetime.now(UTC) - watch.next_check_at).total_seconds()
            CHECK_LAG.labels(watch.urgency.name.lower()).observe(max(0.0, late))
        began = time.monotonic()
        with RUNNING.track_inprogress():
            outcome = check(self, watch, *args, **kwargs)
        status = str(outcome.status)
        CHECKS.labels(status).inc()
        CHECK_SECONDS.labels(status).observe(time.monotonic() - began)
        return outcome

    return checking


def listed() -> None:
    """A listing said that a watch's repo did not move."""
    LISTED.inc()


def failed(code: str) -> None:
    """A check failed with an error of this code."""
    ERRORS.labels(code).inc()


def requested(kind: Kind, status: int | None, seconds: float) -> None:
    """One request to the Hub was answered with a status; None: it never was."""
    told = "unreachable" if status is None else _status(status)
    REQUESTS.labels(kind, told).inc()
    if status is not None:
        REQUEST_SECONDS.labels(kind).observe(seconds)


def kind_of(path: str) -> Kind:
    """What a request counts against, by its path."""
    if ".git/" in path:
        return "git"
    if "/resolve/" in path or "/resolve-cache/" in path:
        return "resolvers"
    return "api" if "/api/" in path else "storage"


def child_started(kind: str) -> None:
    """A sandboxed child was started."""
    CHILDREN.labels(kind).inc()


def child_failed(kind: str, reason: str) -> None:
    """A sandboxed child gave no answer."""
    CHILD_FAILURES.labels(kind, reason).inc()


def served(scope: Mapping[str, Any], status: int, seconds: float | None) -> None:
    """One request of ours was answered; ``seconds`` None: an event stream, whose length says nothing."""
    method = scope.get("method", "")
    HTTP_REQUESTS.labels(method if method in _METHODS else "other", _status(status)).inc()
    if seconds is not None:
        HTTP_SECONDS.observe(seconds)


def _status(status: int) -> str:
    """A status as a label; what HTTP does not know is one label, whatever a server makes up."""
    return str(status) if status in _STATUSES else "other"
