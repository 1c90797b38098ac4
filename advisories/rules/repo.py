"""States of a repo: what the Hub answers for it. These have no introducing commit."""

from __future__ import annotations

from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="repo.owner_changed",
        title="the name belongs to another repo now",
        severity=Severity.CRITICAL,
        effect="A freed name was taken: what loads under it comes from somebody else.",
        advice="Block the name; treat it as a new, untrusted repo and go back to a verified copy of {before}.",
        cwe=("CWE-706", "CWE-672"),
        atlas=("AML.T0010.003", "AML.T0073"),
        repo_state=True,
    ),
    Rule(
        cls="repo.lookalike",
        title="a repo imitates a watched one",
        severity=Severity.CRITICAL,
        effect="A name close to a known one serves another model to people who mistype or trust a search.",
        advice="Check the owner's spelling wherever the name is used.",
        cwe=("CWE-1007", "CWE-451"),
        atlas=("AML.T0073", "AML.T0074", "AML.T0111"),
        repo_state=True,
    ),
    Rule(
        cls="repo.deleted",
        title="repo gone",
        severity=Severity.HIGH,
        effect="Builds fail, and people turn to copies of unknown fidelity.",
        advice="Serve from your own mirror of {before}, and compare checksums before using any other copy.",
        cwe=("CWE-672", "CWE-1104"),
        repo_state=True,
    ),
    Rule(
        cls="repo.gated",
        title="repo gated",
        severity=Severity.HIGH,
        effect="Downloads without an accepted request and a token are refused: CI and first runs fail.",
        advice="Accept the terms with the account your jobs use and give them its token, or use a mirror.",
        cwe=("CWE-672",),
        repo_state=True,
    ),
    Rule(
        cls="repo.disabled",
        title="repo disabled by the Hub",
        severity=Severity.HIGH,
        effect="The Hub took the repo down; nothing of it can be loaded.",
        advice="Find out why before using copies; stop new deployments of {before}.",
        cwe=("CWE-1104",),
        repo_state=True,
    ),
    Rule(
        cls="repo.private",
        title="repo no longer public",
        severity=Severity.HIGH,
        effect="Only members of its owner can load it.",
        advice="Serve from your own mirror of {before}, or ask the owner for access.",
        cwe=("CWE-672",),
        repo_state=True,
    ),
    Rule(
        cls="repo.renamed",
        title="repo renamed",
        severity=Severity.MEDIUM,
        effect="Some endpoints do not follow the old name, and somebody else may take it later.",
        advice="Change the name in every config now.",
        cwe=("CWE-706",),
        atlas=("AML.T0010.003",),
        repo_state=True,
    ),
    Rule(
        cls="repo.first_files",
        title="first model files",
        severity=Severity.INFO,
        effect="This commit first brings the model; it is compared with nothing.",
        advice="Nothing to do; later changes are held against this commit.",
    ),
)
