"""Which of what waits goes into which message, and when it is due. Pure: time is an argument.

The settle window of a repo begins with the first thing that waits; all that is observed within it goes into
one message. Digests gather until the hour, or the day, is over. What falls due in quiet hours falls due at their
end. So when a message is due depends on when things were observed, never on when somebody looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from storage.model import Digest, Json, Notice, OutboxItem, QuietHours, Severity, Subscription

DAILY_AT = time(8)
"""When daily digests fall due, in the subscription's time zone."""
MOST = 100
"""Events in one message; more are cut into several, in order."""
DIGEST_LANE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What goes into one message. Messages of one ``lane`` are sent one after the other."""

    lane: str
    due: datetime
    notices: tuple[Notice, ...]


def wants(subscription: Subscription, item: OutboxItem) -> bool:
    """Whether a subscription is to be told of an item: active, made before it, and every filter fits.

    A new repo has no class and no severity: only the filters by repo apply to it.
    """
    if subscription.disabled_at is not None or item.created_at < subscription.created_at:
        return False
    if subscription.repos and not any(_names(pattern, item) for pattern in subscription.repos):
        return False
    cls, severity = item.payload.get("class"), item.payload.get("severity")
    if subscription.classes and cls is not None and cls not in subscription.classes:
        return False
    return severity is None or _rank(severity) >= subscription.min_severity


def _names(pattern: str, item: OutboxItem) -> bool:
    owner, _, name = pattern.partition("/")
    return owner == item.repo.owner and name in {"*", item.repo.name}


def _rank(severity: Json) -> Severity:
    """Of a word nobody knows, rather tell too much."""
    word = str(severity).upper()
    return Severity[word] if word in Severity.__members__ else Severity.CRITICAL


def ready(subscription: Subscription, waiting: Sequence[Notice], now: datetime) -> list[Batch]:
    """The batches that are due by now, oldest first; within a lane they are the earliest."""
    return [batch for batch in plan(subscription, waiting) if batch.due <= now]


def plan(subscription: Subscription, waiting: Sequence[Notice]) -> list[Batch]:
    """Everything that waits, in the order observed, as batches: each notice is in exactly one."""
    made: list[Batch] = []
    for lane, notices in _lanes(subscription, waiting):
        dated = _dated(subscription, notices)
        for due, group in groupby(dated, key=lambda pair: pair[0]):
            made += _cut(lane, due, [notice for _, notice in group])
    return sorted(made, key=lambda batch: (batch.due, batch.notices[0].number))


def _lanes(subscription: Subscription, waiting: Sequence[Notice]) -> Iterable[tuple[str, list[Notice]]]:
    """What has to stay in order: a repo's own events, or in a digest everything."""
    lanes: dict[str, list[Notice]] = {}
    for notice in sorted(waiting, key=lambda notice: notice.number):
        lane = notice.item.repo.url if subscription.digest is Digest.INSTANT else DIGEST_LANE
        lanes.setdefault(lane, []).append(notice)
    return lanes.items()


def _dated(subscription: Subscription, notices: Sequence[Notice]) -> Iterator[tuple[datetime, Notice]]:
    """Each notice of a lane with when it is due, never earlier than the one before it."""
    zone = ZoneInfo(subscription.timezone)
    begin: datetime | None = None
    latest = datetime.min.replace(tzinfo=UTC)
    for notice in notices:
        at = notice.item.created_at
        if begin is None or at > begin + subscription.settle:
            begin = at
        match subscription.digest:
            case Digest.INSTANT:
                due = begin + subscription.settle
            case Digest.HOURLY:
                due = _next_hour(at)
            case Digest.DAILY:
                due = _next_day(at, zone)
        latest = max(latest, after_quiet(due, subscription.quiet, zone))
        yield latest, notice


def _cut(lane: str, due: datetime, notices: Sequence[Notice]) -> Iterator[Batch]:
    for start in range(0, len(notices), MOST):
        yield Batch(lane=lane, due=due, notices=tuple(notices[start : start + MOST]))


def after_quiet(moment: datetime, quiet: QuietHours | None, zone: ZoneInfo) -> datetime:
    """The moment itself, or the end of the quiet hours that it falls into."""
    if quiet is None:
        return moment
    local = moment.astimezone(zone)
    clock = local.time().replace(tzinfo=None)
    if quiet.begins <= quiet.ends:
        inside = quiet.begins <= clock < quiet.ends
    else:
        inside = clock >= quiet.begins or clock < quiet.ends
    if not inside:
        return moment
    days = 1 if clock >= quiet.ends else 0
    end = datetime.combine(local.date() + timedelta(days=days), quiet.ends, tzinfo=zone)
    return max(moment, end.astimezone(UTC))


def _next_hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def _next_day(at: datetime, zone: ZoneInfo) -> datetime:
    local = at.astimezone(zone)
    days = 1 if local.time().replace(tzinfo=None) >= DAILY_AT else 0
    return datetime.combine(local.date() + timedelta(days=days), DAILY_AT, tzinfo=zone).astimezone(UTC)
