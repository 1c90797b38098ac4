"""All differs, and the comparison of two revisions as the pipeline wants it.

A module of this package that exports ``DIFFER`` is a differ; nothing else has to be told of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import tracker.diff
from storage.model import Change, Manifest, Snapshot, digest
from tracker.diff.files import paths_of, rest
from tracker.diff.interface import Differ
from tracker.diff.repo import arrival, arrivals, first_files, has_model
from tracker.diff.values import examples

MAX_PER_CLASS = 500  # changes of one class in one revision; the rest share one


@cache
def load() -> tuple[Differ, ...]:
    """Every differ, sorted by module name."""
    names = sorted(module.name for module in pkgutil.iter_modules(tracker.diff.__path__))
    modules = (importlib.import_module(f"tracker.diff.{name}") for name in names)
    return tuple(module.DIFFER for module in modules if hasattr(module, "DIFFER"))


def compare(
    before: Snapshot | None, after: Snapshot, *, horizon: bool = False, had_model: bool = False
) -> tuple[Change, ...]:
    """All changes from one revision to the next, in a stable order.

    The revision that first brings a model is one ``repo.first_files``, and beside it the dangers that stand
    in it, with ``facts["since_first"]``. Otherwise every path whose content changed is named by a change.

    Args:
        before: The predecessor; None for the first revision read.
        after: The revision.
        horizon: ``after`` is where a cut history starts: nothing is said but the standing dangers.
        had_model: An earlier revision had model files, though ``before`` may have none: they came back,
            and are compared like any other change.

    """
    if before is None and horizon:
        return _capped(_standing(after, at_horizon=True))
    if has_model(after) and not has_model(before) and not had_model:
        return _capped([first_files(after), *_standing(after)])
    if before is None:
        nothing = replace(after, manifest=Manifest(files={}), documents={}, tensor_files={}, gaps=())
        return _capped([*_standing(after), *rest(nothing, after, {c.path for c in _standing(after)})])
    if before.manifest.digest == after.manifest.digest and before.gaps == after.gaps:
        return ()
    found = _arrived(before, after, [change for differ in load() for change in differ.diff(before, after)])
    spoken = {path for change in found for path in paths_of(change)}
    return _capped([*found, *rest(before, after, spoken)])


def observe(snapshot: Snapshot, facet: str) -> str | None:
    """The digest of any differ's facet; None when it is not there or no differ knows it."""
    name = facet.partition(":")[0]
    differ = next((differ for differ in load() if differ.name == name), None)
    return differ.observe(snapshot, facet) if differ else None


# What is dangerous, or wrong in itself, whether or not there was anything before it.
_DANGERS = frozenset(
    {
        "document.unreadable",
        "file.disguised",
        "template.hidden_chars",
        "template.unsafe",
        "tokenizer.vocab_size",
        "tokens.inconsistent",
        "weights.index_mismatch",
        "weights.pickle_added",
    }
)


def _arrived(before: Snapshot, after: Snapshot, changes: list[Change]) -> list[Change]:
    """One change for each part of a model that arrives, in place of all that differs from nothing."""
    parts = arrivals(before.manifest, after.manifest)
    if not has_model(before):  # a model that comes back is compared; a card can only arrive
        parts = {part: paths for part, paths in parts.items() if part == "card"}
    if not parts:
        return changes
    first = {path for paths in parts.values() for path in paths}
    kept = [
        replace(change, facts={**change.facts, "arrival": True}) if change.path in first else change
        for change in changes
        if change.path not in first or change.cls in _DANGERS or change.cls.startswith("code.")
    ]
    return [*kept, *(arrival(part, paths, after) for part, paths in sorted(parts.items()))]


def _standing(snapshot: Snapshot, *, at_horizon: bool = False) -> list[Change]:
    facts = {"since_first": True, **({"at_horizon": True} if at_horizon else {})}
    return [
        replace(change, facts={**change.facts, **facts})
        for differ in load()
        for change in differ.standing(snapshot)
    ]


def _capped(changes: Iterable[Change]) -> tuple[Change, ...]:
    """At most 500 changes of a class: what a hostile repo adds beyond is counted in one."""
    seen: Counter[str] = Counter()
    kept: list[Change] = []
    over: dict[str, list[Change]] = {}
    for change in changes:
        seen[change.cls] += 1
        (kept if seen[change.cls] <= MAX_PER_CLASS else over.setdefault(change.cls, [])).append(change)
    for cls, more in over.items():
        facts = {"count": len(more), "paths": sorted({change.path for change in more})[:1000]}
        if any(change.facts.get("since_first") for change in more):
            facts["since_first"] = True
        kept.append(
            Change(
                cls=cls,
                path=more[0].path,
                summary=f"{len(more)} more changes of this class",
                after=examples(change.summary for change in more),
                after_digest=digest([change.facet for change in more]),
                facts=facts,
            )
        )
    return tuple(kept)
