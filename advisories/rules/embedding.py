"""Embedding models: whether stored vectors can still be compared with new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from advisories.rules.interface import Context, Rule
from storage.model import Change, DocumentKind, Severity, Snapshot

_TASKS = frozenset({"sentence-similarity", "feature-extraction", "text-ranking", "sentence-transformers"})
# Changes of weight files that leave the tensors as they are.
_HARMLESS = frozenset(
    {
        "weights.resharded",
        "weights.format_added",
        "weights.format_removed",
        "weights.pickle_added",
        "weights.index_mismatch",
    }
)


def embeds(snapshot: Snapshot) -> bool:
    """Whether the repo says it makes vectors: by its card's task or tags, or by its modules."""
    if snapshot.by_kind(DocumentKind.EMBEDDING):
        return True
    card = snapshot.get("README.md")
    metadata = card.get("metadata") if isinstance(card, dict) else None
    if not isinstance(metadata, dict):
        return False
    tags = metadata.get("tags")
    said = [metadata.get("pipeline_tag"), metadata.get("library_name")]
    said += tags if isinstance(tags, list) else [tags]
    return any(isinstance(word, str) and word.strip().lower() in _TASKS for word in said)


def _moved_space(context: Context) -> Iterable[Change]:
    before = context.before
    if before is None or context.since_first or not (embeds(before) or embeds(context.after)):
        return
    seen: set[tuple[str, str]] = set()
    for change in context.changes:
        moves = change.cls.startswith(("tokenizer.", "weights.")) and change.cls not in _HARMLESS
        if not moves or change.facts.get("since_first") or (change.facet, change.path) in seen:
            continue
        seen.add((change.facet, change.path))
        yield replace(
            change,
            cls="embedding.space_changed",
            summary=f"stored vectors are no longer comparable: {change.summary}",
            facts={"because": change.cls},
        )


RULES = (
    Rule(
        cls="embedding.space_changed",
        title="embedding space changed",
        severity=Severity.HIGH,
        effect="Vectors stored with the old revision cannot be compared with new ones.",
        advice="Pin {before}, or embed the whole index again at {after}.",
        cwe=("CWE-440",),
        derive=_moved_space,
    ),
    Rule(
        cls="embedding.pooling",
        title="pooling or modules changed",
        severity=Severity.HIGH,
        effect="Sentence vectors are made otherwise: stored ones cannot be compared with new ones.",
        advice="Pin {before}, or embed the whole index again at {after}.",
        cwe=("CWE-440",),
    ),
)
