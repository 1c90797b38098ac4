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
from itertools import islice, zip_longest
from typing import TypeVar

from storage.model import Change, Document, DocumentKind, Json, Snapshot, digest
from tracker.diff.documents import paths_of
from tracker.diff.values import examples, short
from tracker.snapshot.layers import Layers, unlike
from tracker.snapshot.tables import Rules, RuleTable
from tracker.snapshot.tokenizer import added_tokens, folder_of, merges, token_ids, vocabulary

T = TypeVar("T")
# Files that give tokens ids, the weightiest first.
SOURCES = (
    DocumentKind.TOKENIZER,
    DocumentKind.VOCABULARY,
    DocumentKind.ADDED_TOKENS,
    DocumentKind.TOKENIZER_CONFIG,
)
_MERGE_SOURCES = (DocumentKind.TOKENIZER, DocumentKind.MERGES)
_BIG = 10_000  # entries from which on the text of a table is made piece by piece
_PIECE = 4_000  # entries of which the text is made at a time
_REMEMBERED = 1_000  # digests: every open advisory of a tokenizer asks for one, at every revision
_digests: OrderedDict[tuple[str, str], str | None] = OrderedDict()


def tokens_of(document: Document) -> Layers:
    """Token to id as one document tells it; empty where it tells none."""
    table = vocabulary(document.data) if document.kind in SOURCES[:2] else {}
    return Layers((table, added_tokens(document)))


def scores_of(document: Document) -> Mapping[str, Json]:
    """Token to score of a Unigram model; empty for others."""
    return {
        entry[0]: entry[1]
        for entry in _listed(document)
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
    }


def _listed(document: Document) -> Sequence[Json]:
    """The vocabulary of a model that lists it; empty for others."""
    model = document.data.get("model") if isinstance(document.data, Mapping) else None
    vocab = model.get("vocab") if isinstance(model, Mapping) else None
    return vocab if isinstance(vocab, list | RuleTable) else ()


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
    """The digest of one aspect of a document; None where it has none. Remembered by content key."""
    if document is None:
        return None
    key = (document.content_key, f"{document.kind}:{aspect}")
    if key in _digests:
        return _digests[key]
    known = _digests[key] = _digest(ASPECTS[aspect](document))
    while len(_digests) > _REMEMBERED:
        _digests.popitem(last=False)
    return known


def _digest(value: Mapping[str, Json] | Sequence[str]) -> str | None:
    if not value:
        return None
    if len(value) < _BIG:
        return digest(dict(value.items()) if isinstance(value, Mapping) else list(value))
    return _big_digest(value)


def _big_digest(value: Mapping[str, Json] | Sequence[str]) -> str:
    """The same as `storage.model.digest`, without ever having the whole text."""
    written = hashlib.sha256()
    if isinstance(value, Mapping):
        table = dict(value.items())
        entries: Iterator[Json] = iter(sorted(table))
        brackets = "{}"
    else:
        table, entries, brackets = {}, iter(value), "[]"
    mark = brackets[0]
    while piece := list(islice(entries, _PIECE)):
        part = {token: table[token] for token in piece} if table else piece
        text = json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        written.update((mark + text[1:-1]).encode("ascii"))
        mark = ","
    written.update(brackets[1].encode("ascii"))
    return written.hexdigest()[:32]


@dataclass(slots=True)
class _Told:
    """Changes told so far, each with the files that tell the same."""

    changes: list[Change] = field(default_factory=list)
    tokens: dict[str, set[str]] = field(default_factory=dict)
    paths: dict[str, list[str]] = field(default_factory=dict)

    def fresh(self, kind: str, tokens: Mapping[str, T], path: str) -> dict[str, T]:
        """The tokens of a kind that no earlier file told; notes that this one tells them, too."""
        known = self.tokens.setdefault(kind, set())
        if tokens:
            self.paths.setdefault(kind, []).append(path)
        new = {token: value for token, value in tokens.items() if token not in known}
        known.update(new)
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
        old_tokens = tokens_of(old) if old else Layers(())
        new_tokens = tokens_of(new) if new else Layers(())
        base, now = old_tokens or all_old, new_tokens or all_new
        if not base or not now:
            continue
        make = _Maker(old, new)
        moved, added, removed = _delta(base, now)
        added = _beyond(added, all_old) if new_tokens else {}
        removed = _beyond(removed, all_new) if old_tokens else {}
        told.changes += [
            *make.remapped(told.fresh("tokenizer.vocab_remap", moved, make.path)),
            *make.only("tokenizer.tokens_added", told.fresh("tokenizer.tokens_added", added, make.path)),
            *make.only("tokenizer.tokens_removed", told.fresh("tokenizer.tokens_removed", removed, make.path)),
            *_flag_changes(make),
        ]
    yield from told.all()


def _delta(base: Layers, now: Layers) -> tuple[dict[str, tuple[int, int]], dict[str, int], dict[str, int]]:
    """Tokens with another id (both ids), tokens that came, tokens that went, each with its id."""
    old, new = unlike(base.pieces(), now.pieces())
    return (
        {token: (place, new[token]) for token, place in old.items() if token in new},
        {token: place for token, place in new.items() if token not in old},
        {token: place for token, place in old.items() if token not in new},
    )


def _beyond(tokens: dict[str, int], table: Layers) -> dict[str, int]:
    """The tokens that a table does not hold."""
    left = set(tokens)
    for piece in table.each() if left else ():
        left.difference_update(piece)
    return {token: place for token, place in tokens.items() if token in left}


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

    def remapped(self, moved: Mapping[str, tuple[int, int]]) -> Iterator[Change]:
        if not moved:
            return
        first = sorted(moved, key=lambda token: (moved[token][0], token))[:100]
        shown = [{"token": token, "before": moved[token][0], "after": moved[token][1]} for token in first]
        word, (was, now) = short(first[0], limit=40), moved[first[0]]
        yield from self.change(
            "tokenizer.vocab_remap",
            "vocab",
            f"{len(moved)} token{'s' * (len(moved) > 1)} with a new id: {word} {was} -> {now}",
            before={token: moved[token][0] for token in first},
            after={token: moved[token][1] for token in first},
            facts={"count": len(moved), "examples": examples(shown)},
        )

    def only(self, cls: str, tokens: Mapping[str, int]) -> Iterator[Change]:
        if not tokens:
            return
        first = sorted(tokens, key=lambda token: (tokens[token], token))
        shown = {token: tokens[token] for token in first[:100]}
        gone = cls == "tokenizer.tokens_removed"
        names = ", ".join(short(token, limit=30) for token in first[:3])
        yield from self.change(
            cls,
            "vocab",
            f"{len(tokens)} token{'s' * (len(tokens) > 1)} {'removed' if gone else 'added'}: {names}",
            before=shown if gone else None,
            after=None if gone else shown,
            facts={"count": len(tokens), "examples": examples(first), "highest_id": tokens[first[-1]]},
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
        old_rules: Sequence[str] = merges(old.data) if old else []
        new_rules: Sequence[str] = merges(new.data) if new else []
        make = _Maker(old, new)
        if old_rules and new_rules and not _equal(old_rules, new_rules):
            added, removed = _rules_delta(old_rules, new_rules)
            words = f"{len(added)} added, {len(removed)} removed" if added or removed else "another order"
            # The same rules gained and lost in two files are one change.
            sign = digest([sorted(added), sorted(removed)])
            if not told.fresh("tokenizer.merges", {sign: None}, make.path):
                continue
            told.changes += make.change(
                "tokenizer.merges",
                "merges",
                f"merge rules: {words}",
                before=list(islice((rule for rule in old_rules if rule in removed), 100)),
                after=list(islice((rule for rule in new_rules if rule in added), 100)),
                facts={"added": len(added), "removed": len(removed), "counts": [len(old_rules), len(new_rules)]},
            )
        told.changes += _score_changes(make)
    yield from told.all()


def _equal(one: Sequence[str], other: Sequence[str]) -> bool:
    return len(one) == len(other) and all(map(str.__eq__, one, other))


def _rules_delta(old: Sequence[str], new: Sequence[str]) -> tuple[set[str], set[str]]:
    """The rules that came, and those that went. No more is held than what differs, see `unlike`."""
    added: set[str] = set()
    removed: set[str] = set()
    for first, second in zip_longest(_rule_pieces(old), _rule_pieces(new), fillvalue=()):
        removed.update(first)
        added.update(second)
        common = removed & added
        removed -= common
        added -= common
    # a rule that is there twice on one side was met once on the other
    for found, rules in ((added, old), (removed, new)):
        for piece in _rule_pieces(rules) if found else ():
            found.difference_update(piece)
    return added, removed


def _rule_pieces(rules: Sequence[str]) -> Iterator[Sequence[str]]:
    if isinstance(rules, Rules):
        yield from rules.pieces()
    else:
        yield from (rules[start : start + _PIECE] for start in range(0, len(rules), _PIECE))


def _score_tables(old: Document, new: Document) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
    """The scores of both sides; of packed tables, whose tokens are there once, only what differs."""
    one, other = _listed(old), _listed(new)
    if isinstance(one, RuleTable) and isinstance(other, RuleTable) and one.scored and other.scored:
        return unlike(map(_by_token, one.pieces()), map(_by_token, other.pieces()))
    return scores_of(old), scores_of(new)


def _by_token(piece: list[Json]) -> dict[str, Json]:
    return dict(map(tuple, piece))


def _score_changes(make: _Maker) -> Iterator[Change]:
    """Scores of a Unigram model that moved."""
    if make.old is None or make.new is None:
        return
    old, new = _score_tables(make.old, make.new)
    moved = {token: score for token, score in old.items() if token in new and new[token] != score}
    if not moved:
        return
    shown = list(islice(moved, 100))
    yield from make.change(
        "tokenizer.merges",
        "scores",
        f"scores of {len(moved)} token{'s' * (len(moved) > 1)} changed",
        before={token: moved[token] for token in shown},
        after={token: new[token] for token in shown},
        facts={"count": len(moved), "examples": examples(moved)},
    )
