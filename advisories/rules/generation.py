"""Generation defaults that servers take from the repo."""

from __future__ import annotations

from advisories.rules.conditions import when
from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="genconfig.sampling",
        title="default sampling changed",
        severity=Severity.HIGH,
        effect="Servers that take sampling from the repo give other outputs, scores and policy ratios.",
        advice="Set temperature, top_p and the like in your own requests, or pin {before}.",
        cwe=("CWE-1434",),
        base=when(
            "first", Severity.MEDIUM, "stated for the first time: no value of the repo's own was there to rely on"
        ),
    ),
    Rule(
        cls="genconfig.type",
        title="a generation setting has another type",
        severity=Severity.MEDIUM,
        effect="Code that expects one type (an id, not a list of ids) fails.",
        advice="Accept both types where you read the setting, or pin {before}.",
        cwe=("CWE-1288",),
    ),
)
