"""What a revision is as a whole: readable or not, and whether it is the first with a model in it.

Facets: ``repo:readable:<path>``, "ok", or the reason why not with the content it holds for, or the flaws;
``repo:shards:<set>``, the same over all shards of one weight set, which are one subject;
``repo:part:<part>``, whether a model's config, tokenizer or weights are there at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from storage.model import Change, DocumentKind, Json, Manifest, Snapshot, digest
from tracker.diff.values import examples, short
from tracker.diff.weight_sets import set_name
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
        alone, sets = _by_subject(_states(after))
        for path, state in sorted(alone.items()):
            known = self._digest(before, path, states)
            if known != digest(state):
                yield _unreadable(path, state, known)
        for name, members in sorted(sets.items()):
            known = _shards_digest(before, name, states)
            if known != digest(members):
                yield _unreadable_shards(name, members, known)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Every gap and every flawed file."""
        alone, sets = _by_subject(_states(snapshot))
        for path, state in sorted(alone.items()):
            yield _unreadable(path, state, None)
        for name, members in sorted(sets.items()):
            yield _unreadable_shards(name, members, None)

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """Whether a file is readable, or a part of a model is there."""
        if facet.startswith("repo:part:"):
            part = facet.removeprefix("repo:part:")
            return digest("present") if any(part_of(path) == part for path in snapshot.manifest.files) else None
        if facet.startswith("repo:shards:"):
            return _shards_digest(snapshot, facet.removeprefix("repo:shards:"), _states(snapshot))
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


def _is_shard(path: str) -> bool:
    return is_weight(path) and set_name(path) != path


def _by_subject(
    states: dict[str, dict[str, Json]],
) -> tuple[dict[str, dict[str, Json]], dict[str, dict[str, dict[str, Json]]]]:
    """The states of files that stand for themselves, and those of shards by their set."""
    alone = {path: state for path, state in states.items() if not _is_shard(path)}
    sets: dict[str, dict[str, dict[str, Json]]] = {}
    for path in sorted(states.keys() - alone.keys()):
        sets.setdefault(set_name(path), {})[path] = states[path]
    return alone, sets


def _shards_digest(snapshot: Snapshot, name: str, states: dict[str, dict[str, Json]]) -> str | None:
    shards = [path for path in snapshot.manifest.files if _is_shard(path) and set_name(path) == name]
    members = {path: states[path] for path in shards if path in states}
    return digest(members) if members else OK if shards else None


def _unreadable_shards(name: str, members: dict[str, dict[str, Json]], before_digest: str | None) -> Change:
    first = min(members)
    reasons = Counter(str(state["reason"]) for state in members.values())
    return Change(
        cls="document.unreadable",
        path=first,
        summary=f"{len(members)} shards of {short(name, limit=100)} cannot be read: "
        f"{short(', '.join(reasons), limit=60)}, {short(members[first]['detail'], limit=80)}",
        before="ok" if before_digest == OK else None,
        after={"shards": len(members), "reasons": dict(reasons)},
        facet=f"repo:shards:{name}",
        before_digest=before_digest,
        after_digest=digest(members),
        facts={"readable": False, "paths": sorted(members)[:1_000], "reason": reasons.most_common(1)[0][0]},
    )


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
        or path.rpartition("/")[2] in ("tokenizer.model", "spiece.model", "params.json")
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
    """The part of a model that a file belongs to: config, quantization, tokenizer, weights or card."""
    kind = kind_of(path)
    if kind is DocumentKind.CARD:
        return "card"
    if kind is DocumentKind.CONFIG:
        return "config"
    if kind is DocumentKind.QUANTIZATION:
        return "quantization"
    if kind in _TOKENIZER_KINDS or path.rpartition("/")[2] in _TOKENIZER_NAMES:
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
    known = {part_of(path) for path in before.files}
    if known & {"config", "weights"}:
        known.add("quantization")  # a side-car beside a model is a setting of it
    for part in known:
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
