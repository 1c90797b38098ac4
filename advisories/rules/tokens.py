"""Special tokens, wherever they are named."""

from __future__ import annotations

from advisories.rules.conditions import when
from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="tokens.eos",
        title="end-of-sequence token changed",
        severity=Severity.HIGH,
        effect="Generation does not end, or ends too soon.",
        advice="Stop on every end token that any of the files names, or pin {before} until your output ends.",
        cwe=("CWE-835",),
        base=when(
            "first", Severity.MEDIUM, "named for the first time: nothing ended generation by this file before"
        ),
    ),
    Rule(
        cls="tokens.inconsistent",
        title="files disagree on special tokens",
        severity=Severity.HIGH,
        effect="Which end token counts depends on the file a runtime reads: some run on without end.",
        advice="Set the end tokens yourself (eos_token_id=) until config, generation config and tokenizer agree.",
        cwe=("CWE-1288", "CWE-835"),
        standing=True,
    ),
    Rule(
        cls="tokens.special",
        title="special tokens changed",
        severity=Severity.MEDIUM,
        effect="Padding, start or unknown tokens are other ids: batches and training masks move.",
        advice="Compare the ids with your training and serving code before moving to {after}.",
        cwe=("CWE-440",),
    ),
)
