"""Weight files: safetensors, pickles and their indexes."""

from __future__ import annotations

from advisories.rules.conditions import first_of, listed, when
from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="weights.pickle_added",
        title="pickle weights added",
        severity=Severity.CRITICAL,
        effect="Loading a pickle can run any code it names; scanners have been bypassed.",
        advice="Do not load it; use the safetensors files only (use_safetensors=True), or pin {before}.",
        cwe=("CWE-502", "CWE-506"),
        atlas=("AML.T0011.000", "AML.T0018.002", "AML.T0058"),
        standing=True,
        base=first_of(
            listed("dangerous", Severity.CRITICAL, "what is in it can do harm when loaded, or cannot be known"),
            when("arrival", Severity.HIGH, "the first weights of the repo, none were there to be replaced"),
        ),
    ),
    Rule(
        cls="weights.replaced",
        title="weights replaced under the same name",
        severity=Severity.HIGH,
        effect="The same name now holds another model: scores, embeddings and adapters no longer carry over.",
        advice="Pin {before} until the new weights are evaluated; fetch all files at one commit.",
        cwe=("CWE-494", "CWE-354"),
        atlas=("AML.T0018.000", "AML.T0109"),
    ),
    Rule(
        cls="weights.keys",
        title="tensor names changed",
        severity=Severity.HIGH,
        effect="Names that match nothing are initialised at random with only a warning; adapters stop fitting.",
        advice="Pin {before}, or remap or retrain adapters and check the load report for missing keys.",
        cwe=("CWE-1288", "CWE-440"),
        base=when("load_succeeds", Severity.CRITICAL, "loading still succeeds, with parts left at random values"),
    ),
    Rule(
        cls="weights.dtype",
        title="weight data type changed",
        severity=Severity.MEDIUM,
        effect="Download size, memory and rounding change.",
        advice="Plan memory again and repeat the evaluation before moving to {after}.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="weights.shape",
        title="tensor shapes changed",
        severity=Severity.HIGH,
        effect="Code, adapters and cached shards made for the old shapes fail.",
        advice="Fetch config and weights together at {after}, rebuild adapters, or pin {before}.",
        cwe=("CWE-1288",),
    ),
    Rule(
        cls="weights.index_mismatch",
        title="weight index and files disagree",
        severity=Severity.HIGH,
        effect="Loading fails, or only part of the model is loaded.",
        advice="Pin {before} until index and files agree again.",
        cwe=("CWE-1288",),
        standing=True,
    ),
    Rule(
        cls="weights.format_added",
        title="weights added in another format",
        severity=Severity.LOW,
        effect="Loaders may pick the other file; full downloads grow.",
        advice="Name the format you load, so that the new one is not picked in silence.",
    ),
    Rule(
        cls="weights.format_removed",
        title="weights removed in one format",
        severity=Severity.HIGH,
        effect="Released libraries that ask for the removed files fail.",
        advice="Pin {before}, or move to a loader that reads the format that is left.",
        cwe=("CWE-440", "CWE-1104"),
    ),
    Rule(
        cls="weights.resharded",
        title="weights split into other files",
        severity=Severity.LOW,
        effect="The tensors are the same; caches download them again.",
        advice="Nothing to do but the download; update scripts that name shards.",
    ),
)
