"""Code that a repo makes its users run: auto_map, references to other repos, Python files, requirements.

Facets: ``code:auto_map:<path>#<pointer>`` and ``code:cross_repo:<owner/name>`` ("present", so that they hold
until gone), ``code:targets:<path>#<pointer>`` (what an auto_map names), ``code:file:<path>`` (the syntax
tree), ``code:requirements:<path>`` (the lines that count).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from storage.model import Change, Document, DocumentKind, Json, Snapshot, digest
from tracker.diff.sources import DANGEROUS, Source, source_digest, summarise
from tracker.diff.values import capped, examples, short
from tracker.snapshot.code import AutoMap, auto_maps, cross_repo

PRESENT = digest("present")


@dataclass(frozen=True, slots=True)
class Code:
    """The differ of code."""

    name: str = "code"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """auto_map, other repos, sources, requirements."""
        yield from _auto_map_changes(before, after)
        known = _cross_repos(before)
        for repo, references in sorted(_cross_repos(after).items()):
            if repo not in known:
                yield _cross_repo_change(repo, references)
        yield from _source_changes(before, after)
        yield from _requirement_changes(before, after)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Every auto_map, other repo and source that is there."""
        for item in auto_maps(snapshot):
            yield _auto_map_added(item)
        for repo, references in sorted(_cross_repos(snapshot).items()):
            yield _cross_repo_change(repo, references)
        for _, document in sorted(_sources(snapshot).items()):
            yield _source_change(None, document)

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of one of the facets above."""
        what, _, name = facet.removeprefix("code:").partition(":")
        if what in ("auto_map", "targets"):
            found = next((item for item in auto_maps(snapshot) if _place(item) == name), None)
            if found is None:
                return None
            return PRESENT if what == "auto_map" else digest(found.value)
        if what == "cross_repo":
            return PRESENT if name in _cross_repos(snapshot) else None
        if what == "file":
            document = _sources(snapshot).get(name)
            return source_digest(document.data) if document else None
        document = snapshot.documents.get(name) if what == "requirements" else None
        if document is None or document.kind is not DocumentKind.REQUIREMENTS:
            return None
        return digest(requirement_lines(document))


# --- auto_map ----------------------------------------------------------------------------------------


def _place(item: AutoMap) -> str:
    return f"{item.path}#{item.pointer}"


def _auto_map_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old = {_place(item): item for item in auto_maps(before)}
    new = {_place(item): item for item in auto_maps(after)}
    for place, item in new.items():
        if place not in old:
            yield _auto_map_added(item)
        elif digest(old[place].value) != digest(item.value):
            yield _auto_map_changed(old[place], item)
    for place, item in old.items():
        if place not in new:
            yield Change(
                cls="code.removed",
                path=item.path,
                pointer=item.pointer,
                summary=f"{short(item.path, limit=100)} no longer names custom code ({_targets(item)})",
                before=capped(item.value),
                facet=f"code:auto_map:{place}",
                before_digest=PRESENT,
                facts={"targets": examples(target for _, target in item.references)},
            )


def _targets(item: AutoMap) -> str:
    return short(", ".join(dict.fromkeys(target for _, target in item.references)), limit=120)


def _auto_map_added(item: AutoMap) -> Change:
    return Change(
        cls="code.auto_map_added",
        path=item.path,
        pointer=item.pointer,
        summary=f"{short(item.path, limit=100)} makes loaders run code: {_targets(item)}",
        after=capped(item.value),
        facet=f"code:auto_map:{_place(item)}",
        after_digest=PRESENT,
        facts={"targets": examples(target for _, target in item.references), "repos": list(item.repos[:100])},
    )


def _auto_map_changed(was: AutoMap, now: AutoMap) -> Change:
    return Change(
        cls="code.changed",
        path=now.path,
        pointer=now.pointer,
        summary=f"{short(now.path, limit=100)} makes loaders run other code: {_targets(now)}",
        before=capped(was.value),
        after=capped(now.value),
        facet=f"code:targets:{_place(now)}",
        before_digest=digest(was.value),
        after_digest=digest(now.value),
        facts={"targets": examples(target for _, target in now.references), "dangerous": []},
    )


def _cross_repos(snapshot: Snapshot) -> dict[str, list[tuple[AutoMap, str]]]:
    """Other repos, each with the references to it and where they stand."""
    found: dict[str, list[tuple[AutoMap, str]]] = {}
    for item in auto_maps(snapshot):
        for _, target in item.references:
            if (repo := cross_repo(target)) is not None:
                found.setdefault(repo, []).append((item, target))
    return found


def _cross_repo_change(repo: str, references: list[tuple[AutoMap, str]]) -> Change:
    maps = [item for item, _ in references]
    targets = sorted({target for _, target in references})
    return Change(
        cls="code.cross_repo",
        path=maps[0].path,
        pointer=maps[0].pointer,
        summary=f"{short(maps[0].path, limit=100)} takes its code from another repo: {short(repo, limit=120)}",
        after=capped(targets[:100]),
        facet=f"code:cross_repo:{repo}",
        after_digest=PRESENT,
        facts={"repo": repo, "paths": sorted({item.path for item in maps})[:100], "targets": examples(targets)},
    )


# --- sources -----------------------------------------------------------------------------------------


def _sources(snapshot: Snapshot) -> Mapping[str, Document]:
    """Python files, setup.py included."""
    return {
        path: document
        for path, document in snapshot.documents.items()
        if isinstance(document.data, str) and (document.kind is DocumentKind.CODE or path.endswith(".py"))
    }


def _source_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = _sources(before), _sources(after)
    gone = {source_digest(document.data): path for path, document in old.items() if path not in new}
    for path, document in sorted(new.items()):
        was = old.get(path)
        if was is not None and was.content_key == document.content_key:
            continue
        if was is not None and source_digest(was.data) == source_digest(document.data):
            continue
        yield _source_change(was, document, moved_from=gone.get(source_digest(document.data)) if not was else None)
    for path, was in sorted(old.items()):
        if path not in new:
            yield Change(
                cls="code.removed",
                path=path,
                summary=f"{short(path, limit=200)} is gone",
                before=_sketch(was),
                facet=f"code:file:{path}",
                before_digest=source_digest(was.data),
            )


def _source_change(was: Document | None, now: Document, *, moved_from: str | None = None) -> Change:
    facts = {"added": was is None, **_facts(summarise(was.data) if was else None, now, moved=bool(moved_from))}
    if moved_from:
        facts["moved_from"] = moved_from
    verb = "changed" if was else "added"
    dangerous = facts["dangerous"]
    what = f"new calls: {', '.join(dangerous[:4])}" if dangerous else "no new call that matters"
    if moved_from:
        what = f"moved from {moved_from}"
    return Change(
        cls="code.changed",
        path=now.path,
        summary=f"{short(now.path, limit=120)} {verb}; {short(what, limit=150)}",
        before=_sketch(was) if was else None,
        after=_sketch(now),
        facet=f"code:file:{now.path}",
        before_digest=source_digest(was.data) if was else None,
        after_digest=source_digest(now.data),
        facts=facts,
    )


def _sketch(document: Document) -> Json:
    return {"content": document.content_key, "lines": document.data.count("\n") + 1}


def _facts(old: Source | None, document: Document, *, moved: bool) -> dict[str, Json]:
    """What the new source imports, calls and takes that the old one did not."""
    new = summarise(document.data)
    if new is None:
        # Code that cannot be judged may do anything.
        return {"unparsed": True, "dangerous": ["source that cannot be parsed"]}
    known = old.calls if old else frozenset()
    calls: dict[str, list[str]] = {}
    for group, name in sorted(new.calls - known):
        calls.setdefault(group, []).append(name)
    signatures = [
        {"name": name, "before": old.signatures[name], "after": text}
        for name, text in new.signatures.items()
        if old and name in old.signatures and old.signatures[name] != text
    ]
    return {
        "imports_added": examples(sorted(new.imports - (old.imports if old else frozenset()))),
        "calls_added": {group: names[:100] for group, names in calls.items()},
        "signatures": examples(signatures),
        "dangerous": []
        if moved
        else [f"{name} ({group})" for group, names in calls.items() if group in DANGEROUS for name in names][:100],
    }


# --- requirements ------------------------------------------------------------------------------------


def requirement_lines(document: Document) -> list[str]:
    """The lines of a requirements file that count: without comments, blanks and order; of other files all."""
    lines = str(document.data).splitlines()
    if not document.path.endswith(".txt"):
        return [line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    bare = (line.partition(" #")[0].strip() for line in lines)
    return sorted({line for line in bare if line and not line.startswith("#")})


def _requirement_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old = {item.path: item for item in before.by_kind(DocumentKind.REQUIREMENTS)}
    new = {item.path: item for item in after.by_kind(DocumentKind.REQUIREMENTS)}
    for path in sorted(old.keys() | new.keys()):
        was = requirement_lines(old[path]) if path in old else None
        now = requirement_lines(new[path]) if path in new else None
        if was == now:
            continue
        old_lines, new_lines = set(was or ()), set(now or ())
        added = [line for line in now or () if line not in old_lines]
        removed = [line for line in was or () if line not in new_lines]
        shown = ", ".join([f"+{line}" for line in added[:3]] + [f"-{line}" for line in removed[:3]])
        yield Change(
            cls="code.requirements",
            path=path,
            summary=f"{short(path, limit=100)}: {short(shown or 'other order', limit=160)}",
            before=examples(removed) if was is not None else None,
            after=examples(added) if now is not None else None,
            facet=f"code:requirements:{path}",
            before_digest=digest(was) if was is not None else None,
            after_digest=digest(now) if now is not None else None,
            facts={"added": len(added), "removed": len(removed), "gone": now is None, "new": was is None},
        )


DIFFER = Code()
