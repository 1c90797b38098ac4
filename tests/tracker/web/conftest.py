"""A database with a history in it, and the application over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.testclient import TestClient

from storage import blobs, history, tokens
from storage.database import Database
from storage.model import (
    Change,
    Estimate,
    EstimateStatus,
    FileEntry,
    Finding,
    Landing,
    Manifest,
    RepoRef,
    Scope,
    Severity,
)
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, revision
from tracker.demo.hub import LoopbackHub
from tracker.settings import Settings
from tracker.web.app import create_app

OTHER = RepoRef(owner="birch", name="stories")
NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Site:
    """An application, its database, and clients with and without a token."""

    def __init__(self, database: Database, **settings: Any) -> None:
        self.database = database
        self.settings = Settings(database_url="sqlite:///unused.db", **settings)
        self.app = create_app(self.settings, database, clock=lambda: NOW)
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def token(self, *scopes: Scope, name: str = "test") -> dict[str, str]:
        """The header of a new token."""
        with self.database.transaction() as tx:
            _, secret = tokens.create(tx, name, scopes, now=NOW)
        return {"Authorization": f"Bearer {secret}"}

    def get(self, path: str, **headers: str) -> Any:
        """The JSON of a page that is there."""
        answer = self.client.get(path, headers=headers)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()


@pytest.fixture
def kept(database: Database) -> Kept:
    """Six revisions of acme/tiny-llm: B opens, C takes its place, A closes it, B comes back."""
    kept = Kept(database)
    with database.transaction() as tx:
        for value in "ABBCAB":
            number = kept.story.position
            step = kept.story.land({"config:rope": value})
            data = b'{"rope": "%s"}' % value.encode()
            entry = FileEntry(path="config.json", size=len(data), blob_id=f"{ord(value):040x}")
            extra = replace(entry, path=f"extra{number}.txt")
            blobs.put(tx, entry.content_key, data)
            history.land(
                tx,
                Landing(
                    repo=REPO,
                    ref="main",
                    revision=revision(number),
                    observed_at=kept.story.clock(number),
                    backfill=False,
                    manifest=Manifest(files={"config.json": entry, extra.path: extra}),
                    gaps=(),
                    findings=_findings(number, value),
                    estimate=_estimate(number),
                    advisories=step.advisories,
                    events=step.events,
                ),
            )
    return kept


def _findings(number: int, value: str) -> tuple[Finding, ...]:
    change = Change(
        cls="config.rope" if number % 2 else "card.only",
        path="config.json",
        summary="\ud800 <b>changed</b> \u202e",
        pointer="/rope",
        before=float("nan"),
        after=value,
    )
    severity = Severity.HIGH if number % 2 else Severity.INFO
    return (Finding(change=change, severity=severity, reason="because"),) if number else ()


def _estimate(number: int) -> Estimate:
    return Estimate(
        estimator="exact",
        version="1",
        status=EstimateStatus.EXACT,
        source="closed_form",
        model_type="llama",
        architecture="LlamaForCausalLM",
        body={"parameters": {"total": 1000 + number}, "cards": [{"name": "L4"}], "structure": []},
    )


@pytest.fixture
def site(kept: Kept) -> Site:
    """The application over that history, reading open."""
    return Site(kept.database)


@pytest.fixture
def upstream(tmp_path: Any) -> Iterator[LoopbackHub]:
    """A Hub that the application may ask."""
    with LoopbackHub(tmp_path / "hub") as running:
        yield running
