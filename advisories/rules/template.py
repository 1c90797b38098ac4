"""Chat templates: what a conversation becomes before the model sees it."""

from __future__ import annotations

from advisories.rules.interface import Rule
from storage.model import Severity

RULES = (
    Rule(
        cls="template.unsafe",
        title="unsafe chat template",
        severity=Severity.CRITICAL,
        effect="The template reaches outside its data or answers to message content with text of its own: "
        "code execution in renderers without a sandbox, or hidden instructions.",
        advice="Do not render the template at {after}; use a template of your own or pin {before}.",
        cwe=("CWE-1336", "CWE-94"),
        atlas=("AML.T0011.000", "AML.T0018.002", "AML.T0051"),
        standing=True,
        keeps_severity_at_birth=True,
    ),
    Rule(
        cls="template.hidden_chars",
        title="invisible characters in the chat template",
        severity=Severity.HIGH,
        effect="The model reads text that a reviewer cannot see.",
        advice="Pin {before}, or use a template of your own, until the characters of {after} are explained.",
        cwe=("CWE-1007", "CWE-1427"),
        atlas=("AML.T0051",),
        standing=True,
        keeps_severity_at_birth=True,
    ),
    Rule(
        cls="template.semantic",
        title="chat template changed",
        severity=Severity.HIGH,
        effect="The prompt is no longer the one that training data, parsers and tests were made for.",
        advice="Compare the rendered prompts, update golden outputs with the commit, or pin {before}.",
        cwe=("CWE-440",),
        atlas=("AML.T0031",),
        lowerable=True,
    ),
    Rule(
        cls="template.generation_prompt",
        title="generation prompt changed",
        severity=Severity.HIGH,
        effect="The model's turn opens otherwise: parsers that wait for an opening tag see none.",
        advice="Pin {before} until the server's parser accepts output that starts as {after} makes it.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="template.tools",
        title="tool calling in the chat template changed",
        severity=Severity.HIGH,
        effect="Tool calls fail or loop in clients that parse the old form.",
        advice="Update template and tool parser together and test a whole tool loop, or pin {before}.",
        cwe=("CWE-440", "CWE-1288"),
    ),
    Rule(
        cls="template.args_contract",
        title="chat template refuses input it accepted",
        severity=Severity.HIGH,
        effect="A conversation that rendered before now raises an error.",
        advice="Shape the input as the new template wants it (arguments as objects, not text), or pin {before}.",
        cwe=("CWE-1288",),
    ),
    Rule(
        cls="template.default_system",
        title="default system prompt changed",
        severity=Severity.MEDIUM,
        effect="Callers that send no system turn get other behaviour.",
        advice="Send a system turn of your own, or pin {before}.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="template.whitespace",
        title="white space in the rendered prompt changed",
        severity=Severity.MEDIUM,
        effect="Token ids and prefix caches change.",
        advice="Tokenize prompts again and drop prefix caches when moving to {after}.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="template.nondeterministic",
        title="chat template depends on the date",
        severity=Severity.MEDIUM,
        effect="The same conversation renders otherwise on another day: caches and tests break.",
        advice="Pass a fixed date where the template takes one, or pin {before}.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="template.moved",
        title="chat template moved to another file",
        severity=Severity.MEDIUM,
        effect="Readers that know only the old place find no template.",
        advice="Use a library version that reads the new place, or pin {before}.",
        cwe=("CWE-706",),
        lowerable=True,
    ),
    Rule(
        cls="template.variables",
        title="variables of the chat template changed",
        severity=Severity.LOW,
        effect="Callers that do not set a new variable get its default.",
        advice="Decide a value for the new variable and pass it.",
        cwe=("CWE-440",),
    ),
)
