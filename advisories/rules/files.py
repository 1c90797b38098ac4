"""Files as such: unreadable, disguised, unsigned, or of no known kind."""

from __future__ import annotations

from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="document.unreadable",
        title="a file cannot be read",
        severity=Severity.MEDIUM,
        effect="What cannot be read cannot be judged: other readers may fail too, or read something else.",
        advice="Pin {before} until the file is repaired, or look at it by hand.",
        cwe=("CWE-20",),
        standing=True,
    ),
    Rule(
        cls="file.disguised",
        title="a file is not what its name says",
        severity=Severity.CRITICAL,
        effect="The first bytes belie the suffix: a loader that goes by content may run what a scanner skipped.",
        advice="Do not load it; pin {before} and report the file.",
        cwe=("CWE-351", "CWE-506"),
        atlas=("AML.T0011.000",),
        standing=True,
    ),
    Rule(
        cls="file.formatting",
        title="formatting changed",
        severity=Severity.INFO,
        effect="The bytes differ, the content does not.",
        advice="Nothing to do but to record the new checksum.",
    ),
    Rule(
        cls="file.other",
        title="another file changed",
        severity=Severity.INFO,
        effect="A file of no known kind was added, removed or changed.",
        advice="Know it; look at the file if you use it.",
    ),
    Rule(
        cls="signature.lost",
        title="signature lost or signer changed",
        severity=Severity.HIGH,
        effect="What was signed is no longer, or somebody else signs: its origin cannot be shown.",
        advice="Pin the signed commit {before} and ask the owner.",
        cwe=("CWE-345", "CWE-353"),
        atlas=("AML.T0109",),
    ),
)
