"""Token tables and merge rules as sets: what a quarter of a million entries gained, lost, or moved.

One token change is often told by several files (tokenizer.json, vocab.json, added_tokens.json,
tokenizer_config.json). It becomes one change, under the first file that tells it.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from storage.model import Change, Document, DocumentKind, Json, Snapshot, digest
from tracker.diff.documents import paths_of
from tracker.diff.values import examples, short
from tracker.snapshot.tokenizer import added_tokens, folder_of, merges, token_ids, vocabulary

# Files that give tokens ids, the weightiest first.
SOURCES = (
    DocumentKind.TOKENIZER,
    DocumentKind.VOCABULARY,
    DocumentKind.ADDED_TOKENS,
    DocumentKind.TOKENIZER_CONFIG,
)
_MERGE_SOURCES = (DocumentKind.TOKENIZER, DocumentKind.MERGES)
_BIG = 10_000  # entries from which on a digest is remembered
_REMEMBERED = 64
_digests: OrderedDict[tuple[str, str], str] = OrderedDict()


def tokens_of(document: Document) -> Mapping[str, int]:
    """Token to id as one document tells it; empty where it tells none."""
    table = vocabulary(document.data) if document.kind in SOURCES[:2] else {}
    added = added_tokens(document)
    return {**table, **added} if added else table


def scores_of(document: Document) -> Mapping[str, Json]:
    """Token to score of a Unigram model; empty for others."""
    model = document.data.get("model") if isinstance(document.data, Mapping) else None
    vocab = model.get("vocab") if isinstance(model, Mapping) else None
    if not isinstance(vocab, list):
        return {}
    return {
        entry[0]: entry[1]
        for entry in vocab
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
    }


def flags_of(document: Document) -> Mapping[str, Json]:
    """How each added token is matched: its object without text and id, true flags alone."""
    data = document.data if isinstance(document.data, Mapping) else {}
    if document.kind is DocumentKind.TOKENIZER:
        listed = data.get("added_tokens")
        entries = listed if isinstance(listed, list) else []
    else:
        decoder = data.get("added_tokens_decoder")
        entries = list(decoder.values()) if isinstance(decoder, Mapping) else []
    return {
        entry["content"]: sorted(name for name, value in entry.items() if value is True)
        for entry in entries
        if isinstance(entry, Mapping) and isinstance(entry.get("content"), str)
    }


ASPECTS: Mapping[str, Callable[[Document], Mapping[str, Json] | Sequence[str]]] = {
    "vocab": tokens_of,
    "merges": lambda document: merges(document.data) if document.kind in _MERGE_SOURCES else [],
    "scores": scores_of,
    "flags": flags_of,
}


def aspect_digest(document: Document | None, aspect: str) -> str | None:
    """The digest of one aspect of a document; None where it has none. Remembered for big ones, by content key."""
    if document is None:
        return None
    key = (document.content_key, f"{document.kind}:{aspect}")
    if key in _digests:
        return _digests[key]
    value = ASPECTS[aspect](document)
    if not value:
        return None
    if len(value) < _BIG:
        return digest(value)
    known = _big_digest(value)
    _digests[key] = known
    while len(_digests) > _REMEMBERED:
        _digests.popitem(last=False)
    return known


def _big_digest(value: Mapping[str, Json] | Sequence[str]) -> str:
    """The same as `storage.model.digest`, without a sorted copy of what already is in order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


@dataclass(slots=True)
class _Told:
    """Changes told so far, each with the files that tell the same."""

    changes: list[Change] = field(default_factory=list)
    tokens: dict[str, set[str]] = field(default_factory=dict)
    paths: dict[str, list[str]] = field(default_factory=dict)

    def fresh(self, kind: str, tokens: set[str], path: str) -> set[str]:
        """The tokens of a kind that no earlier file told; notes that this one tells them, too."""
        known = self.tokens.setdefault(kind, set())
        if tokens:
            self.paths.setdefault(kind, []).append(path)
        new = tokens - known
        known |= tokens
        return new

    def all(self) -> Iterator[Change]:
        """The changes, each naming every file that tells it."""
        for change in self.changes:
            paths = self.paths.get(change.cls, [])
            yield replace(change, facts={**change.facts, "paths": paths}) if len(paths) > 1 else change


def _pairs(
    before: Snapshot, after: Snapshot, folder: str, kinds: Sequence[DocumentKind]
) -> Iterator[tuple[Document | None, Document | None]]:
    """The documents of these kinds in a folder, both sides, where they differ."""
    for kind in kinds:
        for path in paths_of(before, after, kind):
            old, new = before.documents.get(path), after.documents.get(path)
            if folder_of(path) == folder and not (old and new and old.content_key == new.content_key):
                yield old, new


def vocabulary_changes(before: Snapshot, after: Snapshot, folder: str) -> Iterator[Change]:
    """Tokens with a new id, new tokens, lost tokens.

    A file that appears or goes is held against what the folder's other files say. Where they say
    nothing, nothing is known of that side and no token counts as new or lost.
    """
    pairs = list(_pairs(before, after, folder, SOURCES))
    if not pairs:
        return
    all_old, all_new = token_ids(before, folder), token_ids(after, folder)
    told = _Told()
    for old, new in pairs:
        old_tokens = tokens_of(old) if old else {}
        new_tokens = tokens_of(new) if new else {}
        base, now = old_tokens or all_old, new_tokens or all_new
        if not base or not now:
            continue
        make = _Maker(old, new)
        moved = {token for token, place in base.items() if now.get(token, place) != place}
        added = new_tokens.keys() - base.keys() - all_old.keys()
        removed = old_tokens.keys() - now.keys() - all_new.keys()
        told.changes += [
            *make.remapped(told.fresh("tokenizer.vocab_remap", moved, make.path), base, now),
            *make.only(
                "tokenizer.tokens_added", told.fresh("tokenizer.tokens_added", added, make.path), new_tokens
            ),
            *make.only(
                "tokenizer.tokens_removed", told.fresh("tokenizer.tokens_removed", removed, make.path), old_tokens
            ),
            *_flag_changes(make),
        ]
    yield from told.all()


class _Maker:
    """Makes the changes of one file."""

    def __init__(self, old: Document | None, new: Document | None) -> None:
        self.old, self.new = old, new
        known = new or old
        assert known is not None  # noqa: S101 - one of the two is there
        self.path = known.path

    def change(
        self, cls: str, aspect: str, summary: str, *, before: Json, after: Json, facts: Mapping[str, Json]
    ) -> Iterator[Change]:
        digests = aspect_digest(self.old, aspect), aspect_digest(self.new, aspect)
        if digests[0] != digests[1]:
            yield Change(
                cls=cls,
                path=self.path,
                pointer=self._pointer(aspect),
                summary=summary,
                before=before,
                after=after,
                facet=f"tokenizer:{self.path}#{aspect}",
                before_digest=digests[0],
                after_digest=digests[1],
                facts=facts,
            )

    def _pointer(self, aspect: str) -> str | None:
        known = self.new or self.old
        if known is None or not isinstance(known.data, Mapping):
            return None
        if known.kind is DocumentKind.TOKENIZER:
            return {"merges": "/model/merges", "flags": "/added_tokens"}.get(aspect, "/model/vocab")
        return "/added_tokens_decoder" if known.kind is DocumentKind.TOKENIZER_CONFIG else ""

    def remapped(self, moved: set[str], base: Mapping[str, int], now: Mapping[str, int]) -> Iterator[Change]:
        if not moved:
            return
        first = sorted(moved, key=lambda token: (base[token], token))
        shown = [{"token": token, "before": base[token], "after": now[token]} for token in first[:100]]
        word = f"{short(first[0], limit=40)} {base[first[0]]} -> {now[first[0]]}"
        yield from self.change(
            "tokenizer.vocab_remap",
            "vocab",
            f"{len(moved)} token{'s' * (len(moved) > 1)} with a new id: {word}",
            before={token: base[token] for token in first[:100]},
            after={token: now[token] for token in first[:100]},
            facts={"count": len(moved), "examples": examples(shown)},
        )

    def only(self, cls: str, tokens: set[str], table: Mapping[str, int]) -> Iterator[Change]:
        if not tokens:
            return
        first = sorted(tokens, key=lambda token: (table[token], token))
        shown = {token: table[token] for token in first[:100]}
        gone = cls == "tokenizer.tokens_removed"
        names = ", ".join(short(token, limit=30) for token in first[:3])
        yield from self.change(
            cls,
            "vocab",
            f"{len(tokens)} token{'s' * (len(tokens) > 1)} {'removed' if gone else 'added'}: {names}",
            before=shown if gone else None,
            after=None if gone else shown,
            facts={"count": len(tokens), "examples": examples(first), "highest_id": table[first[-1]]},
        )


def _flag_changes(make: _Maker) -> Iterator[Change]:
    """Added tokens that are matched otherwise, or became special or ceased to be."""
    old = flags_of(make.old) if make.old else {}
    new = flags_of(make.new) if make.new else {}
    moved = sorted(token for token in old.keys() & new.keys() if old[token] != new[token])
    if not moved:
        return
    special = [token for token in moved if ("special" in old[token]) != ("special" in new[token])]
    word = f"{short(moved[0], limit=40)} {old[moved[0]] or 'plain'} -> {new[moved[0]] or 'plain'}"
    yield from make.change(
        "tokens.special" if special else "tokenizer.settings",
        "flags",
        f"{len(moved)} added token{'s' * (len(moved) > 1)} matched otherwise: {word}",
        before={token: old[token] for token in moved[:100]},
        after={token: new[token] for token in moved[:100]},
        facts={"count": len(moved), "examples": examples(moved), "special": examples(special)},
    )


def merge_changes(before: Snapshot, after: Snapshot, folder: str) -> Iterator[Change]:
    """Merge rules gained, lost or in another order; scores of a Unigram model that moved."""
    told = _Told()
    for old, new in _pairs(before, after, folder, _MERGE_SOURCES):
        old_rules = merges(old.data) if old else []
        new_rules = merges(new.data) if new else []
        make = _Maker(old, new)
        if old_rules and new_rules and old_rules != new_rules:
            added, removed = set(new_rules) - set(old_rules), set(old_rules) - set(new_rules)
            words = f"{len(added)} added, {len(removed)} removed" if added or removed else "another order"
            # The same rules gained and lost in two files are one change.
            sign = digest([sorted(added), sorted(removed)])
            if not told.fresh("tokenizer.merges", {sign}, make.path):
                continue
            told.changes += make.change(
                "tokenizer.merges",
                "merges",
                f"merge rules: {words}",
                before=[rule for rule in old_rules if rule in removed][:100],
                after=[rule for rule in new_rules if rule in added][:100],
                facts={"added": len(added), "removed": len(removed), "counts": [len(old_rules), len(new_rules)]},
            )
        old_scores = scores_of(old) if old else {}
        new_scores = scores_of(new) if new else {}
        moved = [token for token, score in old_scores.items() if new_scores.get(token, score) != score]
        if moved:
            told.changes += make.change(
                "tokenizer.merges",
                "scores",
                f"scores of {len(moved)} token{'s' * (len(moved) > 1)} changed",
                before={token: old_scores[token] for token in moved[:100]},
                after={token: new_scores[token] for token in moved[:100]},
                facts={"count": len(moved), "examples": examples(moved)},
            )
    yield from told.all()
