"""An audit as SARIF 2.1.0, for code scanning: a rule a change class, a result a finding, gaps as notifications."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from advisories.audit.model import Audit, Gap, Holding, Notice, Place
from advisories.rules.registry import rule_of
from advisories.text import markdown, one_line
from storage.errors import HubwatchError
from storage.model import Severity

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
INFORMATION = "https://osv.dev/"
ROOT = "SRCROOT"
_LEVELS = {
    Severity.INFO: "none",
    Severity.LOW: "note",
    Severity.MEDIUM: "warning",
    Severity.HIGH: "error",
    Severity.CRITICAL: "error",
}
# Code scanning sorts by a number: the middle of what it calls low, medium, high and critical.
_SCORES = {
    Severity.INFO: "0.0",
    Severity.LOW: "2.0",
    Severity.MEDIUM: "5.5",
    Severity.HIGH: "8.0",
    Severity.CRITICAL: "9.5",
}
_LONGEST = 4096  # bytes of a file's name
_MOST = 5000  # results, as many as code scanning takes with room to spare


def to_sarif(audit: Audit) -> dict[str, Any]:
    """The audit as a SARIF log of one run. Columns count characters; files are relative to what was audited."""
    found = audit.findings[:_MOST]
    classes = sorted({notice.cls for _, notice in found})
    worst = {cls: max(notice.severity for _, notice in found if notice.cls == cls) for cls in classes}
    index = {cls: place for place, cls in enumerate(classes)}
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "hubwatch",
                "semanticVersion": version("hubwatch"),
                "version": version("hubwatch"),
                "informationUri": INFORMATION,
                "rules": [_rule(cls, worst[cls]) for cls in classes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": "hubwatch/audit/"},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notification(gap) for gap in audit.gaps[:_MOST]],
            }
        ],
        "results": [_result(holding, notice, index[notice.cls]) for holding, notice in found],
    }
    if audit.base is not None:
        run["originalUriBaseIds"] = {ROOT: {"uri": Path(audit.base).as_uri().rstrip("/") + "/"}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(cls: str, severity: Severity) -> dict[str, Any]:
    try:
        rule = rule_of(cls)
        title, effect, advice = rule.title, rule.effect, rule.advise(before=None, after="the new commit")
        tags = [*rule.cwe, *rule.atlas]
    except (HubwatchError, KeyError):
        title, effect, advice, tags = cls, "A change that this version does not know.", "Read the advisory.", []
    name = "".join(part.capitalize() for part in cls.replace(".", "_").split("_"))
    return {
        "id": cls,
        "name": name,
        "shortDescription": {"text": _sentence(title)},
        "fullDescription": {"text": _sentence(effect)},
        "help": {
            "text": f"{_sentence(effect)} {_sentence(advice)}",
            "markdown": f"{markdown(_sentence(effect), 1000)}\n\n{markdown(_sentence(advice), 1000)}",
        },
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {"security-severity": _SCORES[severity], "tags": ["security", "model", *tags][:10]},
    }


def _sentence(text: str) -> str:
    line = one_line(text, 1000)
    if line.partition(" ")[0].isalpha():  # names are left as they are
        line = line[:1].upper() + line[1:]
    return line + ("" if line.endswith((".", "!", "?", "…")) else ".")


def _result(holding: Holding, notice: Notice, rule: int) -> dict[str, Any]:
    reference = holding.reference
    held = f" (held at {holding.sha[:12]})" if holding.sha else ""
    print_of = hashlib.sha256(
        "\0".join((notice.id, reference.repo, reference.file, reference.via)).encode("utf-8", "replace")
    )
    return {
        "ruleId": notice.cls,
        "ruleIndex": rule,
        "level": _LEVELS[notice.severity],
        "message": {"text": _sentence(f"{one_line(notice.summary, 300)}{held}: {notice.id}")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(reference.file), "uriBaseId": ROOT},
                    "region": _region(reference.place),
                }
            }
        ],
        "partialFingerprints": {"hubwatchFinding/v1": print_of.hexdigest()[:32]},
        "properties": {
            "advisory": notice.id,
            "repo": reference.repo,
            "revision": None if reference.revision is None else one_line(reference.revision, 200),
            "pinned": reference.pinned,
            "pinning": reference.pinning.value,
            "security-severity": _SCORES[notice.severity],
        },
    }


def _region(place: Place) -> dict[str, int]:
    region = {"startLine": max(place.line, 1)}
    if place.column is not None:
        region["startColumn"] = place.column
        if place.end_column is not None and place.end_column > place.column:
            region["endLine"] = place.line
            region["endColumn"] = place.end_column
    return region


def _notification(gap: Gap) -> dict[str, Any]:
    about = f"{gap.repo}: " if gap.repo else ""
    made: dict[str, Any] = {
        "descriptor": {"id": gap.reason},
        "level": "note",
        "message": {"text": _sentence(f"{about}{gap.detail}")},
    }
    if gap.file:
        location: dict[str, Any] = {"artifactLocation": {"uri": _uri(gap.file), "uriBaseId": ROOT}}
        if gap.line:
            location["region"] = {"startLine": gap.line}
        made["locations"] = [{"physicalLocation": location}]
    return made


def _uri(file: str) -> str:
    try:
        data = file.encode("utf-8", "surrogateescape")  # a file's name as the system has it
    except UnicodeEncodeError:
        data = file.encode("utf-8", "surrogatepass")
    return quote(data[:_LONGEST], safe="/-._~!$&'()*+,;=@")
