"""Money, written one way everywhere: on pages, in the terminal, on cards."""

from __future__ import annotations


def usd(amount: float) -> str:
    """An amount of US dollars with its cents: ``$0.75``, ``$1,234.50``."""
    return f"${amount:,.2f}"
