"""The model card, the licence and what the model descends from."""

from __future__ import annotations

from advisories.rules.conditions import first_of, when
from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="licence.changed",
        title="licence changed",
        severity=Severity.MEDIUM,
        effect="What you may do with the model is another matter from this commit on.",
        advice="Have the new terms read before moving to {after}; keep a copy of the terms at {before}.",
        base=first_of(
            when("first", Severity.LOW, "a licence is stated for the first time"),
            when("stricter", Severity.HIGH, "the new licence allows less"),
        ),
    ),
    Rule(
        cls="lineage.diverged",
        title="differs from its base model",
        severity=Severity.MEDIUM,
        effect="What claims to be a copy or conversion does not carry the same settings as its base.",
        advice="Compare with the base model and take its values where they matter (end tokens, template).",
        cwe=("CWE-440",),
        standing=True,
    ),
    Rule(
        cls="card.metadata",
        title="model card metadata changed",
        severity=Severity.LOW,
        effect="Tags, pipeline or data sets that tools filter by are others.",
        advice="Know it; check filters that rely on the metadata.",
    ),
    Rule(
        cls="card.only",
        title="model card text changed",
        severity=Severity.INFO,
        effect="Only the text of the card changed.",
        advice="Nothing to do.",
    ),
)
