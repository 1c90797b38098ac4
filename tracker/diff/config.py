"""Configs: what a model is and how it is run, compared value by value, aware of aliases and class defaults.

Facets of one document:

* ``config:<path>#<canonical pointer>`` the effective value (what is written, else the class's default);
* ``config:<path>#=<canonical pointer>`` under which keys it is written;
* ``config:<path>#?<canonical pointer>`` what is written, defaults aside;
* ``config:<path>#:<canonical pointer>`` the JSON type of what is written;
* ``config:<path>#*`` the whole document; ``config:<path>`` whether the file is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deepdiff import DeepDiff

from storage.model import Change, DocumentKind, Json, Snapshot
from tracker.diff.config_keys import BOOKKEEPING, SHAPELESS, TRAINING, class_of, class_of_file
from tracker.diff.config_view import Entry, Path, View, view
from tracker.diff.documents import paths_of
from tracker.diff.values import (
    canonical,
    capped,
    examples,
    json_type,
    list_delta,
    pointer,
    same,
    short,
    split_pointer,
    value_digest,
)
from tracker.snapshot.tokenizer import ids_of

KINDS = (
    DocumentKind.CONFIG,
    DocumentKind.GENERATION_CONFIG,
    DocumentKind.QUANTIZATION,
    DocumentKind.COMPONENTS,
    DocumentKind.PROCESSOR,
    DocumentKind.ADAPTER,
    DocumentKind.EMBEDDING,
    DocumentKind.JSON,
)
MAX_CHANGES = 200  # of one document; more are told as one
MAX_JSON_CHANGES = 20  # of a JSON file of no known kind
_TYPED = frozenset({DocumentKind.CONFIG, DocumentKind.GENERATION_CONFIG})
_SPELLED_BY_TYPE = frozenset({"config.arch_shape", "config.rope", "config.context", "config.attention_window"})
_MAX_STRUCTURED = 2_000  # items of a list that deepdiff looks into


class ConfigDiffer:
    """Compares JSON configs of every kind but tokenizers and indexes."""

    name = "config"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """What is different, by path, then in the newest document's order."""
        for path in paths_of(before, after, *KINDS):
            yield from _document(before, after, path)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Nothing: no config value is a danger by itself (`tracker.diff.consistency` has the lint)."""
        del snapshot
        return ()

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of a facet's value."""
        path, mark, place = facet.removeprefix("config:").partition("#")
        if not mark:
            return _presence(snapshot, path)
        seen = view(snapshot, path)
        if seen is None:
            return None
        if place == "*":
            return _whole(snapshot, path)
        aspect, keys = (
            (place[0], split_pointer(place[1:])) if place[:1] in ("=", "?", ":") else ("", split_pointer(place))
        )
        return _aspect(seen, aspect, keys)


def _presence(snapshot: Snapshot, path: str) -> str | None:
    return value_digest(True) if path in snapshot.documents else None


def _whole(snapshot: Snapshot, path: str) -> str | None:
    document = snapshot.documents.get(path)
    return None if document is None else value_digest(document.data)


def _aspect(seen: View, aspect: str, path: Path) -> str | None:
    if not aspect:
        return seen.digest(path)
    entry = seen.find(path)
    if entry is None:
        return None
    shown: Json = {"=": list(entry.written), "?": entry.value, ":": json_type(entry.value)}[aspect]
    return value_digest(shown)


def _document(before: Snapshot, after: Snapshot, path: str) -> Iterator[Change]:
    old_document, new_document = before.documents.get(path), after.documents.get(path)
    known = new_document or old_document
    if known is None:
        return
    if (old_document is None or new_document is None) and known.kind is not DocumentKind.GENERATION_CONFIG:
        yield _file_change(before, after, path, known.kind)
        return
    if old_document and new_document and old_document.content_key == new_document.content_key:
        # A generation_config.json that stays may still leave a changed config.json to speak for it; the
        # change is config.json's own then.
        return
    old, new = view(before, path), view(after, path)
    if old is None or new is None:
        return
    changes = list(_values(path, old, new))
    most = MAX_JSON_CHANGES if known.kind is DocumentKind.JSON else MAX_CHANGES
    if len(changes) > most:
        changes = [_bulk(before, after, path, changes)]
    yield from changes


def _file_change(before: Snapshot, after: Snapshot, path: str, kind: DocumentKind) -> Change:
    removed = path not in after.documents
    document = (before if removed else after).documents[path]
    return Change(
        cls=class_of_file(kind, removed=removed),
        path=path,
        pointer="",
        summary=f"{path} {'removed' if removed else 'added'}",
        before=capped(document.data) if removed else None,
        after=None if removed else capped(document.data),
        facet=f"config:{path}",
        before_digest=_presence(before, path),
        after_digest=_presence(after, path),
        facts={"file": "removed" if removed else "added"},
    )


def _bulk(before: Snapshot, after: Snapshot, path: str, changes: list[Change]) -> Change:
    classes = sorted({change.cls for change in changes})
    return Change(
        cls="config.other",
        path=path,
        pointer="",
        summary=f"{path}: {len(changes)} values changed",
        facet=f"config:{path}#*",
        before_digest=_whole(before, path),
        after_digest=_whole(after, path),
        facts={"count": len(changes), "classes": classes, "examples": examples(item.summary for item in changes)},
    )


def _values(path: str, old: View, new: View) -> Iterator[Change]:
    renamed: set[tuple[Path, Path]] = set()
    for key in dict.fromkeys([*new.entries, *old.entries]):
        was, now = old.find(key), new.find(key)
        if _told_elsewhere(key, old, new):
            continue
        yield from _value(path, key, old, new)
        if was is not None and now is not None and was.written != now.written:
            pair = _renamed_part(was.written, now.written)
            if pair not in renamed:
                renamed.add(pair)
                yield _rename(path, key, was, now, pair)


def _told_elsewhere(key: Path, old: View, new: View) -> bool:
    """Whether the value stands in the new document under a key of its own that finds this one, too."""
    now = new.find(key)
    return now is not None and now.path != key and old.find(now.path) is old.entries.get(key)


def _value(path: str, key: Path, old: View, new: View) -> Iterator[Change]:
    was, now = old.find(key), new.find(key)
    shown = now or was
    if shown is None:
        return
    before, after = (entry.value if entry else None for entry in (was, now))
    digests = old.digest(key), new.digest(key)
    facts = _facts(key, was, now, old, new)
    cls = _class(key, old, new, one_sided=before is None or after is None)
    if digests[0] is None and was is None and same(new.default(key), after):
        # The older model type is unknown or lacks the key; the newer one would do the same without it.
        facts["default_equal"] = True
        cls = "config.other"
    if digests[0] != digests[1]:
        yield _change(path, shown, cls, (before, after), f"config:{path}#{pointer(key)}", digests, facts)
    elif (was is None) != (now is None) or not _alike(before, after, key):
        aspect = f"#?{pointer(key)}"
        written = _aspect(old, "?", key), _aspect(new, "?", key)
        if written[0] != written[1]:
            facts["default_equal"] = True
            yield _change(path, shown, "config.other", (before, after), f"config:{path}{aspect}", written, facts)
    if new.kind in _TYPED and was is not None and now is not None:
        yield from _type_change(path, key, was, now)


def _class(key: Path, old: View, new: View, *, one_sided: bool) -> str:
    """The class of a changed value.

    Where the model type was renamed, a key that only one of the two types has is part of the renaming: it
    does not say that a shape changed.
    """
    cls = class_of(new.kind, key)
    renamed = old.model_type != new.model_type and old.model_type and new.model_type
    return "config.rename" if renamed and one_sided and cls in _SPELLED_BY_TYPE else cls


def _alike(before: Json, after: Json, key: Path) -> bool:
    """Whether two written values are one value; the type of eos ids is told by itself."""
    if key and key[-1] == "eos_token_id" and ids_of(before) and ids_of(after):
        return True
    return same(before, after)


def _change(
    path: str,
    shown: Entry,
    cls: str,
    values: tuple[Json, Json],
    facet: str,
    digests: tuple[str | None, str | None],
    facts: dict[str, Json],
) -> Change:
    before, after = values
    name = ".".join(shown.written) or path
    left = "absent" if facts.get("absent") == "before" else short(canonical(before))
    right = "absent" if facts.get("absent") == "after" else short(canonical(after))
    note = " (the default)" if facts.get("default_equal") else ""
    delta = facts.get("delta")
    words = (
        f"+{delta['added_count']} -{delta['removed_count']}"
        if delta and len(left + right) > 60
        else f"{left} -> {right}"
    )
    return Change(
        cls=cls,
        path=path,
        pointer=pointer(shown.written),
        summary=f"{short(name, limit=120)} {words}{note}",
        before=capped(before),
        after=capped(after),
        facet=facet,
        before_digest=digests[0],
        after_digest=digests[1],
        facts=facts,
    )


def _facts(key: Path, was: Entry | None, now: Entry | None, old: View, new: View) -> dict[str, Json]:
    facts: dict[str, Json] = {}
    if was is None or now is None:
        side, seen = ("before", old) if was is None else ("after", new)
        facts["absent"] = side
        if (default := seen.default(key)) is not None:
            facts["default"] = capped(default)
        elif side == "before":
            facts["first"] = True
        if side == "before" and not old.entries:
            facts["first"] = True
    if key and key[-1] in BOOKKEEPING:
        facts["bookkeeping"] = True
    if key and key[-1] in TRAINING:
        facts["training"] = True
    if key and key[-1] in SHAPELESS:
        facts["shapeless"] = True
    if was and now and isinstance(was.value, list) and isinstance(now.value, list):
        facts["delta"] = list_delta(was.value, now.value)
        if any(isinstance(item, dict) for item in was.value) and any(isinstance(item, dict) for item in now.value):
            facts["items"] = _structured(was.value, now.value)
    if was and now and json_type(was.value) != json_type(now.value):
        facts["types"] = [json_type(was.value), json_type(now.value)]
    return facts


def _structured(before: list[Json], after: list[Json]) -> list[Json]:
    """The places inside a list of objects that differ, as JSON pointers below the list."""
    if max(len(before), len(after)) > _MAX_STRUCTURED:
        return []
    tree = DeepDiff(before, after, view="tree", max_diffs=10_000)
    places = {pointer(level.path(output_format="list")) for levels in tree.values() for level in levels}
    return examples(sorted(places))


def _type_change(path: str, key: Path, was: Entry, now: Entry) -> Iterator[Change]:
    """A generation setting that became another JSON type: readers that assert one type fail."""
    before, after = json_type(was.value), json_type(now.value)
    watched = class_of(DocumentKind.GENERATION_CONFIG, key) in {
        "tokens.eos",
        "tokens.special",
        "genconfig.sampling",
    }
    if not watched or before == after or "null" in (before, after):
        return
    yield Change(
        cls="genconfig.type",
        path=path,
        pointer=pointer(now.written),
        summary=f"{'.'.join(now.written)} is a {after} now, was a {before}",
        before=capped(was.value),
        after=capped(now.value),
        facet=f"config:{path}#:{pointer(key)}",
        before_digest=value_digest(before),
        after_digest=value_digest(after),
        facts={"types": [before, after]},
    )


def _renamed_part(old: Path, new: Path) -> tuple[Path, Path]:
    """The parts of two key paths that differ, without the keys that both end in."""
    left, right = list(old), list(new)
    while len(left) > 1 and len(right) > 1 and left[-1] == right[-1]:
        left.pop()
        right.pop()
    return tuple(left), tuple(right)


def _rename(path: str, key: Path, was: Entry, now: Entry, pair: tuple[Path, Path]) -> Change:
    left, right = (".".join(part) for part in pair)
    return Change(
        cls="config.rename",
        path=path,
        pointer=pointer(pair[1]),
        summary=f"key {short(left, limit=100)} renamed to {short(right, limit=100)}",
        before=pointer(pair[0]),
        after=pointer(pair[1]),
        facet=f"config:{path}#={pointer(key)}",
        before_digest=value_digest(list(was.written)),
        after_digest=value_digest(list(now.written)),
        facts={"alias": True, "value_equal": same(was.value, now.value)},
    )


DIFFER = ConfigDiffer()
