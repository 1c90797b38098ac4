"""An audit as JSON under the keys of the public contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from advisories.audit.model import Audit, Gap, Holding, Notice, Reference
from advisories.audit.pins import Pin, pins
from advisories.view import clipped
from storage.model import Severity


def to_json(audit: Audit, *, fix: bool = False) -> dict[str, Any]:
    """The audit under its public keys; with ``fix`` also ``pins``."""
    made: dict[str, Any] = {
        "references": [_reference(item) for item in audit.references],
        "findings": [_finding(holding, notice) for holding, notice in audit.findings],
        "held": [_holding(item) for item in audit.holdings if item.sha or item.head],
        "gaps": [_gap(gap) for gap in audit.gaps],
    }
    if fix:
        made["pins"] = [_pin(pin) for pin in pins(audit)]
    return made


def failing(audit: Audit, fail_on: Severity | None) -> bool:
    """Whether anything found is as grave as ``fail_on``; None: nothing ever is."""
    return fail_on is not None and audit.worst is not None and audit.worst >= fail_on


def _reference(item: Reference) -> dict[str, Any]:
    return {
        "repo": item.repo,
        "revision": None if item.revision is None else clipped(item.revision, 200),
        "pinned": item.pinned,
        "pinning": item.pinning.value,
        "file": clipped(item.file, 4096),
        "line": item.line,
        "notation": item.notation.value,
        "via": clipped(item.via, 200),
    }


def _finding(holding: Holding, notice: Notice) -> dict[str, Any]:
    reference = holding.reference
    return {
        "repo": reference.repo,
        "revision": reference.revision,
        "sha": holding.sha,
        "advisory": notice.id,
        "severity": notice.severity.label,
        "class": notice.cls,
        "summary": clipped(notice.summary),
        "file": clipped(reference.file, 4096),
        "line": reference.line,
    }


def _holding(item: Holding) -> dict[str, Any]:
    return {
        "repo": item.reference.repo,
        "revision": item.reference.revision,
        "file": clipped(item.reference.file, 4096),
        "line": item.reference.line,
        "sha": item.sha,
        "head": item.head,
        "behind": item.behind,
        "affected": _ids(item.affected),
        "gained": _ids(item.gained),
        "lost": _ids(item.lost),
        "since": [
            {
                "advisory": notice.id,
                "severity": notice.severity.label,
                "class": notice.cls,
                "summary": clipped(notice.summary),
            }
            for notice in item.since
        ],
    }


def _ids(notices: Iterable[Notice]) -> list[str]:
    return [notice.id for notice in notices]


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "reason": gap.reason,
        "detail": clipped(gap.detail, 300),
        "repo": gap.repo,
        "revision": None if gap.revision is None else clipped(gap.revision, 200),
        "file": None if gap.file is None else clipped(gap.file, 4096),
        "line": gap.line,
    }


def _pin(pin: Pin) -> dict[str, Any]:
    return {
        "file": clipped(pin.reference.file, 4096),
        "line": pin.reference.line,
        "repo": pin.reference.repo,
        "sha": pin.sha,
        "write": pin.write,
        "how": pin.how,
        "judged": pin.sha is not None,
        "open": None if pin.sha is None else _ids(pin.worries),
    }
