"""Signatures: lost, of another signer, or no longer of the files they name.

Facets: ``signatures:there:<path>`` ("present"), ``signatures:signer:<path>``, ``signatures:unvouched:<path>`` (the
files that differ from what was signed).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storage.model import Change, Snapshot, digest
from tracker.diff.values import examples, short
from tracker.snapshot.signatures import bundles, is_signature, unvouched

PRESENT = digest("present")


@dataclass(frozen=True, slots=True)
class Signatures:
    """The differ of signatures."""

    name: str = "signatures"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """Signature files that went, then bundles that say other things."""
        yield from _lost(before, after)
        old, new = bundles(before), bundles(after)
        for path in sorted(old.keys() & new.keys()):
            yield from _signer(path, old[path].signer, new[path].signer)
        for path in sorted(new):
            yield from _unvouched(path, before, after)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Nothing: what was never signed lost no signature."""
        return ()

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of one of the facets above."""
        what, _, path = facet.removeprefix("signatures:").partition(":")
        if what == "there":
            return PRESENT if path in snapshot.manifest.files and is_signature(path) else None
        bundle = bundles(snapshot).get(path)
        if bundle is None:
            return None
        if what == "signer":
            return digest(bundle.signer)
        return _files_digest(snapshot, path) if what == "unvouched" else None


def _files_digest(snapshot: Snapshot, path: str) -> str | None:
    bundle = bundles(snapshot).get(path)
    files = unvouched(snapshot, path, bundle) if bundle else []
    return digest(files) if files else None


def _lost(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    there = {entry.content_key for entry in after.manifest.files.values()}
    for path, entry in sorted(before.manifest.files.items()):
        if is_signature(path) and path not in after.manifest.files:
            moved = entry.content_key in there
            said = "moved to another path" if moved else "is gone: it was signed"
            yield Change(
                cls="file.other" if moved else "signature.lost",
                path=path,
                summary=f"{short(path, limit=160)} {said}",
                before={"content": entry.content_key},
                facet=f"signatures:there:{path}",
                before_digest=PRESENT,
                facts={"removed": True},
            )


def _signer(path: str, old: str | None, new: str | None) -> Iterator[Change]:
    if old is not None and old != new:
        yield Change(
            cls="signature.lost",
            path=path,
            summary=f"{short(path, limit=100)} has another signer: {short(new)} after {short(old)}",
            before=old,
            after=new,
            facet=f"signatures:signer:{path}",
            before_digest=digest(old),
            after_digest=digest(new),
            facts={"signer_changed": True},
        )


def _unvouched(path: str, before: Snapshot, after: Snapshot) -> Iterator[Change]:
    known, now = _files_digest(before, path), _files_digest(after, path)
    if now is None or now == known:
        return
    files = unvouched(after, path, bundles(after)[path])
    yield Change(
        cls="signature.lost",
        path=path,
        summary=f"{short(path, limit=100)} does not vouch for {len(files)} files as they are: {short(files[0])}",
        after=examples(files),
        facet=f"signatures:unvouched:{path}",
        before_digest=known,
        after_digest=now,
        facts={"unvouched": len(files)},
    )


DIFFER = Signatures()
