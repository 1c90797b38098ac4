"""A loopback Hub and an installation for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Hubwatch
from tracker.demo.hub import LoopbackHub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    """A Hub of its own; a crash inside it fails the test."""
    with LoopbackHub(tmp_path / "hub") as running:
        yield running
    assert not running.crashes


@pytest.fixture
def hubwatch(hub: LoopbackHub, tmp_path: Path) -> Hubwatch:
    """An installation on SQLite."""
    home = tmp_path / "home"
    home.mkdir()
    return Hubwatch(hub.url, f"sqlite:///{home}/hubwatch.db", home)
