"""Code that runs when a model is loaded."""

from __future__ import annotations

from advisories.rules.conditions import listed
from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="code.auto_map_added",
        title="custom code hooked into loading (auto_map)",
        severity=Severity.CRITICAL,
        effect="A loader that trusts remote code now runs Python from this repo; some servers did so unasked.",
        advice="Stop loading main; read the named files at {after} before any load, or pin {before}.",
        cwe=("CWE-829", "CWE-94"),
        atlas=("AML.T0011.000", "AML.T0109"),
        standing=True,
    ),
    Rule(
        cls="code.changed",
        title="Python code changed",
        severity=Severity.HIGH,
        effect="The code runs with the user's rights at the next load of main, and may no longer fit the weights.",
        advice="Read the difference, then pin code and weights at one commit: {before} until it is checked.",
        cwe=("CWE-829", "CWE-494", "CWE-1357"),
        atlas=("AML.T0011.000", "AML.T0109"),
        standing=True,
        base=listed("dangerous", Severity.CRITICAL, "the code newly executes, spawns, connects or writes"),
    ),
    Rule(
        cls="code.cross_repo",
        title="code comes from another repo",
        severity=Severity.HIGH,
        effect="A pin of this repo does not pin the code: it is read from another repo's main.",
        advice="Set code_revision to a commit of the other repo that you have read, or pin {before} until then.",
        cwe=("CWE-829", "CWE-1357"),
        atlas=("AML.T0010.003", "AML.T0109"),
        standing=True,
    ),
    Rule(
        cls="code.removed",
        title="custom code removed",
        severity=Severity.MEDIUM,
        effect="Library versions without this architecture built in can no longer load main.",
        advice="Pin {before} for old library versions, or upgrade to one that has the architecture built in.",
        cwe=("CWE-1104", "CWE-440"),
    ),
    Rule(
        cls="code.requirements",
        title="requirements changed",
        severity=Severity.MEDIUM,
        effect="Other packages must be installed before the repo's code works.",
        advice="Pin {before} and a lock file until every new or loosened requirement is checked.",
        cwe=("CWE-1357",),
    ),
)
