"""Advisories as they stand, where in history each is open, and what happened to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Text, bindparam, delete, func, literal, select, tuple_

from storage import findings, visibility
from storage.columns import EPOCH, MICROSECOND, Moment
from storage.database import Transaction
from storage.lineage import Lineage, places_of, span_of, window
from storage.model import (
    Advisory,
    AdvisoryAction,
    AdvisoryEvent,
    RecordedEvent,
    RepoRef,
    Severity,
    Span,
)
from storage.rows import REPO_COLUMNS, chunks, ensure_repo, find_repo, insert_all, insert_new, repo_of, upsert
from storage.tables import advisories, advisory_events, repos, revisions, spans
from storage.visibility import OPEN_TO_ALL

_FEW = 2000  # advisories that are sorted in a moment
_SELECT = select(advisories, *REPO_COLUMNS).join(repos, repos.c.id == advisories.c.repo_id)
_HAS = select(advisories.c.id).where(advisories.c.id == bindparam("id"))


def save(tx: Transaction, *changed: Advisory) -> None:
    """Keep advisories of one repo as they now stand, in place of what was kept under their ids."""
    if not changed:
        return
    repo_id = ensure_repo(tx, changed[0].repo)
    upsert(tx, advisories, *(_row(repo_id, advisory) for advisory in changed))
    for chunk in chunks(advisory.id for advisory in changed):
        tx.execute(delete(spans).where(spans.c.advisory_id.in_(chunk)))
    for ref in sorted({advisory.ref for advisory in changed}):
        insert_all(tx, spans, _span_rows(tx, repo_id, ref, [item for item in changed if item.ref == ref]))


def _row(repo_id: int, advisory: Advisory) -> dict[str, Any]:
    return {
        "id": advisory.id,
        "repo_id": repo_id,
        "cls": advisory.cls,
        "severity": int(advisory.severity),
        "reason": advisory.reason,
        "introduced": advisory.introduced,
        "predecessor": advisory.predecessor,
        "ref": advisory.ref,
        "open": advisory.open,
        "findings": [findings.tracked_to_json(item) for item in advisory.findings],
        "published": advisory.published,
        "modified": advisory.modified,
        "withdrawn": advisory.withdrawn,
        "superseded_by": advisory.superseded_by,
        "related": list(advisory.related),
        "context": dict(advisory.context),
    }


def _span_rows(tx: Transaction, repo_id: int, ref: str, changed: Sequence[Advisory]) -> list[dict[str, Any]]:
    all_spans = [span for advisory in changed for span in advisory.spans]
    named = {sha for span in all_spans for sha in (span.introduced, span.fixed, span.last_affected) if sha}
    places = places_of(tx, repo_id, ref, sorted(named))
    rows = []
    for advisory in changed:
        for ordinal, span in enumerate(advisory.spans):
            first, until = window(span, places)
            rows.append(
                {
                    "advisory_id": advisory.id,
                    "ordinal": ordinal,
                    "repo_id": repo_id,
                    "ref": ref,
                    "introduced": span.introduced,
                    "fixed": span.fixed,
                    "last_affected": span.last_affected,
                    "first": first,
                    "until": until,
                }
            )
    return rows


# --- reading -------------------------------------------------------------------------------------


def get(tx: Transaction, advisory_id: str) -> Advisory | None:
    """An advisory by id; None when it is not here."""
    found = _read(tx, _SELECT.where(advisories.c.id == advisory_id))
    return found[0] if found else None


def has(tx: Transaction, advisory_id: str) -> bool:
    """Whether there is an advisory with this id."""
    return tx.scalar(_HAS, {"id": advisory_id}) is not None


def of_repo(
    tx: Transaction,
    repo: RepoRef,
    *,
    state: str = "all",
    min_severity: Severity | None = None,
    cls: str | None = None,
) -> list[Advisory]:
    """A repo's advisories, newest first. ``state`` is all, open or closed (withdrawn ones are closed)."""
    return search(tx, repo=repo, state=state, min_severity=min_severity, cls=cls)


def of_repo_state(tx: Transaction, repo: RepoRef) -> list[Advisory]:
    """Those of a repo's advisories that follow no commit, newest first."""
    commits = select(spans.c.advisory_id).where(spans.c.advisory_id == advisories.c.id)
    query = _SELECT.where(advisories.c.repo_id == find_repo(tx, repo), ~commits.exists())
    return _read(tx, query.order_by(advisories.c.published.desc(), advisories.c.id.desc()))


def search(
    tx: Transaction,
    *,
    repo: RepoRef | None = None,
    owner: str | None = None,
    min_severity: Severity | None = None,
    cls: str | None = None,
    state: str = "all",
    path: str | None = None,
    since: datetime | None = None,
    id_prefix: str | None = None,
    public_only: bool = False,
    limit: int | None = None,
    after: str | None = None,
    before: tuple[datetime, str] | None = None,
) -> list[Advisory]:
    """Advisories that fit all that is given, newest first.

    ``after``, the id of the last one seen, continues a list, and so does ``before``, when that was published
    and its id. ``path`` is one that a revision's changes name; ``since`` is about when they were published;
    ``public_only`` leaves out what is not for everybody.
    """
    query = _SELECT
    if repo is not None:
        query = query.where(advisories.c.repo_id == find_repo(tx, repo))
    if owner is not None:
        query = query.where(repos.c.owner == owner)
    if min_severity is not None:
        query = query.where(_at_least(min_severity))
    if cls is not None:
        query = query.where(advisories.c.cls == cls)
    if state != "all":
        query = query.where(advisories.c.open.is_(state == "open"))
    if path is not None:
        # findings are JSON text made by us: a path stands in it exactly so
        named = json.dumps({"path": path}, ensure_ascii=True, separators=(",", ":"))[1:-1]
        query = query.where(advisories.c.findings.cast(Text).contains(named, autoescape=True))
    if since is not None:
        query = query.where(advisories.c.published >= since)
    if id_prefix is not None:
        query = query.where(advisories.c.id.between(id_prefix, id_prefix + "\U0010ffff"))
    if public_only:
        query = query.where(OPEN_TO_ALL)
    if before is not None:
        when, last = literal(before[0], Moment), before[1]
        query = query.where(tuple_(advisories.c.published, advisories.c.id) < tuple_(when, literal(last)))
    if after is not None:
        place = select(advisories.c.published, advisories.c.id).where(advisories.c.id == after)
        query = query.where(tuple_(advisories.c.published, advisories.c.id) < place.scalar_subquery())
    return _read(tx, query.order_by(advisories.c.published.desc(), advisories.c.id.desc()).limit(limit))


def at_commit(tx: Transaction, sha: str, *, repo: RepoRef | None = None) -> list[Advisory]:
    """The advisories that are open at a commit, of any repo or of one, by id; withdrawn ones are left out.

    Repo-state advisories have no commits and are never among them.
    """
    return list(by_ids(tx, ids_at_commit(tx, sha, repo=repo)))


def ids_at_commit(
    tx: Transaction,
    sha: str,
    *,
    repo: RepoRef | None = None,
    min_severity: Severity = Severity.INFO,
    public_only: bool = False,
    after: str | None = None,
    limit: int | None = None,
) -> list[str]:
    """The ids of what `at_commit` gives; ``after``, an id, goes on behind it."""
    query = select(revisions).where(revisions.c.sha == sha)
    if repo is not None:
        query = query.where(revisions.c.repo_id == find_repo(tx, repo))
    fitting = _answering(min_severity, public_only, after).join(spans, spans.c.advisory_id == advisories.c.id)
    found: set[str] = set()
    for row in tx.execute(query).all():
        here = fitting.where(spans.c.repo_id == row.repo_id, spans.c.ref == row.ref)
        if row.fork is None:
            here = here.where(spans.c.first <= row.position, spans.c.until > row.position)
            found.update(tx.scalars(here))
        else:
            lineage = Lineage(tx, row.repo_id, row.ref)
            covering = tx.execute(here.add_columns(spans.c.introduced, spans.c.fixed, spans.c.last_affected))
            found.update(item.id for item in covering if lineage.covers_fallen(span_of(item), row.sha))
    return sorted(found)[:limit]


def ids_of_package(
    tx: Transaction,
    repo: RepoRef,
    *,
    min_severity: Severity = Severity.INFO,
    public_only: bool = False,
    after: str | None = None,
    limit: int | None = None,
) -> list[str]:
    """The ids of a repo's advisories, whatever their state; withdrawn ones are left out."""
    query = _answering(min_severity, public_only, after).where(advisories.c.repo_id == find_repo(tx, repo))
    return list(tx.scalars(query.order_by(advisories.c.id).limit(limit)))


def _answering(min_severity: Severity, public_only: bool, after: str | None) -> Select[Any]:
    query = select(advisories.c.id).where(
        advisories.c.withdrawn.is_(None), advisories.c.severity >= int(min_severity)
    )
    if public_only:
        query = query.join(repos, repos.c.id == advisories.c.repo_id).where(OPEN_TO_ALL)
    return query if after is None else query.where(advisories.c.id > after)


def stamps(tx: Transaction, wanted: Sequence[str]) -> dict[str, datetime]:
    """By id, when the documents of these advisories were last modified; ids that are not here are left out.

    That is when the advisory was, or its list of versions became longer; `info` lists its own commit only.
    """
    listed = _listed_since(tx, wanted)
    query = select(advisories.c.id, advisories.c.modified, advisories.c.severity)
    return {
        row.id: row.modified
        if row.severity == Severity.INFO
        else max(row.modified, listed.get(row.id, row.modified))
        for chunk in chunks(wanted)
        for row in tx.execute(query.where(advisories.c.id.in_(chunk)))
    }


def versions(tx: Transaction, found: Iterable[Advisory]) -> dict[str, tuple[str, ...]]:
    """By advisory id, every revision read at which it is open, oldest first."""
    lineages: dict[tuple[RepoRef, str], Lineage | None] = {}
    listed: dict[str, tuple[str, ...]] = {}
    for advisory in found:
        key = (advisory.repo, advisory.ref)
        if key not in lineages:
            repo_id = find_repo(tx, advisory.repo)
            lineages[key] = None if repo_id is None else Lineage(tx, repo_id, advisory.ref)
        lineage = lineages[key]
        shas = [sha for span in advisory.spans for sha in lineage.covered(span)] if lineage else []
        listed[advisory.id] = tuple(dict.fromkeys(shas))
    return listed


def listed_since(tx: Transaction, found: Sequence[Advisory]) -> dict[str, datetime]:
    """By advisory id, when the newest of its versions was observed: a longer list is a newer document.

    Advisories without any version on the current chain are left out.
    """
    return _listed_since(tx, [advisory.id for advisory in found])


def _listed_since(tx: Transaction, wanted: Sequence[str]) -> dict[str, datetime]:
    newest = (
        select(spans.c.advisory_id, func.max(revisions.c.observed_at).label("at"))
        .join(revisions, _inside_span())
        .group_by(spans.c.advisory_id)
    )
    return {
        row.advisory_id: row.at
        for chunk in chunks(wanted)
        for row in tx.execute(newest.where(spans.c.advisory_id.in_(chunk)))
    }


def ids(tx: Transaction, *, public_only: bool = False) -> set[str]:
    """The ids of all advisories; ``public_only`` leaves out those that are not for everybody."""
    # as one text: hundreds of thousands of rows take several times as long
    query = select(func.aggregate_strings(advisories.c.id, ","))
    if public_only:
        query = query.join(repos, repos.c.id == advisories.c.repo_id).where(OPEN_TO_ALL)
    return set((tx.scalar(query) or "").split(",")) - {""}


def by_ids(tx: Transaction, wanted: Iterable[str]) -> Iterator[Advisory]:
    """These advisories in the order asked for; ids that are not here are left out."""
    for chunk in chunks(wanted):
        found = {advisory.id: advisory for advisory in _read(tx, _SELECT.where(advisories.c.id.in_(chunk)))}
        yield from (found[name] for name in chunk if name in found)


def by_repo(tx: Transaction, wanted: Iterable[str]) -> list[str]:
    """These ids with those of a repo beside each other: the order in which many are read fastest.

    Ids that are not here are left out.
    """
    place = {
        row.id: row.repo_id
        for chunk in chunks(wanted)
        for row in tx.execute(select(advisories.c.id, advisories.c.repo_id).where(advisories.c.id.in_(chunk)))
    }
    return sorted(place, key=lambda name: (place[name], name))


def modified_since(tx: Transaction, when: datetime) -> set[str]:
    """The ids of advisories whose document may have changed after a time.

    Those count too that did not change themselves but are open at a revision observed since.
    """
    changed = select(advisories.c.id).where(advisories.c.modified > when)
    longer = select(spans.c.advisory_id).join(revisions, _inside_span()).where(revisions.c.observed_at > when)
    return {name for query in (changed, longer) for name in tx.scalars(query)}


def rewritten(tx: Transaction) -> set[str]:
    """The ids of the advisories of repos whose history was rewritten: their versions can become fewer."""
    fallen = select(revisions.c.repo_id).where(revisions.c.fork.is_not(None)).distinct()
    return set(tx.scalars(select(advisories.c.id).where(advisories.c.repo_id.in_(fallen))))


def fingerprint(tx: Transaction) -> str:
    """A text that differs whenever any document may be another, or another one may be seen by everybody."""
    parts = (
        select(func.count(), func.max(advisories.c.modified)).select_from(advisories),
        select(func.max(revisions.c.id), func.max(revisions.c.observed_at), func.count(revisions.c.fork)),
    )
    return repr([tuple(tx.execute(query).one()) for query in parts]) + visibility.fingerprint(tx)


def _inside_span() -> ColumnElement[bool]:
    return (
        (revisions.c.repo_id == spans.c.repo_id)
        & (revisions.c.ref == spans.c.ref)
        & revisions.c.fork.is_(None)
        & (revisions.c.position >= spans.c.first)
        & (revisions.c.position < spans.c.until)
    )


# --- events --------------------------------------------------------------------------------------


def record_events(tx: Transaction, repo: RepoRef, happened: Iterable[AdvisoryEvent], *, now: datetime) -> None:
    """Keep what happened to saved advisories; what is kept already is left as it is."""
    record_all(tx, repo, ((event, now) for event in happened))


def record_all(tx: Transaction, repo: RepoRef, happened: Iterable[tuple[AdvisoryEvent, datetime]]) -> None:
    """Keep what happened to saved advisories, each with its time, see `record_events`."""
    given = list(happened)
    if not given:
        return
    repo_id = ensure_repo(tx, repo)
    insert_new(
        tx,
        advisory_events,
        [
            {
                "advisory_id": event.advisory_id,
                "action": event.action.value,
                "sha": event.sha or "",
                "moment": 0 if event.sha else (now - EPOCH) // MICROSECOND,
                "repo_id": repo_id,
                "at": now,
            }
            for event, now in given
        ],
    )


def events(tx: Transaction, repo: RepoRef, shas: Iterable[str]) -> dict[str, list[AdvisoryEvent]]:
    """What each of these revisions did to advisories; every sha asked for is a key."""
    found: dict[str, list[AdvisoryEvent]] = {sha: [] for sha in shas}
    repo_id = find_repo(tx, repo)
    for chunk in chunks(sha for sha in list(found) if sha):
        query = select(advisory_events).where(
            advisory_events.c.repo_id == repo_id, advisory_events.c.sha.in_(chunk)
        )
        for row in tx.execute(query.order_by(advisory_events.c.id)):
            found[row.sha].append(_event(row))
    return found


def recent_events(
    tx: Transaction,
    *,
    repo: RepoRef | None = None,
    owner: str | None = None,
    min_severity: Severity | None = None,
    cls: str | None = None,
    public_only: bool = False,
    last_only: bool = False,
    limit: int | None = None,
    before: int | None = None,
    after: int | None = None,
    oldest_first: bool = False,
) -> list[RecordedEvent]:
    """What happened, newest first unless told; ``before`` and ``after`` are event numbers, exclusive.

    ``last_only`` leaves of each advisory the last thing that happened to it.
    """
    query: Select[Any] = (
        select(advisory_events, *REPO_COLUMNS).join(repos, repos.c.id == advisory_events.c.repo_id).limit(limit)
    )
    if repo is not None:
        query = query.where(advisory_events.c.repo_id == find_repo(tx, repo))
    if owner is not None:
        query = query.where(repos.c.owner == owner)
    fitting = [
        *([] if min_severity is None else [_at_least(min_severity)]),
        *([] if cls is None else [advisories.c.cls == cls]),
    ]
    few = [condition for condition in fitting if repo is None and owner is None and _are_few(tx, condition)]
    order: ColumnElement[Any] = advisory_events.c.id
    if few:
        # sort the few that there are: the order of all events would go through very many for them
        order = order + 0
        some = select(advisories.c.id).where(few[0]).limit(_FEW + 1)
        query = query.where(advisory_events.c.advisory_id.in_(some))
    for condition in fitting:
        # where there are many, the newest events soon hold enough; so this condition must not lead
        fits = select(advisories.c.id).where(advisories.c.id == advisory_events.c.advisory_id, condition)
        query = query.where(fits.exists())
    if public_only:
        query = query.where(OPEN_TO_ALL)
    if last_only:
        later = advisory_events.alias("later")
        newer = (later.c.advisory_id == advisory_events.c.advisory_id) & (later.c.id > advisory_events.c.id)
        query = query.where(~select(later.c.id).where(newer).exists())
    if before is not None:
        query = query.where(advisory_events.c.id < before)
    if after is not None:
        query = query.where(advisory_events.c.id > after)
    rows = tx.execute(query.order_by(order if oldest_first else order.desc()))
    return [RecordedEvent(number=row.id, repo=repo_of(row), event=_event(row), at=row.at) for row in rows]


def _are_few(tx: Transaction, condition: ColumnElement[bool]) -> bool:
    """Whether so few advisories fit that all of them can be sorted."""
    some = select(advisories.c.id).where(condition).limit(_FEW + 1).subquery()
    return (tx.scalar(select(func.count()).select_from(some)) or 0) <= _FEW


def _at_least(severity: Severity) -> ColumnElement[bool]:
    """This severity and above; the gravest as an equation, for which an index has the order of time."""
    column = advisories.c.severity
    return column == int(severity) if severity is max(Severity) else column >= int(severity)


def _event(row: Row[Any]) -> AdvisoryEvent:
    return AdvisoryEvent(advisory_id=row.advisory_id, action=AdvisoryAction(row.action), sha=row.sha or None)


# --- rows to models ------------------------------------------------------------------------------


def _read(tx: Transaction, query: Select[Any]) -> list[Advisory]:
    rows = tx.execute(query).all()
    by_advisory: dict[str, list[Span]] = {}
    for chunk in chunks(row.id for row in rows):
        of_these = select(spans).where(spans.c.advisory_id.in_(chunk))
        for row in tx.execute(of_these.order_by(spans.c.advisory_id, spans.c.ordinal)):
            by_advisory.setdefault(row.advisory_id, []).append(span_of(row))
    return [_advisory(row, by_advisory.get(row.id, [])) for row in rows]


def _advisory(row: Row[Any], found: Sequence[Span]) -> Advisory:
    return Advisory(
        id=row.id,
        repo=repo_of(row),
        cls=row.cls,
        severity=Severity(row.severity),
        reason=row.reason,
        introduced=row.introduced,
        predecessor=row.predecessor,
        ref=row.ref,
        findings=tuple(map(findings.tracked_from_json, row.findings)),
        spans=tuple(found),
        published=row.published,
        modified=row.modified,
        withdrawn=row.withdrawn,
        superseded_by=row.superseded_by,
        related=tuple(row.related),
        context=row.context,
    )
