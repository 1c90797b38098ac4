"""GGUF files."""

from __future__ import annotations

from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="gguf.replaced",
        title="GGUF file replaced under the same name",
        severity=Severity.HIGH,
        effect="Checksums recorded downstream fail after a full download, and outputs differ.",
        advice="Pin a commit instead of main, record the new sha256 and compare tokenization before moving.",
        cwe=("CWE-494", "CWE-354"),
        atlas=("AML.T0018.000",),
    ),
    Rule(
        cls="gguf.metadata",
        title="GGUF metadata changed",
        severity=Severity.HIGH,
        effect="A wrong pre-tokenizer or template in the header gives wrong output with no error.",
        advice="Download the rebuilt file and convert derived quants again.",
        cwe=("CWE-1288",),
        standing=True,
    ),
)
