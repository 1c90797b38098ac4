"""Weight files: what was added, replaced, renamed inside, cast, split anew or removed.

Facets (``S`` a set's name, see `tracker.diff.weight_sets`):

* ``weights:pickle:<path>`` ``weights:imports:<path>``   see `tracker.diff.weight_pickles`
* ``weights:set:S``          "present"
* ``weights:content:S``      path to content key
* ``weights:files:S``        the paths
* ``weights:names:S`` ``weights:shapes:S`` ``weights:dtypes:S``   the tensor table over all shards
* ``weights:declared:S``     the type that the config beside the set declares, where headers cannot say it
* ``weights:gguf:S``         the header keys
* ``weights:index:<path>``   the ways in which the index and its files disagree
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from storage.model import Change, DocumentKind, Json, Snapshot, digest
from tracker.diff.values import capped, examples, short
from tracker.diff.weight_declared import declared_cast, declared_dtype
from tracker.diff.weight_index import index_changes, index_problem, mismatch, ways
from tracker.diff.weight_pickles import PRESENT, observe_pickle, pickle_added, pickle_changes, pickle_paths
from tracker.diff.weight_sets import WeightSet, weight_set, weight_sets
from tracker.diff.weight_tables import dtypes_of, shapes_of, table_changes

MAX_PATHS = 1_000  # that one change lists in ``facts["paths"]``


@dataclass(frozen=True, slots=True)
class Weights:
    """The differ of weight files."""

    name: str = "weights"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """Pickles first, then set by set, then what indexes disagree about."""
        yield from pickle_changes(before, after)
        old, new = weight_sets(before), weight_sets(after)
        moved = _moved(old, new)
        arrived = {now.name for now in moved.values()}
        for name in sorted(old.keys() | new.keys()):
            was, now = old.get(name), new.get(name)
            if was and now:
                yield from _compare(was, now, before, after)
            elif was and name in moved:
                yield _resharded(was, moved[name])
            elif was:
                yield _removed(was)
            elif now and name not in arrived:
                yield from _added(now, old)
        yield from index_changes(before, after)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Pickles and indexes that disagree with their files."""
        for path in pickle_paths(snapshot):
            yield pickle_added(path, snapshot)
        for document in snapshot.by_kind(DocumentKind.WEIGHT_INDEX):
            problem = index_problem(snapshot, document.path)
            if problem:
                yield mismatch(document.path, None, problem)

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of one of the facets above."""
        _, _, rest = facet.partition(":")
        what, _, name = rest.partition(":")
        if what in ("pickle", "imports"):
            return observe_pickle(snapshot, what, name)
        if what == "index":
            return ways(index_problem(snapshot, name))
        found = weight_set(snapshot, name)
        if what == "declared":
            return _digest(declared_dtype(snapshot, found)) if found else None
        return _values(found).get(what, _nothing)() if found else None


def _nothing() -> str | None:
    return None


def _values(found: WeightSet) -> Mapping[str, Callable[[], str | None]]:
    table = found.table
    return {
        "set": lambda: PRESENT,
        "content": lambda: digest(dict(found.files)),
        "files": lambda: digest(sorted(found.files)),
        "names": lambda: digest(sorted(found.names)) if found.names is not None else None,
        "shapes": lambda: digest(shapes_of(table)) if table is not None else None,
        "dtypes": lambda: digest(dtypes_of(table)) if table is not None else None,
        "gguf": lambda: _digest(gguf_metadata(found)),
    }


def _digest(value: Json) -> str | None:
    return None if value is None else digest(value)


def gguf_metadata(found: WeightSet) -> dict[str, Json] | None:
    """The header keys of a GGUF set: those of its first file, which holds them for all."""
    if found.format != "gguf" or not found.headers:
        return None
    return dict(found.headers[min(found.headers)].metadata)


# --- sets that came and went -------------------------------------------------------------------------


def _moved(old: Mapping[str, WeightSet], new: Mapping[str, WeightSet]) -> dict[str, WeightSet]:
    """Sets that went and are there again under another name: same format, same tensors."""
    waiting: dict[_Likeness, list[WeightSet]] = {}  # the first by name stands last
    for _, now in sorted(((name, item) for name, item in new.items() if name not in old), reverse=True, key=_name):
        for likeness in _likenesses(now):
            waiting.setdefault(likeness, []).append(now)
    found: dict[str, WeightSet] = {}
    taken: set[str] = set()
    for name, was in sorted(old.items()):
        for likeness in _likenesses(was) if name not in new else ():
            queue = waiting.get(likeness, [])
            while queue and queue[-1].name in taken:
                queue.pop()
            if queue and _same_tensors(was, queue[-1]):
                found[name] = queue.pop()
                taken.add(found[name].name)
                break
    return found


_Likeness = tuple[str, str, object]


def _likenesses(item: WeightSet) -> Iterator[_Likeness]:
    """What two sets have in common that may be the same: their tensors, or their files."""
    if item.table:
        yield item.format, "tensors", frozenset(item.table.values())
    yield item.format, "files", tuple(sorted(item.files.values()))


def _name(named: tuple[str, WeightSet]) -> str:
    return named[0]


def _same_tensors(was: WeightSet, now: WeightSet) -> bool:
    if was.table is not None and now.table is not None:
        return bool(was.table) and was.table == now.table
    return sorted(was.files.values()) == sorted(now.files.values())


def _added(now: WeightSet, old: Mapping[str, WeightSet]) -> Iterator[Change]:
    if now.pickle:
        return  # each of its files is a change of its own
    others = sorted({item.format for item in old.values()})
    first = f"the first weights, {now.format}" if not old else f"more weights, {now.format}"
    yield Change(
        cls="weights.format_added",
        path=min(now.files),
        summary=f"{short(now.name, limit=120)}: {first}, {_files(now)}",
        after=_listing(now),
        facet=f"weights:set:{now.name}",
        after_digest=PRESENT,
        facts={
            "paths": now.paths[:MAX_PATHS],
            "format": now.format,
            "formats_before": others,
            "new_format": now.format not in others,
            "bytes": now.bytes,
            "same_tensors": any(_same_names(now, item) for item in old.values()),
        },
    )


def _same_names(one: WeightSet, other: WeightSet) -> bool:
    return one.names is not None and one.names == other.names


def _removed(was: WeightSet) -> Change:
    return Change(
        cls="weights.format_removed",
        path=min(was.files),
        summary=f"{short(was.name, limit=120)} is gone ({was.format}, {_files(was)})",
        before=_listing(was),
        facet=f"weights:set:{was.name}",
        before_digest=PRESENT,
        facts={"paths": was.paths[:MAX_PATHS], "format": was.format, "bytes": was.bytes, "pickle": was.pickle},
    )


def _resharded(was: WeightSet, now: WeightSet, *, headers_unread: bool = False) -> Change:
    tensors = "headers cannot be read, now" if headers_unread else "same tensors, now"
    return Change(
        cls="weights.resharded",
        path=min(now.files),
        summary=f"{short(was.name, limit=80)}: {tensors} in {short(now.name, limit=80)}, {_files(now)}",
        before=_listing(was),
        after=_listing(now),
        facet=f"weights:files:{was.name}",
        before_digest=digest(sorted(was.files)),
        after_digest=digest(sorted(now.files)) if was.name == now.name else None,
        facts={
            "paths": sorted({*was.paths, *now.paths})[:MAX_PATHS],
            "files_before": len(was.files),
            "files_after": len(now.files),
            "headers_unread": headers_unread,
            "pickle": now.pickle,
        },
    )


def _files(found: WeightSet) -> str:
    count = len(found.files)
    return f"{count} file{'s' if count != 1 else ''} of {found.bytes} bytes"


def _listing(found: WeightSet) -> Json:
    return capped(dict(sorted(found.files.items())[:100]))


# --- one set, before and after -----------------------------------------------------------------------


def _compare(was: WeightSet, now: WeightSet, before: Snapshot, after: Snapshot) -> Iterator[Change]:
    """The changes of a set. Bytes that differ because names, shapes or types do are no replacement."""
    if was.files == now.files and was.names == now.names and was.table == now.table:
        return
    touched = sorted(path for path in {*was.files, *now.files} if was.files.get(path) != now.files.get(path))
    index = [item.index[0] for item in (was, now) if item.index]
    facts: dict[str, Json] = {"paths": sorted({*touched, *(index if touched else [])})[:MAX_PATHS]}
    if touched and not was.complete and not any(path in was.files for path in touched):
        yield _more_shards(was, now, touched, facts)
        return
    table = list(table_changes(was, now, before, after, facts))
    yield from table
    if was.format == "gguf":
        yield from _gguf_metadata_change(was, now, facts)
    if not touched:
        return
    other_files = sorted(was.files) != sorted(now.files)
    known = was.table is not None and now.table is not None and not now.unread
    if other_files and known:
        if {item.cls for item in table} <= {"weights.dtype"}:
            yield _resharded(was, now)
        return
    if other_files and now.format != "gguf":
        # What the headers would say is unknown, that the layout is another is certain.
        yield _resharded(was, now, headers_unread=True)
        cast = declared_cast(was, now, before, after, facts)
        if cast is not None:
            yield cast
            return
    if not table or was.format == "gguf":
        yield _replaced(was, now, touched, facts, known=known)


def _replaced(
    was: WeightSet, now: WeightSet, touched: list[str], facts: Mapping[str, Json], *, known: bool
) -> Change:
    gguf = now.format == "gguf"
    both = [path for path in touched if path in was.files and path in now.files]
    why = "the same tensors, other bytes" if known else "other bytes under the same name"
    shown = both or touched
    return Change(
        cls="gguf.replaced" if gguf else "weights.replaced",
        path=shown[0],
        summary=f"{short(now.name, limit=120)}: {why} in {len(shown)} of {len(now.files)} files",
        before={path: _identity(was, path) for path in shown[:100] if path in was.files},
        after={path: _identity(now, path) for path in shown[:100] if path in now.files},
        facet=f"weights:content:{now.name}",
        before_digest=digest(dict(was.files)),
        after_digest=digest(dict(now.files)),
        facts={
            **facts,
            "files_changed": len(both),
            "files_added": sum(path not in was.files for path in touched),
            "files_removed": sum(path not in now.files for path in touched),
            "headers_read": known,
            "bytes_before": was.bytes,
            "bytes_after": now.bytes,
            "pickle": now.pickle,
        },
    )


def _more_shards(was: WeightSet, now: WeightSet, touched: list[str], facts: Mapping[str, Json]) -> Change:
    """An upload in parts goes on: shards that the names of the others announced."""
    return Change(
        cls="weights.format_added",
        path=touched[0],
        summary=f"{short(now.name, limit=120)}: {len(touched)} more of its shards, now {_files(now)}",
        before=_listing(was),
        after=_listing(now),
        facet=f"weights:files:{now.name}",
        before_digest=digest(sorted(was.files)),
        after_digest=digest(sorted(now.files)),
        facts={**facts, "continued": True, "complete": now.complete, "format": now.format},
    )


def _identity(found: WeightSet, path: str) -> Json:
    return {"content": found.files[path], "size": found.sizes[path]}


def _gguf_metadata_change(was: WeightSet, now: WeightSet, facts: Mapping[str, Json]) -> Iterator[Change]:
    old, new = gguf_metadata(was), gguf_metadata(now)
    if old is None or new is None or old == new:
        return
    partial = any(header.truncated for item in (was, now) for header in item.headers.values())
    keys = old.keys() & new.keys() if partial else old.keys() | new.keys()
    moved = sorted(key for key in keys if old.get(key) != new.get(key))
    if not moved:
        return
    path = min(now.files)
    yield Change(
        cls="gguf.metadata",
        path=path,
        summary=f"{short(now.name, limit=100)}: header keys differ: {short(', '.join(moved), limit=140)}",
        before=capped({key: old.get(key) for key in moved[:100]}),
        after=capped({key: new.get(key) for key in moved[:100]}),
        facet=f"weights:gguf:{now.name}",
        before_digest=digest(old),
        after_digest=digest(new),
        facts={**facts, "keys": examples(moved), "keys_changed": len(moved), "partial": partial},
    )


DIFFER = Weights()
