"""Files that loaders unpickle: those that came, and those that came to import what can do harm.

Facets: ``weights:pickle:<path>``, "present", so that a pickle holds until it is gone, and
``weights:imports:<path>``, its dangerous imports, or why they cannot be known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from storage.model import Change, Json, PickleFile, Snapshot, digest
from tracker.diff.values import examples, short
from tracker.snapshot.kinds import is_pickle

PRESENT: Final = digest("present")


def pickle_paths(snapshot: Snapshot) -> list[str]:
    """The files that run code when loaded: by their name, or because they import something all the same."""
    return [path for path in sorted(snapshot.manifest.files) if _runs(path, snapshot)]


def pickle_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    """Pickles that were not there, and pickles whose imports grew dangerous."""
    for path in pickle_paths(after):
        if not _runs(path, before):
            yield pickle_added(path, after)
            continue
        old, new = dangers(before, path), dangers(after, path)
        if new and set(new) - set(old or ()):
            yield _grew(path, old, new, after)


def dangers(snapshot: Snapshot, path: str) -> list[str] | None:
    """The dangerous imports of a pickle; None where it was not looked into."""
    found = snapshot.pickles.get(path) if path in snapshot.manifest.files else None
    return sorted(found.dangerous) if found else None


def observe_pickle(snapshot: Snapshot, what: str, path: str) -> str | None:
    """The digest of one of the facets above."""
    if what == "pickle":
        return PRESENT if _runs(path, snapshot) else None
    found = dangers(snapshot, path)
    return None if found is None else digest(found)


def _runs(path: str, snapshot: Snapshot) -> bool:
    if path not in snapshot.manifest.files:
        return False
    found = snapshot.pickles.get(path)
    return is_pickle(path) or (found is not None and bool(found.imports or found.dangerous))


def pickle_added(path: str, snapshot: Snapshot) -> Change:
    """The change that a pickle is by being there."""
    entry = snapshot.manifest.files[path]
    found = _own(snapshot, path)
    said = f"{short(path, limit=120)} ({entry.size} bytes) is loaded as a pickle, which can run code"
    if found is not None and found.dangerous:
        said += f"; in it: {short(', '.join(found.dangerous), limit=100)}"
    safe = any(item.format == "safetensors" for item in snapshot.tensor_files.values())
    return Change(
        cls="weights.pickle_added",
        path=path,
        summary=said,
        after={"size": entry.size, "content": entry.content_key},
        facet=f"weights:pickle:{path}",
        after_digest=PRESENT,
        facts={"paths": [path], "safetensors_beside": safe, **_facts(found)},
    )


def _grew(path: str, old: list[str] | None, new: list[str], after: Snapshot) -> Change:
    fresh = [name for name in new if name not in set(old or ())]
    return Change(
        cls="weights.pickle_added",
        path=path,
        summary=f"{short(path, limit=120)} now holds what can do harm: {short(', '.join(fresh), limit=130)}",
        before=None if old is None else examples(old),
        after=examples(new),
        facet=f"weights:imports:{path}",
        before_digest=None if old is None else digest(old),
        after_digest=digest(new),
        facts={"paths": [path], **_facts(_own(after, path)), "dangerous": fresh[:100]},
    )


def _own(snapshot: Snapshot, path: str) -> PickleFile | None:
    """What was found in this revision's own file, no stand-in's."""
    found = snapshot.pickles.get(path)
    own = found is not None and found.content_key == snapshot.manifest.files[path].content_key
    return found if own else None


def _facts(found: PickleFile | None) -> dict[str, Json]:
    if found is None:
        return {"looked_into": False}
    return {
        "looked_into": True,
        "container": found.container,
        "imports": examples(found.imports),
        "dangerous": list(found.dangerous[:100]),
        "read_to_its_end": found.whole,
    }
