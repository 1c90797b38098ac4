"""What a revision is as a whole: readable or not, and whether it is the first with a model in it.

Facets: ``repo:readable:<path>``, "ok", or the reason why not with the content it holds for, or the flaws;
``repo:part:<part>``, whether a model's config, tokenizer or weights are there at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from storage.model import Change, DocumentKind, Json, Manifest, Snapshot, digest
from tracker.diff.values import examples, short
from tracker.snapshot.kinds import is_weight, kind_of

OK = digest("ok")
_MODEL_KINDS = frozenset(
    {
        DocumentKind.CONFIG,
        DocumentKind.TOKENIZER,
        DocumentKind.TOKENIZER_CONFIG,
        DocumentKind.VOCABULARY,
        DocumentKind.COMPONENTS,
        DocumentKind.ADAPTER,
    }
)


@dataclass(frozen=True, slots=True)
class Repo:
    """The differ of gaps and flaws."""

    name: str = "repo"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """Files that became unreadable, or unreadable in another way."""
        states = _states(before)
        for path, state in sorted(_states(after).items()):
            known = self._digest(before, path, states)
            if known != digest(state):
                yield _unreadable(path, state, known)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Every gap and every flawed file."""
        for path, state in sorted(_states(snapshot).items()):
            yield _unreadable(path, state, None)

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """Whether a file is readable, or a part of a model is there."""
        if facet.startswith("repo:part:"):
            part = facet.removeprefix("repo:part:")
            return digest("present") if any(part_of(path) == part for path in snapshot.manifest.files) else None
        return self._digest(snapshot, facet.removeprefix("repo:readable:"), _states(snapshot))

    @staticmethod
    def _digest(snapshot: Snapshot, path: str, states: dict[str, dict[str, Json]]) -> str | None:
        if path not in snapshot.manifest.files:
            return None
        return digest(states[path]) if path in states else OK


def _states(snapshot: Snapshot) -> dict[str, dict[str, Json]]:
    """The files that are not plainly readable, and why."""
    files = snapshot.manifest.files
    found: dict[str, dict[str, Json]] = {}
    for path, document in snapshot.documents.items():
        if document.flaws and path in files:
            found[path] = {"flaws": sorted(document.flaws)}
    for gap in snapshot.gaps:
        if gap.path in files:
            found[gap.path] = {
                "reason": gap.reason,
                "detail": gap.detail,
                "content": files[gap.path].content_key,
            }
    return found


def _unreadable(path: str, state: dict[str, Json], before_digest: str | None) -> Change:
    flaws = state.get("flaws")
    if flaws:
        said = f"{short(path, limit=120)} is read, but strict readers refuse it: {short(flaws[0], limit=120)}"
    else:
        said = f"{short(path, limit=120)} cannot be read: {state['reason']}, {short(state['detail'], limit=120)}"
    return Change(
        cls="document.unreadable",
        path=path,
        summary=said,
        after=state,
        before="ok" if before_digest == OK else None,
        facet=f"repo:readable:{path}",
        before_digest=before_digest,
        after_digest=digest(state),
        facts={"readable": bool(flaws), **state},
    )


def model_files(manifest: Manifest) -> list[str]:
    """The files that make a model: configs, tokenizers, weights, adapters."""
    return [path for path in sorted(manifest.files) if _is_model_file(path)]


def _is_model_file(path: str) -> bool:
    return (
        kind_of(path) in _MODEL_KINDS
        or is_weight(path)
        or PurePosixPath(path).name in ("tokenizer.model", "spiece.model", "params.json")
    )


def first_files(after: Snapshot) -> Change:
    """The one change of the revision that first brings a model."""
    paths = model_files(after.manifest)
    files = after.manifest.files
    suffixes = Counter(PurePosixPath(path).suffix.lower() or path for path in files)
    size = sum(entry.size for entry in files.values())
    return Change(
        cls="repo.first_files",
        path=paths[0],
        summary=f"the first model files: {len(files)} files of {size} bytes, {short(', '.join(paths), limit=160)}",
        after=examples(paths),
        facts={
            "files": len(files),
            "model_files": len(paths),
            "bytes": size,
            "weight_bytes": sum(files[path].size for path in paths if is_weight(path)),
            "suffixes": dict(suffixes.most_common(20)),
        },
    )


_TOKENIZER_KINDS = frozenset(
    {
        DocumentKind.TOKENIZER,
        DocumentKind.TOKENIZER_CONFIG,
        DocumentKind.SPECIAL_TOKENS,
        DocumentKind.ADDED_TOKENS,
        DocumentKind.VOCABULARY,
        DocumentKind.MERGES,
        DocumentKind.CHAT_TEMPLATE,
    }
)
_TOKENIZER_NAMES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")


def part_of(path: str) -> str | None:
    """The part of a model that a file belongs to: config, tokenizer, weights or card."""
    kind = kind_of(path)
    if kind is DocumentKind.CARD:
        return "card"
    if kind is DocumentKind.CONFIG:
        return "config"
    if kind in _TOKENIZER_KINDS or PurePosixPath(path).name in _TOKENIZER_NAMES:
        return "tokenizer"
    return "weights" if is_weight(path) or kind is DocumentKind.WEIGHT_INDEX else None


def arrivals(before: Manifest, after: Manifest) -> dict[str, list[str]]:
    """The parts of a model that arrive with a revision, and their files.

    An upload is often several commits: first config and weights, then the tokenizer. A part of which
    nothing was there before has no earlier value that anything could differ from.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(after.files):
        part = part_of(path)
        if part is not None:
            found.setdefault(part, []).append(path)
    for part in {part_of(path) for path in before.files}:
        found.pop(part or "", None)
    return found


def arrival(part: str, paths: list[str], after: Snapshot) -> Change:
    """One change for a part's first files."""
    size = sum(after.manifest.files[path].size for path in paths)
    return Change(
        cls="file.other",
        path=paths[0],
        summary=f"the first {part} files: {short(', '.join(paths), limit=200)} ({size} bytes)",
        after=examples(paths),
        facet=f"repo:part:{part}",
        after_digest=digest("present"),
        facts={"paths": paths, "part": part, "added": True},
    )


def has_model(snapshot: Snapshot | None) -> bool:
    """Whether there is any model file."""
    return snapshot is not None and any(map(_is_model_file, snapshot.manifest.files))


def changed_paths(before: Manifest, after: Manifest) -> Iterator[str]:
    """The paths added, removed or with another content, sorted."""
    for path in sorted(before.files.keys() | after.files.keys()):
        old, new = before.files.get(path), after.files.get(path)
        if old is None or new is None or old.content_key != new.content_key:
            yield path


DIFFER = Repo()
