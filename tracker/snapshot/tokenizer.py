"""Vocabularies, added tokens and special tokens, from the several files that say something about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from storage.model import Document, DocumentKind, Json, Snapshot
from tracker.snapshot.layers import Layers
from tracker.snapshot.tables import Rules, RuleTable, TokenTable

ROLES: Final = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one place says of one role: a token's text, or its ids (several for a list of eos ids)."""

    role: str
    path: str
    pointer: str
    token: str | None = None
    ids: tuple[int, ...] = ()


def vocabulary(data: Json) -> Mapping[str, int]:
    """Token to id, of a tokenizer.json, a vocab.json or a vocab.txt. Without the added tokens.

    Of a list vocabulary (Unigram) the place is the id; the first of equal tokens counts.
    """
    if isinstance(data, str):
        lines = data.split("\n")
        return _by_place(line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines))
    if not isinstance(data, dict):
        return data if isinstance(data, TokenTable) else {}
    model = data.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else data
    if isinstance(vocab, TokenTable):
        return vocab
    if isinstance(vocab, dict):
        if set(map(type, vocab.values())) <= {int}:
            return vocab
        return {token: token_id for token, token_id in vocab.items() if type(token_id) is int}
    if isinstance(vocab, list | RuleTable):
        return _by_place(
            entry[0] if isinstance(entry, list) and entry and isinstance(entry[0], str) else None
            for entry in vocab
        )
    return {}


def _by_place(tokens: Iterable[str | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token is not None:
            found.setdefault(token, place)
    return found


def merges(data: Json) -> Sequence[str]:
    """The merge rules in order, ``"a b"``, of a tokenizer.json or a merges.txt."""
    if isinstance(data, str):
        lines = (line.removesuffix("\r") for line in data.split("\n"))
        return [line for line in lines if line and not line.startswith("#version")]
    model = data.get("model") if isinstance(data, dict) else None
    rules = model.get("merges") if isinstance(model, dict) else None
    if isinstance(rules, RuleTable) and rules.of_texts:
        return Rules(rules)
    if not isinstance(rules, list | RuleTable):
        return []
    return [
        rule if isinstance(rule, str) else " ".join(rule)
        for rule in rules
        if isinstance(rule, str) or (isinstance(rule, list) and all(isinstance(part, str) for part in rule))
    ]


def added_tokens(document: Document) -> Mapping[str, int]:
    """Token to id of the added tokens that one document declares; empty for other kinds."""
    data = document.data
    if not isinstance(data, dict):
        return {}
    if document.kind is DocumentKind.TOKENIZER:
        return dict(_entries(data.get("added_tokens")))
    if document.kind is DocumentKind.TOKENIZER_CONFIG:
        decoder = data.get("added_tokens_decoder")
        return dict(_decoder(decoder)) if isinstance(decoder, dict) else {}
    if document.kind is DocumentKind.ADDED_TOKENS:
        return {token: token_id for token, token_id in data.items() if type(token_id) is int}
    return {}


def _entries(value: Json) -> Iterator[tuple[str, int]]:
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str) and type(entry.get("id")) is int:
            yield entry["content"], entry["id"]


def _decoder(value: Mapping[str, Json]) -> Iterator[tuple[str, int]]:
    for key, entry in value.items():
        content = token_text(entry)
        if content is not None and key.isascii() and key.isdigit() and len(key) < 16:
            yield content, int(key)


def token_text(value: Json) -> str | None:
    """A token's text: itself, or the ``content`` of an AddedToken object."""
    if isinstance(value, str):
        return value
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, str) else None


def ids_of(value: Json) -> tuple[int, ...]:
    """The ids of ``eos_token_id`` and its like: one, several, or none."""
    values = value if isinstance(value, list) else [value]
    return tuple(item for item in values if type(item) is int)


def folder_of(path: str) -> str:
    """The folder of a path, "" at the top."""
    parent = str(PurePosixPath(path).parent)
    return "" if parent == "." else parent


def in_folder(snapshot: Snapshot, kind: DocumentKind, folder: str = "") -> Document | None:
    """The document of a kind in one folder."""
    return next((doc for doc in snapshot.by_kind(kind) if folder_of(doc.path) == folder), None)


def special_tokens(snapshot: Snapshot, folder: str = "") -> Mapping[str, str]:
    """The special token of each role as loaders see it: tokenizer_config.json, else special_tokens_map.json."""
    found: dict[str, str] = {}
    for statement in statements(snapshot, folder):
        if statement.token is not None:
            found.setdefault(statement.role, statement.token)
    return found


def extra_special_tokens(document: Document) -> tuple[str, ...]:
    """The additional special tokens that a tokenizer_config.json or special_tokens_map.json lists."""
    data = document.data if isinstance(document.data, dict) else {}
    found: list[str] = []
    for key in ("additional_special_tokens", "extra_special_tokens"):
        value = data.get(key)
        entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        found.extend(text for text in map(token_text, entries) if text is not None)
    return tuple(dict.fromkeys(found))


def statements(snapshot: Snapshot, folder: str = "") -> list[Statement]:
    """All that one folder's files say of special tokens, by text and by id, in the order of precedence."""
    found: list[Statement] = []
    for kind in (DocumentKind.TOKENIZER_CONFIG, DocumentKind.SPECIAL_TOKENS):
        document = in_folder(snapshot, kind, folder)
        if document is not None and isinstance(document.data, dict):
            found.extend(_texts(document))
    for kind in (DocumentKind.GENERATION_CONFIG, DocumentKind.CONFIG):
        document = in_folder(snapshot, kind, folder)
        if document is not None and isinstance(document.data, dict):
            found.extend(_ids(document, document.data, ""))
            text_config = document.data.get("text_config")
            if kind is DocumentKind.CONFIG and isinstance(text_config, dict):
                found.extend(_ids(document, text_config, "/text_config"))
    return found


def _texts(document: Document) -> Iterator[Statement]:
    for role in ROLES:
        text = token_text(document.data.get(f"{role}_token"))
        if text is not None:
            yield Statement(role=role, path=document.path, pointer=f"/{role}_token", token=text)


def _ids(document: Document, data: Mapping[str, Json], prefix: str) -> Iterator[Statement]:
    for role in ROLES:
        ids = ids_of(data.get(f"{role}_token_id"))
        if ids:
            yield Statement(role=role, path=document.path, pointer=f"{prefix}/{role}_token_id", ids=ids)


def token_ids(snapshot: Snapshot, folder: str = "") -> Layers:
    """Token to id over a folder's vocabulary and added tokens; added ones win, tokenizer.json last."""
    return Layers(_layers(snapshot, folder))


def _layers(snapshot: Snapshot, folder: str) -> Iterator[Mapping[str, int]]:
    kinds = (
        DocumentKind.VOCABULARY,
        DocumentKind.ADDED_TOKENS,
        DocumentKind.TOKENIZER_CONFIG,
        DocumentKind.TOKENIZER,
    )
    for kind in kinds:
        document = in_folder(snapshot, kind, folder)
        if document is not None:
            if kind in (DocumentKind.VOCABULARY, DocumentKind.TOKENIZER):
                yield vocabulary(document.data)
            yield added_tokens(document)
