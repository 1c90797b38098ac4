"""What is kept, as the JSON of the public contract: the same shapes for the command line and for HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from advisories.view import change_json
from storage import advisories, changes, estimates, history
from storage.database import Database, Transaction
from storage.errors import NotFound, UsageError
from storage.model import (
    AdvisoryEvent,
    Document,
    Estimate,
    FileEntry,
    Finding,
    Json,
    RecordedRevision,
    RepoRef,
    Severity,
    Snapshot,
    Watch,
)
from tracker.examine import Examination, Examiner
from tracker.loader import NOT_KEPT, Loader
from tracker.snapshot.build import carry
from tracker.snapshot.pointer import ABSENT, value_at

_LONG = ("structure", "cards")
"""Keys of an estimate that history leaves out."""


_MEMORY = ("full_finetune_bytes", "lora_bytes", "weights_bytes", "kv_cache_bytes", "activation_bytes")
_UNKNOWN: dict[str, Json] = {
    "parameters": dict.fromkeys(("total", "embedding", "head", "active")),
    "checkpoint": dict.fromkeys(("total", "source", "delta", "explanation")),
    "lora": dict.fromkeys(("parameters", "parameters_linear")),
    "memory": dict.fromkeys(_MEMORY),
    "tokens": dict.fromkeys(("train", "serve")),
    "headroom": None,
    "cards": [],
    "cost": dict.fromkeys(("usd", "card", "hours")),
    "structure": [],
    "forward_pass": None,
    "layers": None,
    "findings": [],
}
"""Every key of an estimate, for the figures that an unsupported one does not have."""


def iso(when: datetime | None) -> str | None:
    """RFC 3339 in UTC, with ``Z``."""
    return when.isoformat().replace("+00:00", "Z") if when else None


def estimate_json(estimate: Estimate | None, *, short: bool = False) -> dict[str, Json] | None:
    """An estimate under the contract's keys; ``short`` leaves out structure and cards."""
    if estimate is None:
        return None
    head = {
        "status": str(estimate.status),
        "source": estimate.source,
        "model_type": estimate.model_type,
        "architecture": estimate.architecture,
        "estimator": estimate.estimator,
        "version": estimate.version,
        "reason": estimate.reason,
    }
    body = {key: value for key, value in (_UNKNOWN | dict(estimate.body)).items() if not (short and key in _LONG)}
    return head | body


def history_json(tx: Transaction, repo: RepoRef, *, limit: int | None = None) -> dict[str, Json]:
    """Revisions, newest first, each with what changed in it and what it did to advisories."""
    return {"repo": repo.id, "revisions": revisions_json(tx, repo, history.revisions(tx, repo, limit=limit))}


def revisions_json(tx: Transaction, repo: RepoRef, rows: Sequence[RecordedRevision]) -> list[dict[str, Json]]:
    """These revisions of a repo, in their order."""
    shas = [row.revision.sha for row in rows]
    found = changes.by_revision(tx, repo, shas)
    costs = estimates.by_revision(tx, repo, shas)
    events = advisories.events(tx, repo, shas)
    return [
        revision_json(
            row,
            found.get(row.revision.sha, ()),
            costs.get(row.revision.sha),
            events.get(row.revision.sha, ()),
        )
        for row in rows
    ]


def revision_json(
    row: RecordedRevision,
    findings: Iterable[Finding],
    estimate: Estimate | None,
    events: Iterable[AdvisoryEvent],
) -> dict[str, Json]:
    """One revision."""
    revision = row.revision
    return {
        "sha": revision.sha,
        "committed_at": iso(revision.committed_at),
        "observed_at": iso(row.observed_at),
        "author": revision.author,
        "title": revision.title,
        "parents": list(revision.parents),
        "parents_unknown": revision.parents_unknown,
        "changes": [change_json(finding) for finding in findings],
        "estimate": estimate_json(estimate, short=True),
        "advisories": list(dict.fromkeys(event.advisory_id for event in events)),
        "events": [{"advisory": event.advisory_id, "action": str(event.action)} for event in events],
    }


def diff_json(repo: RepoRef, seen: Examination) -> dict[str, Json]:
    """Two revisions, compared."""
    before = seen.before.revision.sha if seen.before else None
    lost = not_kept(seen)
    return {
        "repo": repo.id,
        "from": before,
        "to": seen.after.revision.sha,
        "changes": [
            change_json(finding)
            for finding in seen.findings
            # that we forgot a content is nothing that happened to the file
            if not (finding.cls == "document.unreadable" and finding.change.path in lost)
        ],
        "not_kept": lost,
        "estimate": {
            "before": estimate_json(seen.estimate_before, short=True),
            "after": estimate_json(seen.estimate, short=True),
        },
    }


def not_kept(seen: Examination) -> list[str]:
    """The paths of which one side's content is not kept any more: what is in them is not compared."""
    sides = (side for side in (seen.before, seen.after) if side is not None)
    return sorted({gap.path for side in sides for gap in side.gaps if gap.reason == NOT_KEPT})


def compare(database: Database, loader: Loader, examiner: Examiner, repo: RepoRef, a: str, b: str) -> Examination:
    """Examine any two landed revisions, in either order; raises NotFound for what is not here.

    Files whose content is not kept any more are gaps, and nothing is said of what is in them; the figures are
    then those that are kept.
    """
    with database.snapshot() as tx:
        shas = tuple(history.resolve(tx, repo, rev).revision.sha for rev in (a, b))
    before, after = (loader.stored(repo, sha, partial=True) for sha in shas)
    seen = examiner.examine(_filled(before, after), _filled(after, before))
    if not not_kept(seen):
        return seen
    with database.snapshot() as tx:
        kept = estimates.by_revision(tx, repo, shas)
    return replace(seen, estimate_before=kept.get(shas[0]), estimate=kept.get(shas[1]))


def _filled(snapshot: Snapshot, other: Snapshot) -> Snapshot:
    """A snapshot in which the other's content stands for what is not kept: so that nothing seems to differ."""
    lost = tuple(gap for gap in snapshot.gaps if gap.reason == NOT_KEPT)
    return replace(carry(other, replace(snapshot, gaps=lost)), gaps=snapshot.gaps)


def show_json(tx: Transaction, repo: RepoRef, row: RecordedRevision) -> dict[str, Json]:
    """One revision whole: files, estimate, open advisories."""
    sha = row.revision.sha
    manifest = history.manifest(tx, repo, sha)
    head = history.head(tx, repo)
    open_there = advisories.at_commit(tx, sha, repo=repo)
    if head is not None and head.revision.sha == sha:  # the state of a repo is today's, and of no commit
        open_there += [item for item in advisories.of_repo(tx, repo, state="open") if not item.spans]
    return {
        "repo": repo.id,
        "sha": sha,
        "committed_at": iso(row.revision.committed_at),
        "observed_at": iso(row.observed_at),
        "author": row.revision.author,
        "title": row.revision.title,
        "files": [file_json(entry) for _, entry in sorted(manifest.files.items())],
        "gaps": [
            {"path": gap.path, "reason": gap.reason, "detail": gap.detail} for gap in history.gaps(tx, repo, sha)
        ],
        "estimate": estimate_json(estimates.of(tx, repo, sha)),
        "open_advisories": [advisory.id for advisory in open_there if advisory.severity > Severity.INFO],
    }


def file_json(entry: FileEntry) -> dict[str, Json]:
    """One file of a tree."""
    return {"path": entry.path, "size": entry.size, "blob_id": entry.blob_id, "lfs_sha256": entry.lfs_sha256}


def blame_json(
    database: Database, loader: Loader, repo: RepoRef, path: str, pointer: str | None
) -> dict[str, Json]:
    """Which revisions set the value at ``pointer`` of ``path`` (or the file itself), newest first.

    A version that could not be read says nothing and is left out; a file or value that went away is an
    entry with value None. So is a version whose content is not kept any more, with ``kept`` false: it may have
    set the value or not. Raises NotFound when no revision ever had it, UsageError for what is no pointer.
    """
    if pointer and not pointer.startswith("/"):
        raise UsageError(f"{pointer[:80]!r} is no JSON pointer", help="write it like /rope_theta")
    with database.snapshot() as tx:
        versions = history.file_versions(tx, repo, path)
    if not versions:
        raise NotFound(f"{path!r} is in no revision of {repo.id}", help=f"hubwatch show {repo.id} lists the files")

    def never_read(row: RecordedRevision) -> bool:
        with database.snapshot() as tx:
            return any(gap.path == path for gap in history.gaps(tx, repo, row.revision.sha))

    versions.reverse()
    documents = loader.documents(entry for _, entry in versions if entry is not None and pointer is not None)
    values = [
        (row, _value(loader, entry, pointer, documents, partial(never_read, row))) for row, entry in versions
    ]
    entries: list[dict[str, Json]] = []
    last: Any = ABSENT
    for row, value in values:
        same = value == last and type(value) is type(last) and value is not _FORGOTTEN
        if value is _UNREADABLE or same:
            continue
        last = value
        entries.append(
            {
                "sha": row.revision.sha,
                "committed_at": iso(row.revision.committed_at),
                "value": None if value is ABSENT or value is _FORGOTTEN else value,
                "present": value is not ABSENT,
                "kept": value is not _FORGOTTEN,
                "author": row.revision.author,
                "title": row.revision.title,
            }
        )
    if not entries:
        raise NotFound(
            f"{path}#{pointer} was never there in {repo.id}", help="give a JSON pointer such as #/rope_theta"
        )
    return {"repo": repo.id, "path": path, "pointer": pointer, "entries": entries[::-1]}


_UNREADABLE = object()
_FORGOTTEN = object()


def _value(
    loader: Loader,
    entry: FileEntry | None,
    pointer: str | None,
    documents: Iterator[Document | None],
    unread: Callable[[], bool],
) -> Any:
    if entry is None:
        return ABSENT
    if pointer is None:
        return entry.content_key
    document = next(documents)
    if document is not None:
        return value_at(document.data, pointer)
    return _UNREADABLE if loader.keeps(entry) or unread() else _FORGOTTEN


def watch_json(row: Watch) -> dict[str, Json]:
    """How a repo is followed, and how that stands."""
    return {
        "repo": row.repo.id,
        "ref": row.ref,
        "state": str(row.state),
        "paused": row.paused,
        "head": row.head,
        "checked_at": iso(row.checked_at),
        "next_check_at": iso(row.next_check_at),
        "errors": row.errors,
        "last_error": row.last_error,
        "every_seconds": row.every.total_seconds() if row.every else None,
        "since": iso(row.since),
        "from_head": row.from_head,
        "public": row.public,
        "restricted": row.restricted,
    }


def cards_of(estimate: Estimate | None) -> Sequence[dict[str, Json]]:
    """The card table of an estimate, empty where there is none."""
    cards: Sequence[dict[str, Json]] = estimate.body.get("cards", []) if estimate else []
    return cards
