"""References held against advisories: what is held, what changed since, what touches it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from advisories.audit.model import Audit, Gap, Holding, Knowledge, Notice, Reading, Reference, is_sha
from advisories.policy import Policy, Subject
from storage.errors import UsageError
from storage.model import Severity

NO_POLICY = Policy()
_SHORTEST = 7  # characters that may stand for a sha
_DEFAULT = frozenset({"main", "HEAD"})


def audit(
    reading: Reading,
    known: Mapping[str, Knowledge],
    base: str | None = None,
    *,
    policy: Policy = NO_POLICY,
    at: datetime | None = None,
) -> Audit:
    """Hold every reference against what is known of its repo.

    Args:
        reading: The references, and what could not be read.
        known: By repo as referenced; a repo that is not there is not watched.
        base: The folder that files are relative to.
        policy: What the house silences, raises or lowers.
        at: When, for rules that end; now by default.

    """
    now = at or datetime.now(UTC)
    holdings: list[Holding] = []
    gaps = list(reading.gaps)
    for reference in reading.references:
        knowledge = known.get(reference.repo)
        holding, gap = (
            hold(reference, knowledge, policy=policy, at=now)
            if knowledge
            else (Holding(reference=reference), _not_watched(reference))
        )
        holdings.append(holding)
        gaps += [gap] if gap else []
    return Audit(holdings=tuple(holdings), gaps=tuple(gaps), base=base)


def hold(
    reference: Reference, known: Knowledge, *, policy: Policy = NO_POLICY, at: datetime | None = None
) -> tuple[Holding, Gap | None]:
    """What one reference holds, and what could not be said of it.

    A floating reference is held against the newest read head, so its advisories are the open ones; a pinned
    one against the advisories that list its sha. One whose revision cannot be told from its file is held against
    the newest head as well, as what it may be: its commit is None, and that is a gap.
    """
    sha = _held(reference, known)
    floating = sha is None and (
        reference.revision is None or reference.revision in _DEFAULT or reference.revision == known.ref
    )
    now = at or datetime.now(UTC)
    judged = [
        _judged(_notice(document), known.repo, policy, now) for document in known.documents if counts(document)
    ]
    notices = [notice for notice in judged if notice is not None]
    at_head = [notice for notice in notices if is_open(notice.document)]
    if floating:
        other = reference.revision in _DEFAULT and known.ref not in _DEFAULT
        if other:
            detail = f"{known.ref} is followed here, not main"
            return Holding(reference=reference, unjudged=detail), _not_read(reference, detail)
        if reference.unsure:
            return Holding(reference=reference, head=known.head, affected=_gravest_first(at_head)), _unsure(
                reference
            )
        gap = None if known.head or known.documents else _not_read(reference, "no revision was read yet")
        return Holding(
            reference=reference,
            sha=known.head,
            head=known.head,
            behind=0 if known.head else None,
            affected=_gravest_first(at_head),
            facts=known.facts,
        ), gap
    if sha is None:
        detail = "it is not known to the history here, and so not judged"
        return Holding(reference=reference, head=known.head, unjudged=detail), _not_read(reference, detail)
    at_held = [notice for notice in notices if sha in commits(notice.document)]
    here, there = ({notice.id for notice in found} for found in (at_held, at_head))
    gap = None
    if sha not in known.read and not at_held:
        gap = _not_read(
            reference, "this commit was not read" if known.everything else "no advisory names this commit"
        )
    behind = _behind(sha, known)
    current = sha == known.head
    return (
        Holding(
            reference=reference,
            sha=sha,
            head=known.head,
            behind=behind,
            affected=_gravest_first(at_held),
            gained=() if current or gap else _gravest_first(item for item in at_head if item.id not in here),
            lost=() if current or gap else _gravest_first(item for item in at_held if item.id not in there),
            since=_gravest_first(_since(sha, known, notices)),
            facts=known.facts if current else {},
        ),
        gap,
    )


def counts(document: Mapping[str, Any]) -> bool:
    """Whether an audit looks at a document: `info` and withdrawn ones are left out."""
    return not document.get("withdrawn") and severity_of(document) > Severity.INFO


def severity_of(document: Mapping[str, Any]) -> Severity:
    """The severity in a document; medium when it says none that is known."""
    try:
        return Severity.parse(str(_specific(document).get("severity")))
    except UsageError:
        return Severity.MEDIUM


def is_open(document: Mapping[str, Any]) -> bool:
    """Whether an advisory is open at the newest read head: by its status, else by its ranges."""
    status = _specific(document).get("status")
    if status is not None:
        return bool(status == "open")
    for found in _ranges(document):
        events = [event for event in found.get("events") or () if isinstance(event, Mapping)]
        starts = sum("introduced" in event for event in events)
        ends = sum("fixed" in event or "last_affected" in event for event in events)
        if starts > ends:
            return True
    return False


def commits(document: Mapping[str, Any]) -> frozenset[str]:
    """The shas at which an advisory is known to be open."""
    named = {
        str(event[key])
        for found in _ranges(document)
        for event in found.get("events") or ()
        if isinstance(event, Mapping)
        for key in ("introduced", "last_affected")
        if is_sha(str(event.get(key)))
    }
    return frozenset(named | set(listed(document)))


def listed(document: Mapping[str, Any]) -> list[str]:
    """The ``versions`` of a document, oldest first."""
    return [str(sha) for affected in _affected(document) for sha in affected.get("versions") or ()]


def mentioned(document: Mapping[str, Any]) -> frozenset[str]:
    """Every sha that a document names: those commits were read."""
    found = set(listed(document))
    for item in _ranges(document):
        found |= {
            str(value)
            for event in item.get("events") or ()
            if isinstance(event, Mapping)
            for value in event.values()
        }
        about = item.get("database_specific")
        found |= {str(about.get("last_known_before"))} if isinstance(about, Mapping) else set()
    return frozenset(filter(is_sha, found))


def introduced(document: Mapping[str, Any]) -> frozenset[str]:
    """The shas that an advisory began at."""
    return frozenset(
        str(event["introduced"])
        for found in _ranges(document)
        for event in found.get("events") or ()
        if isinstance(event, Mapping) and is_sha(str(event.get("introduced")))
    )


def _held(reference: Reference, known: Knowledge) -> str | None:
    revision = reference.revision
    if is_sha(revision):
        return revision
    if revision and len(revision) >= _SHORTEST and set(revision.lower()) <= set("0123456789abcdef"):
        found = {sha for sha in known.read if sha.startswith(revision.lower())}
        return found.pop() if len(found) == 1 else None
    return None


def _behind(sha: str, known: Knowledge) -> int | None:
    if not known.ordered or sha not in known.read:
        return None
    return len(known.read) - 1 - known.read.index(sha)


def _since(sha: str, known: Knowledge, notices: Sequence[Notice]) -> list[Notice]:
    if not known.ordered or sha not in known.read:
        return []
    later = set(known.read[known.read.index(sha) + 1 :])
    return [notice for notice in notices if introduced(notice.document) & later]


def _notice(document: Mapping[str, Any]) -> Notice:
    return Notice(
        id=str(document.get("id"))[:200],
        severity=severity_of(document),
        cls=str(_specific(document).get("change_class") or "unknown")[:100],
        summary=str(document.get("summary") or "")[:500],
        document=document,
    )


def _judged(notice: Notice, repo: str, policy: Policy, at: datetime) -> Notice | None:
    """A notice as the house sees it; None when it is silenced."""
    named = (block.get("database_specific") for block in notice.document.get("affected") or ())
    paths = {str(path) for block in named if isinstance(block, Mapping) for path in block.get("paths") or ()}
    subject = Subject(repo=repo, cls=notice.cls, severity=notice.severity, paths=frozenset(paths))
    severity, _ = policy.judge(subject, at)
    return None if severity is None else replace(notice, severity=severity)


def _gravest_first(found: Iterable[Notice]) -> tuple[Notice, ...]:
    return tuple(sorted(found, key=lambda notice: (-notice.severity, notice.id)))


def _not_watched(reference: Reference) -> Gap:
    return _gap(reference, "not_watched", "no advisories of this repo are here")


def _unsure(reference: Reference) -> Gap:
    return _gap(
        reference, "pin_unknown", "which revision cannot be told from the file: taken to be the newest head"
    )


def _not_read(reference: Reference, detail: str) -> Gap:
    return _gap(reference, "revision_not_read", detail)


def _gap(reference: Reference, reason: str, detail: str) -> Gap:
    return Gap(
        reason=reason,
        detail=detail,
        file=reference.file,
        line=reference.line,
        repo=reference.repo,
        revision=reference.revision,
    )


def _specific(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("database_specific")
    return found if isinstance(found, Mapping) else {}


def _affected(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item for item in document.get("affected") or () if isinstance(item, Mapping)]


def _ranges(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        item
        for affected in _affected(document)
        for item in affected.get("ranges") or ()
        if isinstance(item, Mapping)
    ]
