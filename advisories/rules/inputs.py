"""Processors and adapters: what stands before or on top of a model."""

from __future__ import annotations

from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="processor.config",
        title="processor settings changed",
        severity=Severity.MEDIUM,
        effect="Images or audio reach the model with other sizes, scales or rates.",
        advice="Process a sample at {before} and {after} and compare before moving.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="adapter.config",
        title="adapter settings changed",
        severity=Severity.MEDIUM,
        effect="The adapter has another rank, other targets or another base model.",
        advice="Load {after} on the base model and revision it names and merge again, or pin {before}.",
        cwe=("CWE-440",),
    ),
)
