"""An audit as JSON under the keys of the public contract, and the pins that would hold what floats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from advisories.audit.find.python_loaders import LOADERS
from advisories.audit.model import Audit, Gap, Holding, Notation, Notice, Reference
from advisories.view import clipped
from storage.model import Severity

_CALLS_WITH_REVISION = frozenset({Notation.PYTHON, Notation.NOTEBOOK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What to write so that a floating reference holds a commit.

    ``write`` is the text for its notation; None where the notation cannot pin (``how`` then says what to do).
    ``worries`` are the advisories open at that commit, the gravest first.
    """

    reference: Reference
    sha: str
    write: str | None
    how: str
    worries: tuple[Notice, ...] = ()


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


def pins(audit: Audit) -> list[Pin]:
    """A pin for every floating reference whose head is known, at that head."""
    return [
        Pin(
            reference=holding.reference,
            sha=holding.head,
            write=_written(holding.reference, holding.head),
            how=_how(holding.reference),
            worries=holding.affected,
        )
        for holding in audit.holdings
        if holding.head and not holding.reference.pinned
    ]


def failing(audit: Audit, fail_on: Severity | None) -> bool:
    """Whether anything found is as grave as ``fail_on``; None: nothing ever is."""
    return fail_on is not None and audit.worst is not None and audit.worst >= fail_on


def _written(reference: Reference, sha: str) -> str | None:
    via = reference.via
    if via == "hf://":
        return f"hf://{reference.repo}@{sha}"
    if via == "hf-hub:":
        return f"hf-hub:{reference.repo}@{sha}"
    if via == "url":
        return f"resolve/{sha}"
    if via == "auto_map" or via.startswith(("-hf", "--hf-repo", "ollama", "ramalama", "FROM", "git clone")):
        return None
    if via == "purl":
        return f"pkg:huggingface/{reference.repo}@{sha}"
    if via in {"pretrained", "peft"}:
        return f"revision={sha}"
    if via.startswith("--") or via in {"hf download", "vllm serve", "sglang serve"}:
        return f"--revision {sha}"
    if reference.notation in _CALLS_WITH_REVISION or via in LOADERS:  # also Python inside a shell script
        return f'revision="{sha}"'
    if via.isupper():
        return f"{_stem(via).upper()}_REVISION={sha}"
    if reference.notation is Notation.JSON:
        return f'"revision": "{sha}"'
    if reference.notation is Notation.TOML:
        return f'revision = "{sha}"'
    return f"revision: {sha}"


def _stem(variable: str) -> str:
    for ending in ("_ID", "_NAME", "_PATH", "_NAME_OR_PATH"):
        variable = variable.removesuffix(ending)
    return variable


def _how(reference: Reference) -> str:
    if reference.via.startswith(("-hf", "--hf-repo", "ollama", "ramalama", "FROM")):
        return "this notation has no revision: download the commit and name the file"
    if reference.via == "git clone":
        return "check the commit out after cloning"
    if reference.via == "auto_map":
        return "pass code_revision where the model is loaded"
    if reference.via.isupper():
        return "a variable pins only if what loads the model reads it (text-generation-inference reads REVISION)"
    if reference.notation is Notation.YAML:
        return "write it beside the repo; a list of names cannot hold it: make it entries with repo and revision"
    return "write it beside the repo"


def _reference(item: Reference) -> dict[str, Any]:
    return {
        "repo": item.repo,
        "revision": None if item.revision is None else clipped(item.revision, 200),
        "pinned": item.pinned,
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
        "open": _ids(pin.worries),
    }
