"""Tokenizers: how text becomes ids, compared across the several files that say so.

Facets: ``tokenizer:<path>`` whether the file is there; ``#vocab``, ``#merges``, ``#scores``, ``#flags`` its
token tables (`tracker.diff.vocabulary`); ``#/<pointer>`` a value of it; ``#=extra_special_tokens`` the keys
under which more special tokens are listed. A special token that a file does not name counts as the
folder's other files name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from storage.model import Change, Document, DocumentKind, Json, Snapshot
from tracker.diff.config_keys import BOOKKEEPING
from tracker.diff.documents import paths_of
from tracker.diff.values import canonical, capped, list_delta, pointer, same, short, split_pointer, value_digest
from tracker.diff.vocabulary import ASPECTS, aspect_digest, merge_changes, vocabulary_changes
from tracker.snapshot.tokenizer import ROLES, extra_special_tokens, folder_of, special_tokens, token_text

KINDS = (
    DocumentKind.TOKENIZER,
    DocumentKind.TOKENIZER_CONFIG,
    DocumentKind.SPECIAL_TOKENS,
    DocumentKind.ADDED_TOKENS,
    DocumentKind.VOCABULARY,
    DocumentKind.MERGES,
)
_SUBTREES: Mapping[str, str] = {
    "normalizer": "tokenizer.normalizer",
    "pre_tokenizer": "tokenizer.pretokenizer",
    "post_processor": "tokenizer.postprocessor",
    "decoder": "tokenizer.settings",
    "truncation": "tokenizer.settings",
    "padding": "tokenizer.settings",
}
_TABLES = frozenset({"vocab", "merges"})
_MODEL_CLASSES: Mapping[str, str] = {
    "type": "tokenizer.class",
    "unk_token": "tokens.special",
    "unk_id": "tokens.special",
}
_ROLE_KEYS = tuple(f"{role}_token" for role in ROLES)
_EXTRA = ("additional_special_tokens", "extra_special_tokens")
_SPECIAL_KEYS = (*_ROLE_KEYS, _EXTRA[1])
_TOLD_ELSEWHERE = frozenset(
    {"chat_template", "auto_map", "added_tokens_decoder", "response_template", *_EXTRA, *_ROLE_KEYS}
)
_RECORDS = BOOKKEEPING | {"processor_class", "is_local", "local_files_only", "backend"}
# What loaders take where a tokenizer_config.json says nothing.
_DEFAULTS: Mapping[str, Json] = {
    "add_prefix_space": False,
    "clean_up_tokenization_spaces": True,
    "do_basic_tokenize": True,
    "do_lower_case": True,
    "never_split": None,
    "padding_side": "right",
    "split_special_tokens": False,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "truncation_side": "right",
    "trust_remote_code": False,
    "use_default_system_prompt": False,
}
_NAMED = frozenset({DocumentKind.TOKENIZER_CONFIG, DocumentKind.SPECIAL_TOKENS})


class TokenizerDiffer:
    """Compares tokenizer files, folder by folder."""

    name = "tokenizer"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """What is different: token tables first, then rules, then settings and special tokens."""
        paths = paths_of(before, after, *KINDS)
        for folder in sorted({folder_of(path) for path in paths}):
            yield from vocabulary_changes(before, after, folder)
            yield from merge_changes(before, after, folder)
        order = sorted(paths, key=lambda path: (folder_of(path), not path.endswith("tokenizer_config.json"), path))
        yield from _merged(change for path in order for change in _file(before, after, path))

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Nothing by itself; `tracker.diff.consistency` holds the files against each other."""
        del snapshot
        return ()

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of a facet's value."""
        path, mark, place = facet.removeprefix("tokenizer:").partition("#")
        document = snapshot.documents.get(path)
        if not mark:
            return None if document is None else value_digest(True)
        if place in ASPECTS:
            return aspect_digest(document, place)
        value = _extra_keys(document) if place.startswith("=") else _value(snapshot, path, split_pointer(place))
        return None if value is None else value_digest(value)


def _merged(changes: Iterable[Change]) -> Iterator[Change]:
    """One change a special token and folder, naming every file that tells it; the first file's stands for all."""
    kept: dict[tuple[str | None, ...], list[Change]] = {}
    for number, change in enumerate(changes):
        special = change.pointer is not None and change.pointer[1:] in _SPECIAL_KEYS
        sign = (folder_of(change.path), change.pointer, change.before_digest, change.after_digest)
        kept.setdefault(sign if special else (str(number),), []).append(change)
    for first, *others in kept.values():
        paths = [first.path, *(other.path for other in others)]
        yield replace(first, facts={**first.facts, "paths": paths}) if others else first


def _file(before: Snapshot, after: Snapshot, path: str) -> Iterator[Change]:
    old, new = before.documents.get(path), after.documents.get(path)
    known = new or old
    if known is None or (old and new and old.content_key == new.content_key):
        return
    if old is None or new is None:
        yield _presence(path, known, removed=new is None)
    else:
        for key, cls in _keys(old, new):
            yield from _one(before, after, path, key, cls)
    if known.kind in _NAMED:
        yield from _special(before, after, path, whole=old is not None and new is not None)


def _presence(path: str, document: Document, *, removed: bool) -> Change:
    there = value_digest(True)
    words = "removed" if removed else "added"
    facts: dict[str, Json] = {"file": words}
    if not removed and _says_nothing(document):
        facts["default_equal"] = True
    return Change(
        cls="config.other" if document.kind is DocumentKind.SPECIAL_TOKENS else "tokenizer.settings",
        path=path,
        summary=f"{path} {words}",
        facet=f"tokenizer:{path}",
        before_digest=there if removed else None,
        after_digest=None if removed else there,
        facts=facts,
    )


def _says_nothing(document: Document) -> bool:
    """Whether a tokenizer_config.json holds nothing but notes and what loaders take anyway."""
    data = document.data
    return document.kind is DocumentKind.TOKENIZER_CONFIG and all(
        key in _RECORDS or (key in _DEFAULTS and same(value, _DEFAULTS[key])) for key, value in data.items()
    )


def _keys(old: Document, new: Document) -> Iterator[tuple[tuple[str, ...], str]]:
    """The values of a file that are compared one by one, with their classes."""
    both = [document.data for document in (new, old) if isinstance(document.data, Mapping)]
    if new.kind is DocumentKind.TOKENIZER:
        yield from (((key,), cls) for key, cls in _SUBTREES.items())
        models = [data["model"] for data in both if isinstance(data.get("model"), Mapping)]
        for key in dict.fromkeys(key for model in models for key in model if key not in _TABLES):
            yield ("model", key), _MODEL_CLASSES.get(key, "tokenizer.settings")
    elif new.kind is DocumentKind.TOKENIZER_CONFIG:
        for key in dict.fromkeys(key for data in both for key in data if key not in _TOLD_ELSEWHERE):
            cls = "tokenizer.class" if key == "tokenizer_class" else "tokenizer.settings"
            yield (key,), "config.other" if key in _RECORDS else cls


def _value(snapshot: Snapshot, path: str, key: tuple[str, ...]) -> Json:
    """What counts for a key of a file; None where nothing does."""
    document = snapshot.documents.get(path)
    data = document.data if document else None
    if key and key[-1] in _ROLE_KEYS and len(key) == 1:
        own = token_text(data.get(key[0])) if isinstance(data, Mapping) else None
        return (
            own
            if own is not None
            else special_tokens(snapshot, folder_of(path)).get(key[0].removesuffix("_token"))
        )
    if key == (_EXTRA[1],):
        return list(extra_special_tokens(document)) or None if document else None
    for part in key:
        data = data.get(part) if isinstance(data, Mapping) else None
    # In a tokenizer.json model, false, "" and null all say that a thing is not used.
    return None if key[:1] == ("model",) and data in (False, "") else data


def _one(before: Snapshot, after: Snapshot, path: str, key: tuple[str, ...], cls: str) -> Iterator[Change]:
    was, now = _value(before, path, key), _value(after, path, key)
    if same(was, now):
        return
    facts: dict[str, Json] = {}
    if key[-1] in _RECORDS or _is_record(key, was, now):
        cls = "config.other"
        facts["bookkeeping"] = True
    if key == ("tokenizer_class",) and _twins(was, now):
        facts["twins"] = True
    if isinstance(was, list) and isinstance(now, list):
        facts["delta"] = list_delta(was, now)
    yield Change(
        cls=cls,
        path=path,
        pointer=pointer(key),
        summary=f"{'.'.join(key)} {_said(was)} -> {_said(now)}",
        before=capped(was),
        after=capped(now),
        facet=f"tokenizer:{path}#{pointer(key)}",
        before_digest=None if was is None else value_digest(was),
        after_digest=None if now is None else value_digest(now),
        facts=facts,
    )


def _is_record(key: tuple[str, ...], was: Json, now: Json) -> bool:
    """Whether a setting that some writers leave behind says nothing: code of the repo is not trusted unasked."""
    return key == ("trust_remote_code",) and not was and not now


def _twins(was: Json, now: Json) -> bool:
    """Whether two class names are the slow and the fast one of a family (``GPT2Tokenizer``, ``...Fast``)."""
    return (
        isinstance(was, str)
        and isinstance(now, str)
        and was.removesuffix("Fast") == now.removesuffix("Fast")
        and was.removesuffix("Fast") != "PreTrainedTokenizer"
    )


def _special(before: Snapshot, after: Snapshot, path: str, *, whole: bool) -> Iterator[Change]:
    """Special tokens by role, and the list of further ones."""
    for key in _SPECIAL_KEYS:
        cls = "tokens.eos" if key == "eos_token" else "tokens.special"
        for change in _one(before, after, path, (key,), cls):
            # Of a file that appears or goes, only a token that another file names is known on both sides.
            if whole or (change.before_digest is not None and change.after_digest is not None):
                yield change
    old, new = _extra_keys(before.documents.get(path)), _extra_keys(after.documents.get(path))
    if whole and old and new and old != new:
        yield Change(
            cls="config.rename",
            path=path,
            pointer=pointer((new[-1],)),
            summary=f"key {', '.join(old)} renamed to {', '.join(new)}",
            before=old,
            after=new,
            facet=f"tokenizer:{path}#={_EXTRA[1]}",
            before_digest=value_digest(old),
            after_digest=value_digest(new),
            facts={"alias": True},
        )


def _extra_keys(document: Document | None) -> list[str] | None:
    """The keys under which a file lists further special tokens; None where it lists none."""
    data = document.data if document and isinstance(document.data, Mapping) else {}
    return [key for key in _EXTRA if data.get(key)] or None


def _said(value: Json) -> str:
    """A value in a few words; a component of a tokenizer.json by its types (``Sequence[NFD, Lowercase]``)."""
    if value is None:
        return "absent"
    if isinstance(value, Mapping) and isinstance(value.get("type"), str):
        parts = next(
            (value[key] for key in ("normalizers", "pretokenizers", "processors", "decoders") if key in value),
            None,
        )
        inside = [_said(part) for part in parts[:8]] if isinstance(parts, list) else []
        return short(f"{value['type']}[{', '.join(inside)}]" if inside else value["type"], limit=120)
    return short(canonical(value), limit=80)


DIFFER = TokenizerDiffer()
