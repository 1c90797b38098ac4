"""Tokenizers: how text becomes ids."""

from __future__ import annotations

from advisories.rules.conditions import when
from advisories.rules.interface import Rule
from storage.model import Severity

_PARITY = "Tokenize your own texts at {before} and {after} and compare the ids before moving."

RULES = (
    Rule(
        cls="tokenizer.vocab_remap",
        title="existing tokens have new ids",
        severity=Severity.CRITICAL,
        effect="With the same weights the model reads and writes other words: predictions flip.",
        advice="Do not use {after} unless the embeddings changed with it; pin {before}.",
        cwe=("CWE-354", "CWE-345"),
        atlas=("AML.T0018.000", "AML.T0031"),
    ),
    Rule(
        cls="tokenizer.postprocessor",
        title="tokenizer post-processor changed",
        severity=Severity.HIGH,
        effect="Other tokens are put around every text: prompts and embeddings move.",
        advice=_PARITY,
        cwe=("CWE-440",),
    ),
    Rule(
        cls="tokenizer.pretokenizer",
        title="tokenizer pre-tokenizer changed",
        severity=Severity.HIGH,
        effect="Text is cut at other places, so that the ids differ from those in training.",
        advice=_PARITY,
        cwe=("CWE-440",),
    ),
    Rule(
        cls="tokenizer.normalizer",
        title="tokenizer normalizer changed",
        severity=Severity.HIGH,
        effect="Text reaches the model in another form (case, accents, spaces).",
        advice=_PARITY,
        cwe=("CWE-440",),
    ),
    Rule(
        cls="tokenizer.merges",
        title="tokenizer merges changed",
        severity=Severity.HIGH,
        effect="Words are split otherwise and get other ids.",
        advice=_PARITY,
        cwe=("CWE-440",),
    ),
    Rule(
        cls="tokenizer.class",
        title="tokenizer class changed",
        severity=Severity.HIGH,
        effect="Older readers do not know the class and fail to load, or fall back to another.",
        advice="Check that every runtime you use knows the class, or pin {before}.",
        cwe=("CWE-440",),
        base=when("twins", Severity.LOW, "the slow and the fast class of one family: loaders take either"),
    ),
    Rule(
        cls="tokenizer.vocab_size",
        title="token ids beyond the embedding rows",
        severity=Severity.HIGH,
        effect="An id without an embedding row is an index error or a read out of bounds.",
        advice="Pin {before} until vocabulary and embedding agree.",
        cwe=("CWE-1288", "CWE-125"),
        standing=True,
    ),
    Rule(
        cls="tokenizer.tokens_added",
        title="tokens added",
        severity=Severity.MEDIUM,
        effect="Texts may encode to new ids, which need embedding rows.",
        advice="Check that the embedding has rows for the new ids before moving to {after}.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="tokenizer.tokens_removed",
        title="tokens removed",
        severity=Severity.HIGH,
        effect="Texts that used these tokens encode otherwise or not at all.",
        advice="Check that no prompt, template or training set uses the removed tokens, or pin {before}.",
        cwe=("CWE-440",),
    ),
    Rule(
        cls="tokenizer.settings",
        title="tokenizer settings changed",
        severity=Severity.MEDIUM,
        effect="Token ids or truncation move (added start token, padding side, maximum length).",
        advice="Set the values you rely on in your own code, or pin {before}.",
        cwe=("CWE-440",),
        base=when("default_equal", Severity.INFO, "the file says what loaders take anyway"),
    ),
)
