from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisories.ids import ALPHABET, advisory_id, state_key, year_of

HUB = "https://huggingface.co"
SHA = "b" * 40
NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)
FORM = re.compile(rf"x_HUBWATCH-[0-9]{{4}}(?:-[{ALPHABET}]{{4}}){{3,}}")


def make(
    identity: str = HUB,
    repo: str = "acme/tiny-llm",
    cls: str = "config.rope",
    sha: str = SHA,
    *,
    taken: Callable[[str], bool] = lambda _: False,
) -> str:
    return advisory_id(
        identity,
        repo,
        cls,
        sha,
        committed_at=NOW,
        repo_created_at=datetime(2024, 1, 1, tzinfo=UTC),
        now=NOW,
        taken=taken,
    )


# These were published. They must never change: every installation gives the same change the same id.
GOLDEN = [
    ((HUB, "acme/tiny-llm", "config.rope", SHA), "x_HUBWATCH-2026-69j8-8cj9-2546"),
    ((HUB, "acme/tiny-llm", "template.generation_prompt", SHA), "x_HUBWATCH-2026-g68p-vp37-rr9h"),
    ((HUB, "acme/Tiny-LLM", "config.rope", SHA), "x_HUBWATCH-2026-8q6w-qw35-xx9h"),
    (("http://127.0.0.1:8610", "acme/tiny-llm", "config.rope", SHA), "x_HUBWATCH-2026-5q9w-w28x-wfr6"),
    ((HUB, "acme/tiny-llm", "config.rope", "c" * 64), "x_HUBWATCH-2026-vhqg-4xv8-ch57"),
    ((HUB, "acme/tiny-llm", "repo.gated", state_key("gated:auto", SHA)), "x_HUBWATCH-2026-pv88-fx2c-2jwq"),
]


@pytest.mark.parametrize(("parts", "expected"), GOLDEN)
def test_golden_ids_never_change(parts: tuple[str, str, str, str], expected: str) -> None:
    assert make(*parts) == expected


def test_the_documented_algorithm_by_hand() -> None:
    import hashlib

    number = int(hashlib.sha256("\n".join((HUB, "acme/tiny-llm", "config.rope", SHA)).encode()).hexdigest(), 16)
    digits = ""
    for _ in range(12):
        digits += ALPHABET[number % 20]
        number //= 20
    assert make() == f"x_HUBWATCH-2026-{digits[:4]}-{digits[4:8]}-{digits[8:]}"


@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=100))
def test_every_id_has_the_form(repo: str, cls: str, sha: str) -> None:
    made = make(repo=repo, cls=cls, sha=sha)
    assert FORM.fullmatch(made)
    assert len(made) <= 100


def test_a_collision_appends_one_group_at_a_time() -> None:
    plain = make()
    longer = make(taken={plain}.__contains__)
    assert re.fullmatch(re.escape(plain) + rf"-[{ALPHABET}]{{4}}", longer)
    longest = make(taken={plain, longer}.__contains__)
    assert re.fullmatch(re.escape(longer) + rf"-[{ALPHABET}]{{4}}", longest)


def test_even_if_everything_is_taken_it_comes_to_an_end_within_the_limit_of_the_format() -> None:
    made = make(taken=lambda _: True)
    assert FORM.fullmatch(made)
    assert len(made) <= 100


@pytest.mark.parametrize(
    ("claimed", "created", "year"),
    [
        (2025, 2024, 2025),
        (1970, 2024, 2024),  # older than its repo
        (2099, 2024, 2026),  # from the future
        (1970, None, 1970),
        (2025, 2031, 2026),  # a repo from the future: now wins
    ],
)
def test_the_year_is_the_commits_within_reason(claimed: int, created: int | None, year: int) -> None:
    made = year_of(
        datetime(claimed, 6, 1, tzinfo=UTC),
        repo_created_at=datetime(created, 1, 1, tzinfo=UTC) if created else None,
        now=NOW,
    )
    assert made == year


def test_the_year_is_in_utc() -> None:
    eastern = datetime.fromisoformat("2026-01-01T03:00:00+08:00")
    assert year_of(eastern, repo_created_at=None, now=NOW) == 2025
