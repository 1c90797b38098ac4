"""``/models/{owner}/{name}/changes``: every revision with what it changed, and how the figures moved over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from storage import advisories, changes, estimates, figures, history
from storage.database import Transaction
from storage.errors import NotFound
from storage.model import Advisory, AdvisoryEvent, Estimate, Finding, RecordedRevision, RepoRef, Severity
from tracker.web import charts, cursors, filters
from tracker.web.access import Reader
from tracker.web.context import Here
from tracker.web.filters import OwnerName, RepoName
from tracker.web.pages import figures as shown
from tracker.web.pages.render import PageRoute, html
from tracker.web.pages.returned import closes, closing, fresh_worst
from tracker.web.paging import page
from tracker.web.rest import repo_ref

PAGE = 30
_CHIPS, _FEWEST = 8, 3  # changes of one revision shown, where there is room and where there is not
_EVENTS = 6
_ROOM = 110  # changes shown in all
_KIND = "page-changes"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _blank(value: Any) -> Any:
    # a form sends the fields that a person left empty
    return value or None


class Asked(BaseModel):
    """What the form of the page asks for. Unknown parameters are let pass: people share links."""

    model_config = ConfigDict(populate_by_name=True)

    cls: Annotated[filters.ClassName | None, BeforeValidator(_blank)] = Field(default=None, alias="class")
    min_severity: Annotated[filters.SeverityWord | None, BeforeValidator(_blank)] = None
    path: Annotated[filters.FilePath | None, BeforeValidator(_blank)] = None
    hold: Annotated[str | None, Field(max_length=255), BeforeValidator(_blank)] = None
    cursor: Annotated[str | None, Field(max_length=cursors.LONGEST), BeforeValidator(_blank)] = None

    @property
    def filtering(self) -> dict[str, str]:
        """The filters that are set, as in an address."""
        chosen = {
            "class": self.cls,
            "min_severity": None if self.min_severity is None else self.min_severity.label,
            "path": self.path,
        }
        return {key: value for key, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One revision of the timeline."""

    row: RecordedRevision
    findings: Sequence[tuple[Finding, bool]]  # and whether it puts back what was before
    worst: Severity | None  # of what is news in it
    hidden: int  # changes beyond those shown
    moved: Sequence[shown.Moved]
    gained: Sequence[str]
    lost: Sequence[str]
    events: Sequence[AdvisoryEvent]
    before: str | None  # the revision ahead of it, to compare with

    @property
    def back(self) -> bool:
        """Whether a change that is shown puts something back."""
        return any(back for _, back in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Where a revision that somebody holds stands."""

    row: RecordedRevision
    behind: int  # revisions newer than it
    fallen: bool  # it is no longer on the chain
    open: int  # advisories open at it, above info


@router.get("/models/{owner}/{name}/changes")
def timeline(
    owner: OwnerName, name: RepoName, asked: Annotated[Asked, Query()], web: Here, viewer: Reader
) -> Response:
    """The timeline, newest first."""
    repo = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, repo)
        history.require_repo(tx, repo)
        found = page(
            _KIND,
            filters.Paging(limit=PAGE, cursor=asked.cursor),
            (int,),
            lambda before, limit: history.revisions(
                tx,
                repo,
                before_position=before[0] if before else None,
                limit=limit,
                cls=asked.cls,
                min_severity=asked.min_severity,
                path=asked.path,
            ),
            lambda item: (item.position,),
        )
        rows = _rows(tx, repo, found.items)
        total = history.count(tx, repo)
        lines = _lines(tx, repo) if not asked.cursor else []
        held, lost = _held(tx, repo, asked.hold, total)
        classes = figures.classes(tx, repo)
    here = f"/models/{repo.id}/changes"
    return html(
        "changes.html",
        repo=repo,
        rows=rows,
        total=total,
        drawings=[(charts.steps(line, last=total - 1, identity=f"c{index}")) for index, line in enumerate(lines)],
        told=[charts.words(line) for line in lines],
        asked=asked,
        classes=classes,
        severities=[item.label for item in Severity],
        held=held,
        lost=lost,
        next_page=f"{here}?{urlencode({**asked.filtering, 'cursor': found.next_cursor})}"
        if found.next_cursor
        else None,
        first_page=f"{here}?{urlencode(asked.filtering)}" if asked.cursor else None,
    )


def _rows(tx: Transaction, repo: RepoRef, found: Sequence[RecordedRevision]) -> list[Row]:
    before = figures.shas_at(tx, repo, [row.position - 1 for row in found if row.position])
    shas = [row.revision.sha for row in found]
    costs = estimates.by_revision(tx, repo, {*shas, *before.values()})
    made = changes.by_revision(tx, repo, shas)
    events = advisories.events(tx, repo, shas)
    closed = closing(tx, events)
    chips = _allotted([len(made[sha]) for sha in shas])
    return [
        _row(
            row,
            made[row.revision.sha],
            before.get(row.position - 1),
            costs,
            events[row.revision.sha],
            closed.get(row.revision.sha, ()),
            most,
        )
        for row, most in zip(found, chips, strict=True)
    ]


def _allotted(counts: Sequence[int]) -> list[int]:
    """How many changes of each revision are shown: a few of each, and more of the newest while there is room."""
    given = [min(number, _FEWEST) for number in counts]
    room = _ROOM - sum(given)
    for place, number in enumerate(counts):
        more = max(0, min(number, _CHIPS, given[place] + room) - given[place])
        given[place] += more
        room -= more
    return given


def _row(
    row: RecordedRevision,
    findings: Sequence[Finding],
    before: str | None,
    costs: Mapping[str, Estimate],
    events: Sequence[AdvisoryEvent],
    closed: Sequence[Advisory],
    most: int,
) -> Row:
    a, b = costs.get(before or ""), costs.get(row.revision.sha)
    gained, lost = shown.cards_moved(a, b)
    gravest_first = sorted(findings, key=lambda item: -item.severity)
    return Row(
        row=row,
        findings=[(item, bool(closes(item, closed))) for item in gravest_first[:most]],
        worst=fresh_worst(gravest_first, closed),
        hidden=max(0, len(findings) - most),
        moved=shown.moved(a, b)[:4],
        gained=gained[:4],
        lost=lost[:4],
        events=events[:_EVENTS],
        before=before,
    )


def _lines(tx: Transaction, repo: RepoRef) -> list[charts.Series]:
    """Parameters, memory and file size over the revisions, where they can have moved."""
    chosen = figures.milestones(tx, repo, charts.MOST_POINTS)
    if not chosen:
        return []
    costs = estimates.by_revision(tx, repo, [item.sha for item in chosen])

    def line(name: str, group: str, key: str, words: Any) -> charts.Series:
        points = [(item.position, shown.part(costs.get(item.sha), group).get(key)) for item in chosen]
        return charts.Series(name=name, points=points, shown=words)

    return [
        line("Parameters", "parameters", "total", lambda value: shown.billions(round(value))),
        line("Full fine-tune memory", "memory", "full_finetune_bytes", shown.gigabytes),
        charts.Series(
            name="Size of the weight files",
            points=[(item.position, float(item.weight_bytes)) for item in chosen],
            shown=shown.gigabytes,
        ),
    ]


def _held(tx: Transaction, repo: RepoRef, rev: str | None, total: int) -> tuple[Held | None, str | None]:
    """Where the revision stands that somebody holds; else, why that cannot be told."""
    if rev is None:
        return None, None
    try:
        row = history.resolve(tx, repo, rev.strip())
    except NotFound as error:
        return None, f"{error.message}: {error.help}"
    on_chain = figures.shas_at(tx, repo, [row.position]).get(row.position) == row.revision.sha
    listed = advisories.at_commit(tx, row.revision.sha, repo=repo)
    return (
        Held(
            row=row,
            behind=total - 1 - row.position,
            fallen=not on_chain,
            open=sum(item.severity > Severity.INFO for item in listed),
        ),
        None,
    )
