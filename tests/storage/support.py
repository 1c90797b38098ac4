"""Values for storage tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from storage.model import (
    Advisory,
    Change,
    FileEntry,
    Finding,
    Landing,
    Manifest,
    RepoRef,
    Revision,
    Severity,
    Span,
    TrackedFinding,
)

NOW = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
REPO = RepoRef(owner="acme", name="tiny")
OTHER = RepoRef(owner="acme", name="other")


def sha(label: object) -> str:
    """A commit sha for a label."""
    return hashlib.sha1(str(label).encode(), usedforsecurity=False).hexdigest()


def tree(files: Mapping[str, str]) -> Manifest:
    """A manifest of paths with contents named by a word."""
    entries = (FileEntry(path=path, size=len(word), blob_id=sha(word)) for path, word in files.items())
    return Manifest(files={entry.path: entry for entry in entries})


def revision(label: object, **changed: Any) -> Revision:
    """A commit."""
    given = {
        "sha": sha(label),
        "committed_at": NOW - timedelta(days=1),
        "author": "ada",
        "title": f"commit {label}",
    }
    return Revision(**{**given, **changed})


def landing(label: object, files: Mapping[str, str] | None = None, **changed: Any) -> Landing:
    """A landing of a commit with a tree and nothing else, unless told."""
    given: dict[str, Any] = {
        "repo": REPO,
        "ref": "main",
        "revision": revision(label),
        "observed_at": NOW,
        "backfill": False,
        "manifest": tree(files if files is not None else {"config.json": str(label)}),
        "gaps": (),
        "findings": (),
        "estimate": None,
        "advisories": (),
        "events": (),
    }
    return Landing(**{**given, **changed})


def finding(path: str = "config.json", **changed: Any) -> Finding:
    """A finding with every field set."""
    given: dict[str, Any] = {
        "cls": "config.eos",
        "path": path,
        "summary": "eos_token_id changed",
        "pointer": "/eos_token_id",
        "before": 2,
        "after": [2, 3],
        "facet": f"config:{path}#/eos_token_id",
        "before_digest": "0" * 32,
        "after_digest": "1" * 32,
        "facts": {"added": [3]},
    }
    return Finding(change=Change(**{**given, **changed}), severity=Severity.HIGH, reason="generation may not stop")


def advisory(number: int, *spans: Span, holds: bool = True, **changed: Any) -> Advisory:
    """An advisory with these spans."""
    given: dict[str, Any] = {
        "id": f"x_HUBWATCH-2026-2222-2222-{number:04d}",
        "repo": REPO,
        "cls": "config.eos",
        "severity": Severity.HIGH,
        "reason": "generation may not stop",
        "introduced": spans[0].introduced if spans else sha("state"),
        "predecessor": None,
        "ref": "main",
        "findings": (TrackedFinding(finding=finding(), holds=holds, ended_by=None if holds else "restored"),),
        "spans": spans,
        "published": NOW,
        "modified": NOW,
    }
    return Advisory(**{**given, **changed})
