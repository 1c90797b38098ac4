"""Rate limit headers: read whole, never a crash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.hub.limits import DEFAULT_PAUSE_S, MAX_PAUSE_S, parse_budgets, parse_pause, parse_retry_after

NOW = datetime(2026, 10, 1, 12, 0, 0, tzinfo=UTC)
API = {"ratelimit": '"api";r=499;t=295', "ratelimit-policy": '"fixed window";"api";q=500;w=300'}


def test_a_budget_and_its_policy_are_read() -> None:
    (budget,) = parse_budgets(API, NOW)
    assert (budget.name, budget.remaining, budget.limit, budget.window_s) == ("api", 499, 500, 300)
    assert budget.resets_at == NOW + timedelta(seconds=295)
    assert budget.wait(NOW) == 0


def test_several_budgets_in_one_header_are_all_read() -> None:
    headers = {
        "RateLimit": '"api";r=0;t=10, "resolvers";r=2996;t=281',
        "RateLimit-Policy": '"fixed window";"api";q=500;w=300,"fixed window";"resolvers";q=3000;w=300',
    }
    api, resolvers = parse_budgets(headers, NOW)
    assert (api.name, api.limit, resolvers.name, resolvers.limit) == ("api", 500, "resolvers", 3000)
    assert api.wait(NOW) == 10
    assert api.wait(NOW + timedelta(seconds=11)) == 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"ratelimit": '"api";r=0;t=55'}, 55),
        ({"retry-after": "120"}, 120),
        ({"retry-after": "Thu, 01 Oct 2026 12:02:00 GMT"}, 120),
        ({"ratelimit": '"api";r=0;t=55', "retry-after": "120"}, 120),
        ({"ratelimit": '"api";r=0;t=290', "retry-after": "120"}, 290),
        ({"ratelimit": '"api";r=0;t=290', "retry-after": "Thu, 01 Oct 2026 12:02:00 GMT"}, 290),
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, DEFAULT_PAUSE_S),
        # a clock of ours that is hours late, then hours early; then a date that is years off
        ({"Retry-After": "Thu, 01 Oct 2026 15:02:00 GMT", "Date": "Thu, 01 Oct 2026 15:00:00 GMT"}, 120),
        ({"Retry-After": "Thu, 01 Oct 2026 09:02:00 GMT", "Date": "Thu, 01 Oct 2026 09:00:00 GMT"}, 120),
        ({"Retry-After": "Thu, 01 Oct 2026 12:02:00 GMT", "Date": "Thu, 01 Jan 1970 00:00:00 GMT"}, 120),
        ({"Retry-After": "Thu, 01 Oct 2026 12:02:00 GMT", "Date": "tomorrow"}, 120),
        ({}, DEFAULT_PAUSE_S),
        ({"retry-after": "soon", "ratelimit": "none"}, DEFAULT_PAUSE_S),
        ({"retry-after": "999999999999"}, MAX_PAUSE_S),
    ],
)
def test_of_both_headers_the_longer_pause_counts(headers: dict[str, str], seconds: float) -> None:
    assert parse_pause(headers, NOW) == seconds


@given(st.text() | st.from_regex(r'"[a-z]+"\s*;\s*r=\d+;\s*t=\d+', fullmatch=True), st.text())
def test_any_rate_limit_header_is_survived(limit: str, policy: str) -> None:
    for budget in parse_budgets({"RateLimit": limit, "RateLimit-Policy": policy}, NOW):
        assert NOW <= budget.resets_at <= NOW + timedelta(seconds=MAX_PAUSE_S)
        assert 0 <= budget.wait(NOW) <= MAX_PAUSE_S


@given(
    st.text()
    | st.from_regex(
        r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{1,6} \d\d:\d\d:\d\d [A-Z+\-0-9]{1,6}", fullmatch=True
    )
    | st.integers().map(str)
    | st.floats().map(str)
)
def test_any_retry_after_is_survived(value: str) -> None:
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= MAX_PAUSE_S
    assert 0 <= parse_pause({"Retry-After": value}, NOW) <= MAX_PAUSE_S


@given(st.integers(min_value=0, max_value=80_000))
def test_seconds_and_the_date_that_far_off_mean_the_same(seconds: int) -> None:
    date = (NOW + timedelta(seconds=seconds)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert parse_retry_after(str(seconds), NOW) == parse_retry_after(date, NOW) == seconds
