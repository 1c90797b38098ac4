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
        advice="Pin {before}, not main, until tokenization is compared; then record the sha256 of {after}.",
        cwe=("CWE-494", "CWE-354"),
        atlas=("AML.T0018.000",),
    ),
    Rule(
        cls="gguf.metadata",
        title="GGUF metadata changed",
        severity=Severity.HIGH,
        effect="A wrong pre-tokenizer or template in the header gives wrong output with no error.",
        advice="Compare output at {before} and {after}, then download it and make derived quants again.",
        cwe=("CWE-1288",),
        standing=True,
    ),
)
