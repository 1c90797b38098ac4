"""A loopback Hub, and a server that answers whatever a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.tracker.hub.scripted import Script
from tracker.demo.hub import LoopbackHub
from tracker.hub.client import HubClient


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with LoopbackHub() as running:
        yield running
    assert running.crashes == []


@pytest.fixture
def script() -> Iterator[Script]:
    with Script() as running:
        yield running


@pytest.fixture
def other() -> Iterator[Script]:
    """A second origin."""
    with Script() as running:
        yield running


@pytest.fixture
def connect() -> Callable[..., HubClient]:
    def make(server: LoopbackHub | Script, token: str | None = None, **options: Any) -> HubClient:
        return HubClient(server.url, token, **{"deadline_s": 30.0, "connect_s": 5.0, "read_s": 10.0, **options})

    return make
