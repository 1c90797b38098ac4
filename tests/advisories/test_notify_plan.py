"""What goes into which message, and when: laws that hold for anything that may be observed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisories.notify.compose import Net, compose, message_id, net_effect
from advisories.notify.plan import MOST, after_quiet, plan, ready, wants
from advisories.notify.render import text_of, title_of
from storage.model import (
    AdvisoryAction,
    Digest,
    Notice,
    OutboxItem,
    QuietHours,
    RepoRef,
    Severity,
    Subscription,
)

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
REPOS = [RepoRef(owner="acme", name=name) for name in ("one", "two", "three")]
NIGHT = QuietHours(begins=time(22), ends=time(7))


def subscription(**changed: object) -> Subscription:
    made = Subscription(id="sub_1", url="https://example.org/hook", created_at=START - timedelta(days=9))
    return replace(made, **changed)  # type: ignore[arg-type]


def notice(
    number: int,
    *,
    minutes: float = 0,
    advisory: str = "x_1",
    action: str = "opened",
    repo: RepoRef = REPOS[0],
    **payload: object,
) -> Notice:
    about = {"advisory": advisory, "action": action, "sha": f"{number:040x}", "class": "template.semantic"}
    item = OutboxItem(
        key=f"{advisory}:{action}:{number}",
        kind=f"advisory.{action}",
        repo=repo,
        payload={**about, "severity": "high", **payload},
        created_at=START + timedelta(minutes=minutes),
    )
    return Notice(number=number, item=item)


# --- laws ----------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.floats(-3, 90, allow_nan=False),  # minutes since the one before: clocks of two machines differ a little
        st.sampled_from(REPOS),
        st.integers(0, 3),
    ),
    max_size=40,
)
SUBSCRIPTIONS = st.builds(
    lambda digest, settle, quiet, zone: subscription(digest=digest, settle=settle, quiet=quiet, timezone=zone),
    st.sampled_from(Digest),
    st.sampled_from([timedelta(0), timedelta(minutes=15), timedelta(hours=2)]),
    st.sampled_from(
        [None, NIGHT, QuietHours(begins=time(9), ends=time(17)), QuietHours(begins=time(7), ends=time(7))]
    ),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
)


def observed(steps: list[tuple[float, RepoRef, int]]) -> list[Notice]:
    """A story in which every advisory opens and closes in turn."""
    minutes, made = 0.0, []
    is_open: set[str] = set()
    for number, (gap, repo, which) in enumerate(steps, start=1):
        minutes += gap
        advisory = f"{repo.name}-{which}"
        action = "fixed" if advisory in is_open else "opened"
        is_open ^= {advisory}
        made.append(notice(number, minutes=minutes, advisory=advisory, action=action, repo=repo))
    return made


@given(subscription=SUBSCRIPTIONS, steps=STEPS)
def test_everything_is_in_exactly_one_batch_and_in_order(
    subscription: Subscription, steps: list[tuple[float, RepoRef, int]]
) -> None:
    waiting = observed(steps)
    batches = plan(subscription, waiting)
    assert sorted(n.number for batch in batches for n in batch.notices) == [n.number for n in waiting]
    by_lane: dict[str, list[int]] = {}
    for batch in batches:
        by_lane.setdefault(batch.lane, []).extend(n.number for n in batch.notices)
    for numbers in by_lane.values():
        assert numbers == sorted(numbers)
    for repo in REPOS:
        own = [n.number for batch in batches for n in batch.notices if n.item.repo == repo]
        assert own == sorted(own)


@given(subscription=SUBSCRIPTIONS, steps=STEPS)
def test_nothing_is_due_before_its_time_or_in_quiet_hours(
    subscription: Subscription, steps: list[tuple[float, RepoRef, int]]
) -> None:
    zone = ZoneInfo(subscription.timezone)
    for batch in plan(subscription, observed(steps)):
        assert all(n.item.created_at <= batch.due for n in batch.notices)
        assert len(batch.notices) <= MOST
        assert after_quiet(batch.due, subscription.quiet, zone) == batch.due
    assert all(a.due <= b.due for a, b in pairwise(plan(subscription, observed(steps))))


@settings(max_examples=60)
@given(subscription=SUBSCRIPTIONS, steps=STEPS, looks=st.lists(st.floats(0, 3000), min_size=1, max_size=12))
def test_looking_often_or_late_gives_the_same_messages(
    subscription: Subscription, steps: list[tuple[float, RepoRef, int]], looks: list[float]
) -> None:
    """Each event is in one message whenever the planner looks, and a repo's events stay in order."""
    waiting = sorted(observed(steps), key=lambda n: (n.item.created_at, n.number))
    waiting = [replace(n, number=number) for number, n in enumerate(waiting, start=1)]
    once = [tuple(n.number for n in batch.notices) for batch in plan(subscription, waiting)]
    arrived: list[Notice] = []
    rest, sent = list(waiting), []
    for minutes in [*sorted(looks), 10**6]:
        now = START + timedelta(minutes=minutes)
        while rest and rest[0].item.created_at <= now:
            arrived.append(rest.pop(0))
        for batch in ready(subscription, arrived, now):
            sent.append(tuple(n.number for n in batch.notices))
            arrived = [n for n in arrived if n not in batch.notices]
    assert not arrived
    assert sorted(sent) == sorted(once)


@given(actions=st.lists(st.booleans(), min_size=1, max_size=9))
def test_the_net_effect_is_the_difference_between_before_and_after(actions: list[bool]) -> None:
    """An advisory opens and closes in turn; what is told fits its states before the first and after the last."""
    is_open, happened = not actions[0], []
    before = is_open
    for opens in actions:
        if opens != is_open:
            happened.append(AdvisoryAction.OPENED if opens else AdvisoryAction.FIXED)
            is_open = opens
    told = net_effect(happened)
    assert (
        told
        is {
            (False, True): Net.OPENED,
            (True, False): Net.CLOSED,
            (False, False): Net.UNDONE,
            (True, True): Net.UNCHANGED,
        }[before, is_open]
    )


# --- examples ------------------------------------------------------------------------------------


def test_a_flurry_is_one_message_that_says_what_is_left() -> None:
    waiting = [
        notice(1, minutes=0, advisory="x_undone"),
        notice(2, minutes=1, advisory="x_middle"),
        notice(3, minutes=2, advisory="x_middle", action="superseded"),
        notice(4, minutes=2, advisory="x_stays"),
        notice(5, minutes=9, advisory="x_undone", action="fixed"),
        notice(6, minutes=14, advisory="x_old", action="fixed"),
        notice(7, minutes=40, advisory="x_later"),
    ]
    first, second = plan(subscription(), waiting)
    assert (first.due - START, second.due - START) == (timedelta(minutes=15), timedelta(minutes=55))
    assert ready(subscription(), waiting, START + timedelta(minutes=14, seconds=59)) == []
    body = compose(subscription(), first.notices, {}, now=first.due)
    assert body["type"] == "advisories.changed"
    (repo,) = body["data"]["repos"]
    told = {net: [(entry["id"], entry["how"]) for entry in repo[net]] for net in Net}
    assert told == {
        Net.OPENED: [("x_stays", "opened")],
        Net.CLOSED: [("x_old", "fixed")],
        Net.UNDONE: [("x_undone", "fixed"), ("x_middle", "superseded")],
        Net.UNCHANGED: [],
    }
    assert [event["id"] for event in body["data"]["events"]] == [n.item.key for n in first.notices]
    assert body["data"]["title"] == (
        "acme/one: 1 opened (up to high), 1 closed (up to high), 2 undone (up to high)"
    )
    assert "undone meanwhile (restored), high" in text_of(body)


def test_without_a_settle_window_each_observation_is_told_by_itself() -> None:
    at_once = subscription(settle=timedelta(0))
    waiting = [notice(1), notice(2, advisory="x_2"), notice(3, minutes=0.01)]
    assert [len(batch.notices) for batch in plan(at_once, waiting)] == [2, 1]
    assert ready(at_once, waiting[:2], START)[0].due == START


def test_digests_gather_all_repos_and_the_night_is_quiet() -> None:
    waiting = [notice(1, minutes=1), notice(2, minutes=59, repo=REPOS[1]), notice(3, minutes=61)]
    hourly = plan(subscription(digest=Digest.HOURLY), waiting)
    assert [(batch.due.hour, len(batch.notices)) for batch in hourly] == [(13, 2), (14, 1)]
    assert (
        compose(subscription(digest=Digest.HOURLY), hourly[0].notices, {}, now=START)["type"]
        == "advisories.digest"
    )
    (daily,) = plan(subscription(digest=Digest.DAILY, timezone="Europe/Berlin"), waiting)
    assert daily.due == datetime(2026, 5, 2, 6, tzinfo=UTC)  # 8 o'clock in Berlin's summer
    evening = [notice(1, minutes=9 * 60), notice(2, minutes=13 * 60)]
    (morning,) = plan(subscription(quiet=NIGHT, timezone="Europe/Berlin"), evening)
    assert morning.due == datetime(2026, 5, 2, 5, tzinfo=UTC)


def test_more_than_fits_into_a_message_is_cut_in_order() -> None:
    waiting = [notice(number, advisory=f"x_{number}") for number in range(1, 2 * MOST + 2)]
    batches = plan(subscription(), waiting)
    assert [len(batch.notices) for batch in batches] == [MOST, MOST, 1]
    assert len({message_id("sub_1", [n.item.key for n in batch.notices]) for batch in batches}) == 3


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, True),
        ({"min_severity": Severity.HIGH}, True),
        ({"min_severity": Severity.CRITICAL}, False),
        ({"classes": frozenset({"template.semantic"})}, True),
        ({"classes": frozenset({"template.tools"})}, False),
        ({"repos": ("acme/*",)}, True),
        ({"repos": ("acme/one", "other/*")}, True),
        ({"repos": ("acme/two", "other/*")}, False),
        ({"created_at": START}, True),
        ({"created_at": START + timedelta(microseconds=1)}, False),
        ({"disabled_at": START}, False),
    ],
)
def test_filters(filters: dict[str, object], wanted: bool) -> None:
    assert wants(subscription(**filters), notice(1).item) is wanted


def test_a_new_repo_passes_filters_by_severity_and_class_but_not_by_repo() -> None:
    item = OutboxItem(key="repo.new:x", kind="repo.new", repo=REPOS[0], payload={}, created_at=START)
    picky = subscription(min_severity=Severity.CRITICAL, classes=frozenset({"weights.replaced"}))
    assert wants(picky, item)
    assert not wants(replace(picky, repos=("other/*",)), item)
    body = compose(picky, [Notice(number=1, item=item)], {}, now=START)
    assert (body["type"], body["data"]["title"]) == ("repo.new", "acme/one: new repo")


def test_upstream_text_mentions_nobody_and_marks_up_nothing() -> None:
    body = compose(subscription(), [notice(1)], {}, now=START)
    entry = body["data"]["repos"][0]["opened"][0]
    entry["summary"] = "@everyone <b>x</b> [click](https://evil.example) \u202e\x1b[31m"
    text = text_of(body)
    assert "@everyone" not in text
    assert "[click]" not in text
    assert "https://evil" not in text
    assert "\x1b" not in text + title_of(body)
    assert "\u202e" not in text
