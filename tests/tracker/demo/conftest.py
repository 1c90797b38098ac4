"""A running hub, and plain HTTP and git against it."""

from __future__ import annotations

import http.client
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from huggingface_hub import HfApi, constants

from tracker.demo.hub import LoopbackHub


@dataclass(frozen=True)
class Reply:
    """An answer as it came: header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub(tmp_path / "hub") as running:
        yield running
    assert running.crashes == []


@pytest.fixture
def api(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> HfApi:
    """The real client, without Xet and without a token of the person who runs the tests."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    return HfApi(endpoint=hub.url, token=False)


@pytest.fixture
def ask() -> Callable[..., Reply]:
    """One plain request, no redirects followed."""

    def send(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Reply:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=20)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(method, target, body, {k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, fields, answer.read())
        finally:
            connection.close()

    return send


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., Any]:
    """Run git with no configuration of the machine's."""

    def run(*arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        return subprocess.run(
            ["git", *map(str, arguments)], env=environment, capture_output=True, text=True, check=check, timeout=60
        )

    return run
