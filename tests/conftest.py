"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support.databases import *  # noqa: F403 - fixtures

ROOT = Path(__file__).resolve().parent.parent

# What a test says must hold on a busy machine, too.
settings.register_profile("hubwatch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hubwatch")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command that was run in this process says what is logged, for every test that comes after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The collection of real model files; skips without it, fails where it is required."""
    folder = Path(os.environ.get("HUBWATCH_CORPUS") or ROOT.parent / "shared").resolve()
    if (folder / "corpus" / "INDEX.json").is_file():
        return folder
    if os.environ.get("HUBWATCH_REQUIRE_CORPUS") == "1":
        pytest.fail(f"HUBWATCH_REQUIRE_CORPUS=1, but there is no corpus at {folder}")
    pytest.skip(f"no corpus of real model files at {folder}: set HUBWATCH_CORPUS")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their length: archives hold the time, and a test must have one name in every process."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None
