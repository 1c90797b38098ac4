"""Money is written one way."""

from __future__ import annotations

import pytest

from tracker.money import usd


@pytest.mark.parametrize(
    ("amount", "told"),
    [(0.75, "$0.75"), (0, "$0.00"), (1234.5, "$1,234.50"), (0.004, "$0.00"), (1e6, "$1,000,000.00")],
)
def test_an_amount_has_its_sign_ahead_and_its_cents(amount: float, told: str) -> None:
    assert usd(amount) == told
