"""One account for all who ask: shares, urgencies, windows."""

from __future__ import annotations

import contextlib
import itertools
import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import budgets
from storage.database import Database
from storage.model import RepoRef, Urgency
from tracker.demo.hub import LoopbackHub
from tracker.hub.budget import SHARE_OF, SharedBudget, asking_as, scope_of
from tracker.hub.client import HubClient
from tracker.hub.errors import BudgetSpent
from tracker.hub.limits import Budget

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NUMBERS = itertools.count()
SCOPE = scope_of("http://127.0.0.1:1", None)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def account(database: Database, clock: Clock, share: float = 0.8) -> SharedBudget:
    return SharedBudget(database, SCOPE, share=share, clock=clock)


def told(clock: Clock, *, left: int, limit: int = 500, seconds: int = 300) -> list[Budget]:
    return [
        Budget(
            name="api",
            remaining=left,
            resets_at=clock.now + timedelta(seconds=seconds),
            limit=limit,
            window_s=300,
        )
    ]


def taken(budget: SharedBudget, most: int = 10_000) -> int:
    """How many requests the budget lets through."""
    for number in range(most):
        try:
            budget.take("api")
        except BudgetSpent:
            return number
    return most


def test_everything_passes_until_the_hub_told_its_limit(database: Database, clock: Clock) -> None:
    budget = account(database, clock)
    assert taken(budget, 50) == 50
    assert budget.room("api", Urgency.HINTED) is None
    assert budget.least_urgent("api") is Urgency.QUIET


def test_two_processes_stay_under_one_share_together(database: Database, clock: Clock) -> None:
    first, second = account(database, clock), account(database, clock)
    first.learn(told(clock, left=499))
    counts = []
    with asking_as(Urgency.HINTED):
        for number in range(400):
            try:
                (first, second)[number % 2].take("api")
                counts.append(number)
            except BudgetSpent:
                break
        assert len(counts) + taken(first) + taken(second) == 399  # 80 % of 500, one was spent
    assert first.room("api", Urgency.HINTED) == second.room("api", Urgency.HINTED) == 0
    assert first.least_urgent("api") is None


def test_the_less_urgent_waits_earlier(database: Database, clock: Clock) -> None:
    budget = account(database, clock)
    budget.learn(told(clock, left=500))
    spent = 0
    for urgency in sorted(Urgency):
        with asking_as(urgency):
            spent += taken(budget)
        assert spent == int(500 * 0.8 * SHARE_OF[urgency])
    with pytest.raises(BudgetSpent) as refused:
        budget.take("api")
    assert refused.value.seconds == 300
    assert "budget_share" in refused.value.help


def test_a_new_window_begins_by_itself_and_is_corrected_by_the_next_answer(
    database: Database, clock: Clock
) -> None:
    budget = account(database, clock)
    budget.learn(told(clock, left=0))
    assert taken(budget) == 0
    clock.now += timedelta(seconds=301)
    budget.take("api")
    budget.learn(told(clock, left=200, seconds=120))  # others asked, too, and the window ends earlier
    with database.snapshot() as tx:
        quota = budgets.get(tx, SCOPE, "api")
    assert quota is not None
    assert (quota.spent, quota.window_ends) == (300, clock.now + timedelta(seconds=120))


def test_a_limit_that_is_told_wrong_is_asked_about_again(database: Database, clock: Clock) -> None:
    budget = account(database, clock)
    budget.learn(told(clock, left=0, limit=0))
    clock.now += timedelta(seconds=301)
    with asking_as(Urgency.IDLE):
        assert taken(budget) == 1
    budget.learn(told(clock, left=499))
    with asking_as(Urgency.HINTED):
        assert taken(budget) == 399


def test_the_last_answers_of_a_window_do_not_spoil_the_next_one(database: Database, clock: Clock) -> None:
    budget = account(database, clock)
    budget.learn(told(clock, left=100))
    clock.now += timedelta(seconds=300)
    budget.take("api")
    budget.learn(told(clock, left=3, seconds=0))
    with database.snapshot() as tx:
        quota = budgets.get(tx, SCOPE, "api")
    assert quota is not None
    assert quota.spent < 10


def test_threads_and_processes_at_once_never_go_beyond(database: Database, clock: Clock) -> None:
    accounts = [account(database, clock) for _ in range(2)]
    accounts[0].learn(told(clock, left=200, limit=200))
    passed: list[int] = []

    def run(budget: SharedBudget) -> None:
        with asking_as(Urgency.HINTED):
            passed.append(taken(budget))

    threads = [threading.Thread(target=run, args=(budget,)) for budget in accounts * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 160


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    limit=st.integers(0, 10**15),
    left=st.integers(0, 10**15),
    window=st.integers(0, 10**9),
    seconds=st.integers(-(10**6), 10**6),
    asked=st.integers(0, 40),
)
def test_whatever_is_told_the_account_holds(
    sqlite_database: Database, limit: int, left: int, window: int, seconds: int, asked: int
) -> None:
    clock = Clock()
    scope = f"{SCOPE} {next(NUMBERS)}"
    budget = SharedBudget(sqlite_database, scope, share=0.8, clock=clock)
    name = Budget(
        name="api",
        remaining=left,
        resets_at=NOW + timedelta(seconds=seconds),
        limit=limit,
        window_s=window,
    )
    budget.learn([name])
    for _ in range(asked):
        with contextlib.suppress(BudgetSpent):
            budget.take("api")
    with sqlite_database.snapshot() as tx:
        for quota in (quota for quota in budgets.every(tx) if quota.scope == scope):
            assert quota.spent <= max(quota.limit, left)


def test_who_shares_a_token_shares_an_account() -> None:
    scopes = {
        scope_of("https://a.example/", None),
        scope_of("https://a.example", None),
        scope_of("https://a.example", "hf_x"),
        scope_of("https://b.example", "hf_x"),
    }
    assert len(scopes) == 3
    assert not any("hf_x" in scope for scope in scopes)


def test_the_client_stops_at_its_share_before_the_hub_has_to_refuse(database: Database) -> None:
    with LoopbackHub(quota={"api": 20}) as hub:
        hub.create("acme/tiny").commit({"README.md": "x"})
        scope = scope_of(hub.url, None)
        gate = SharedBudget(database, scope, share=0.8, clock=lambda: datetime.now(UTC))
        client = HubClient(hub.url, gate=gate)
        with asking_as(Urgency.HINTED):
            for _ in range(16):
                client.head(RepoRef(owner="acme", name="tiny"))
            with pytest.raises(BudgetSpent):
                client.head(RepoRef(owner="acme", name="tiny"))
        assert len(hub.requests) == 16
        assert client.peek(RepoRef(owner="acme", name="tiny")) is None  # another quota; it has no .gitattributes


def test_a_peek_says_where_main_stands_and_nothing_else(hub: LoopbackHub) -> None:
    repo = hub.create("acme/tiny")
    sha = repo.commit({".gitattributes": "*.bin filter=lfs\n"})
    client, name = HubClient(hub.url), RepoRef(owner="acme", name="tiny")
    assert client.peek(name) == sha
    (asked,) = hub.requests
    assert (asked.method, asked.path) == ("HEAD", "/acme/tiny/resolve/main/.gitattributes")
    assert client.peek(RepoRef(owner="acme", name="none")) is None
    hub.model("acme/tiny").gated = "auto"
    assert client.peek(name) is None
