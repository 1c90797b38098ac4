"""Weight indexes held against the files they name.

The facet ``weights:index:<path>`` is the ways in which they disagree, not over how many tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from storage.model import Change, DocumentKind, Json, Snapshot, digest
from tracker.diff.values import capped, examples, short
from tracker.diff.weight_sets import weight_map


def index_problem(snapshot: Snapshot, path: str) -> dict[str, Json] | None:
    """What an index and the files it names disagree about; None where they agree or nothing can be said."""
    document = snapshot.documents.get(path)
    if document is None or document.kind is not DocumentKind.WEIGHT_INDEX:
        return None
    listed = weight_map(document.data)
    folder = path.rpartition("/")[0]
    place = f"{folder}/" if folder else ""
    named = {file: f"{place}{file}" for file in set(listed.values())}
    missing = sorted(file for file, full in named.items() if full not in snapshot.manifest.files)
    headers = {
        file: header
        for file, full in named.items()
        if (header := snapshot.tensor_files.get(full)) is not None and not header.truncated
    }
    expected = Counter(listed.values())
    elsewhere: list[str] = []
    unlisted: list[str] = []
    for file, header in headers.items():
        names = {tensor.name for tensor in header.tensors}
        unlisted.extend(names - listed.keys())
        if sum(listed.get(name) == file for name in names) < expected[file]:
            elsewhere.extend(name for name, place in listed.items() if place == file and name not in names)
    elsewhere.sort()
    unlisted.sort()
    if not (missing or elsewhere or unlisted):
        return None
    return {
        "missing_files": missing,
        "not_in_their_file": elsewhere,
        "not_in_the_index": unlisted,
    }


def index_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    """Indexes that came to disagree with their files, or disagree in another way."""
    for document in after.by_kind(DocumentKind.WEIGHT_INDEX):
        problem = index_problem(after, document.path)
        known = index_problem(before, document.path)
        if problem and ways(problem) != ways(known):
            yield mismatch(document.path, known, problem)


def ways(problem: dict[str, Json] | None) -> str | None:
    """The digest of how they disagree, not over how much: an upload in parts is one disagreement."""
    return digest(sorted(way for way, items in problem.items() if items)) if problem else None


def mismatch(path: str, known: dict[str, Json] | None, problem: dict[str, Json]) -> Change:
    """An index and its files disagree: facet ``weights:index:<path>``."""
    counts = ", ".join(f"{len(items)} {what.replace('_', ' ')}" for what, items in problem.items() if items)
    return Change(
        cls="weights.index_mismatch",
        path=path,
        pointer="/weight_map",
        summary=f"{short(path, limit=120)} and the weight files disagree: {counts}",
        before=capped({key: examples(items) for key, items in known.items()}) if known else None,
        after=capped({key: examples(items) for key, items in problem.items()}),
        facet=f"weights:index:{path}",
        before_digest=ways(known),
        after_digest=ways(problem),
        facts={"paths": [path], **{key: len(items) for key, items in problem.items()}},
    )
