"""The model card and the licence.

Facets: ``card:licence`` (the licence keys of the front matter), ``card:licence_file:<path>`` (its words),
``card:metadata:<key>`` (one key of the front matter), ``card:body`` (the text below it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from storage.model import Change, Document, DocumentKind, Json, Snapshot, digest
from tracker.diff.licences import name_in, stricter
from tracker.diff.values import capped, list_delta, pointer, same, short, value_digest

LICENCE_KEYS = ("license", "license_name", "license_link")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Card:
    """The differ of cards and licences."""

    name: str = "card"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """Licence first, then the other keys, then the text."""
        yield from _licence_change(before, after)
        yield from _licence_file_changes(before, after)
        yield from _metadata_changes(before, after)
        yield from _body_change(before, after)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Nothing: a card is no danger."""
        return ()

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of one of the facets above."""
        what, _, name = facet.removeprefix("card:").partition(":")
        if what == "licence":
            return _digest(_licence(snapshot))
        if what == "licence_file":
            document = snapshot.documents.get(name)
            return _words(document) if document and document.kind is DocumentKind.LICENCE else None
        front = _front(snapshot)
        if what == "metadata":
            return value_digest(front[name]) if name in front else None
        return _digest(_body(snapshot)) if what == "body" else None


def _card(snapshot: Snapshot) -> Document | None:
    return next((item for item in snapshot.by_kind(DocumentKind.CARD) if isinstance(item.data, dict)), None)


def _front(snapshot: Snapshot) -> Mapping[str, Json]:
    card = _card(snapshot)
    front = card.data.get("metadata") if card else None
    return front if isinstance(front, dict) else {}


def _body(snapshot: Snapshot) -> str | None:
    card = _card(snapshot)
    body = card.data.get("body") if card else None
    return body if isinstance(body, str) else None


def _digest(value: Json) -> str | None:
    return None if value is None else value_digest(value)


def _path(before: Snapshot, after: Snapshot) -> str:
    card = _card(after) or _card(before)
    return card.path if card else "README.md"


def _licence(snapshot: Snapshot) -> dict[str, Json] | None:
    front = _front(snapshot)
    return {key: front[key] for key in LICENCE_KEYS if front.get(key) is not None} or None


def _licence_name(value: Mapping[str, Json] | None) -> str | None:
    """The name that says most: the licence itself, or its own name where that is just "other"."""
    if not value:
        return None
    name = value.get("license")
    if isinstance(name, list):
        name = name[0] if len(name) == 1 else None
    if name in (None, "other", "unknown"):
        name = value.get("license_name")
    return name if isinstance(name, str) else None


def _licence_change(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = _licence(before), _licence(after)
    if same(old, new):
        return
    was, now = _licence_name(old), _licence_name(new)
    yield Change(
        cls="licence.changed",
        path=_path(before, after),
        pointer="/metadata/license",
        summary=f"the card's licence: {short(was or old, limit=100)} -> {short(now or new, limit=100)}",
        before=capped(old),
        after=capped(new),
        facet="card:licence",
        before_digest=_digest(old),
        after_digest=_digest(new),
        facts={"before": was, "after": now, "stricter": stricter(was, now), "first": old is None},
    )


def _words(document: Document) -> str:
    return digest(_SPACE.sub(" ", str(document.data)).strip())


def _licence_file_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old = {item.path: item for item in before.by_kind(DocumentKind.LICENCE)}
    new = {item.path: item for item in after.by_kind(DocumentKind.LICENCE)}
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        before_digest, after_digest = (_words(item) if item else None for item in (was, now))
        if before_digest == after_digest:
            continue
        names = [name_in(str(item.data)) if item else None for item in (was, now)]
        verb = "changed" if was and now else "added" if now else "removed"
        known = " -> ".join(name or "unknown" for name, item in zip(names, (was, now), strict=True) if item)
        yield Change(
            cls="licence.changed",
            path=path,
            summary=f"licence file {short(path, limit=150)} {verb} ({known})",
            before=_excerpt(was),
            after=_excerpt(now),
            facet=f"card:licence_file:{path}",
            before_digest=before_digest,
            after_digest=after_digest,
            facts={"before": names[0], "after": names[1], "stricter": stricter(*names), "first": was is None},
        )


def _excerpt(document: Document | None) -> Json:
    return capped(str(document.data)) if document else None


def _metadata_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = _front(before), _front(after)
    for key in sorted((old.keys() | new.keys()) - set(LICENCE_KEYS)):
        if key in old and key in new and same(old[key], new[key]):
            continue
        was, now = old.get(key), new.get(key)
        facts: dict[str, Json] = {"key": key, "added": key not in old, "removed": key not in new}
        if key == "base_model":
            facts["lineage"] = True
        if isinstance(was, list) and isinstance(now, list):
            facts["items"] = list_delta(was, now)
        verb = "added" if key not in old else "removed" if key not in new else "changed"
        yield Change(
            cls="card.metadata",
            path=_path(before, after),
            pointer="/metadata" + pointer([key]),
            summary=f"card metadata {short(key)} {verb}: {short(was, limit=80)} -> {short(now, limit=80)}",
            before=capped(was),
            after=capped(now),
            facet=f"card:metadata:{key}",
            before_digest=value_digest(was) if key in old else None,
            after_digest=value_digest(now) if key in new else None,
            facts=facts,
        )


def _body_change(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = _body(before), _body(after)
    if old == new:
        return
    verb = "added" if old is None else "removed" if new is None else "changed"
    yield Change(
        cls="card.only",
        path=_path(before, after),
        summary=f"the card's text was {verb} ({len(old or '')} -> {len(new or '')} characters)",
        before=None if old is None else {"characters": len(old)},
        after=None if new is None else {"characters": len(new)},
        facet="card:body",
        before_digest=_digest(old),
        after_digest=_digest(new),
    )


DIFFER = Card()
