"""Fixtures of the storms."""

from tests.storms.world import nobody_sleeps

__all__ = ["nobody_sleeps"]
