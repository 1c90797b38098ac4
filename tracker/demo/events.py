"""The bodies of the Hub's webhooks (version 3), for what happens on a loopback hub."""

from __future__ import annotations

import hashlib
from typing import Any

from tracker.demo.store import Model

WEBHOOK_ID = "65d9f396bbebdd1f43d027fe"


def content_event(
    model: Model, updates: dict[str, tuple[str | None, str | None]], *, endpoint: str, action: str = "update"
) -> dict[str, Any]:
    """``repo.content``: refs moved, ``{ref: (old sha, new sha)}``; None where a ref was made or deleted."""
    return {
        "event": {"action": action, "scope": "repo.content"},
        "repo": _repo(model, endpoint),
        "webhook": {"id": WEBHOOK_ID, "version": 3},
        "updatedRefs": [{"ref": ref, "oldSha": old, "newSha": new} for ref, (old, new) in updates.items()],
    }


def move_event(model: Model, moved_to: str, *, endpoint: str) -> dict[str, Any]:
    """``repo`` moved: the model under its old name, and the new one."""
    return {
        "event": {"action": "move", "scope": "repo"},
        "repo": _repo(model, endpoint),
        "movedTo": {"name": moved_to, "owner": {"id": _owner_id(moved_to)}},
        "webhook": {"id": WEBHOOK_ID, "version": 3},
    }


def _repo(model: Model, endpoint: str) -> dict[str, Any]:
    return {
        "type": "model",
        "name": model.id,
        "id": model.hub_id,
        "private": model.private,
        "url": {"web": f"{endpoint}/{model.id}", "api": f"{endpoint}/api/models/{model.id}"},
        "headSha": model.repo.resolve("main"),
        "owner": {"id": _owner_id(model.id)},
    }


def _owner_id(name: str) -> str:
    return hashlib.sha256(name.partition("/")[0].encode()).hexdigest()[:24]
