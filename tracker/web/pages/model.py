"""``/models/{owner}/{name}``: what a model is at one revision, what it costs, what changed, whether to worry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from advisories.osv import summary
from storage import advisories, catalog, changes, estimates, figures, glance, history, watches
from storage.database import Transaction
from storage.model import (
    Advisory,
    Estimate,
    KnownRepo,
    Manifest,
    RecordedRevision,
    RepoRef,
    Severity,
)
from tracker.estimate import classic
from tracker.estimate.cards import catalogue
from tracker.estimating import estimate_snapshot
from tracker.web.access import Reader, Viewer
from tracker.web.context import Here, Web
from tracker.web.filters import OwnerName, RepoName
from tracker.web.pages import card
from tracker.web.pages import figures as shown
from tracker.web.pages.render import PageRoute, html
from tracker.web.pages.returned import Landed, marked
from tracker.web.rest import repo_ref

NODES = 150  # rows of the structure table on one page
_FILES = 60
_CHANGES = 8
_SIBLINGS = 12
_ADVISORIES = 20

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Profile = Literal["exact", "classic"]
Rev = Annotated[str, Query(min_length=1, max_length=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One revision of a repo, with what it costs under a profile."""

    repo: RepoRef
    known: KnownRepo
    row: RecordedRevision
    manifest: Manifest
    estimate: Estimate | None
    total: int  # revisions of the chain
    downloads: int | None = None  # in a month, as the Hub last said

    @property
    def is_head(self) -> bool:
        """Whether it is the newest revision read."""
        return self.row.revision.sha == self.known.head

    @property
    def code(self) -> list[str]:
        """Python files that the repo ships."""
        return sorted(path for path in self.manifest.files if path.endswith(".py"))

    @property
    def bytes(self) -> int:
        """All files of the tree."""
        return sum(entry.size for entry in self.manifest.files.values())


def look(web: Web, viewer: Viewer, owner: str, name: str, rev: str, profile: Profile) -> Seen:
    """Read one revision. Raises NotFound for what is not here, or not for this viewer."""
    repo = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, repo)
        history.require_repo(tx, repo)
        row = history.resolve(tx, repo, rev)
        known = catalog.repo(tx, repo)
        assert known is not None  # noqa: S101 - required above, in the same snapshot
        manifest = history.manifest(tx, repo, row.revision.sha)
        estimate = estimates.of(tx, repo, row.revision.sha)
        total = history.count(tx, repo)
        downloads = glance.downloads(tx, repo)
    if profile == "classic":
        # kept for the exact profile only; the method is a closed form over the config that is held
        estimate = estimate_snapshot(classic.ESTIMATOR, web.loader.stored(repo, row.revision.sha))
    return Seen(
        repo=repo,
        known=known,
        row=row,
        manifest=manifest,
        estimate=estimate,
        total=total,
        downloads=downloads,
    )


@router.get("/models/{owner}/{name}")
def model(
    owner: OwnerName,
    name: RepoName,
    web: Here,
    viewer: Reader,
    rev: Rev = "main",
    profile: Profile = "exact",
    node: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Response:
    """A model's page."""
    repo = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, repo)
        history.require_repo(tx, repo)
        unread = history.head(tx, repo) is None and rev == "main"
        watch = watches.get(tx, repo)
    if unread:
        return html("unread.html", repo=repo, watch=watch, now=web.clock())
    seen = look(web, viewer, owner, name, rev, profile)
    sha = seen.row.revision.sha
    with web.database.snapshot() as tx:
        gaps = history.gaps(tx, repo, sha)
        found = _open_at(tx, seen)
        latest = marked(tx, changes.search(tx, repo=repo, min_severity=Severity.LOW, limit=_CHANGES))
        related = _siblings(tx, seen, viewer)
    structure: Sequence[dict[str, Any]] = seen.estimate.body.get("structure") or () if seen.estimate else ()
    return html(
        "model.html",
        seen=seen,
        repo=repo,
        sha=sha,
        profile=profile,
        rev=None if seen.is_head else sha,
        watch=watch,
        now=web.clock(),
        gaps=gaps,
        advisories=[(item, summary(item)) for item in found[:_ADVISORIES]],
        more_advisories=max(0, len(found) - _ADVISORIES),
        worst=max((item.severity for item in found), default=None),
        changes=latest,
        related=related,
        estimate=seen.estimate,
        headline=shown.headline(seen.estimate, seen.downloads),
        downloaded=None if seen.downloads is None else shown.downloaded(seen.downloads),
        held=shown.held(seen.estimate) if seen.estimate else None,
        memory=shown.memory_rows(seen.estimate) if seen.estimate else [],
        prices=catalogue(),
        structure=structure[node : node + NODES],
        nodes=len(structure),
        node=node,
        node_next=node + NODES if node + NODES < len(structure) else None,
        files=sorted(seen.manifest.files.values(), key=lambda entry: -entry.size)[:_FILES],
        card=card.markdown(seen, _address(seen)),
        card_size=(card.WIDTH, card.HEIGHT),
    )


@router.get("/models/{owner}/{name}/card.svg")
def card_svg(
    owner: OwnerName, name: RepoName, web: Here, viewer: Reader, rev: Rev = "main", profile: Profile = "exact"
) -> Response:
    """The card to share, as a drawing that needs nothing else."""
    seen = look(web, viewer, owner, name, rev, profile)
    return Response(card.svg(seen), media_type="image/svg+xml")


@router.get("/models/{owner}/{name}/card.md")
def card_markdown(
    owner: OwnerName, name: RepoName, web: Here, viewer: Reader, rev: Rev = "main", profile: Profile = "exact"
) -> Response:
    """The card to share, as Markdown."""
    seen = look(web, viewer, owner, name, rev, profile)
    return Response(card.markdown(seen, _address(seen)), media_type="text/markdown; charset=utf-8")


def _address(seen: Seen) -> str:
    """Where the model's files are: the one address that everybody who reads a card can reach."""
    return f"{seen.repo.url}/tree/{seen.row.revision.sha}"


def _open_at(tx: Transaction, seen: Seen) -> list[Advisory]:
    """What is open at this revision, above info, the gravest first; at the head also states of the repo."""
    found = advisories.at_commit(tx, seen.row.revision.sha, repo=seen.repo)
    if seen.is_head:
        found += [item for item in advisories.of_repo(tx, seen.repo, state="open") if not item.spans]
    shown_ones = [item for item in found if item.severity > Severity.INFO]
    return sorted(shown_ones, key=lambda item: (-item.severity, item.published, item.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """Another watched model of the same architecture."""

    repo: RepoRef
    parameters: int | None
    memory: int | None
    delta: str | None  # its parameters against this one's
    last: Landed | None


def _siblings(tx: Transaction, seen: Seen, viewer: Viewer) -> list[Related]:
    estimate = seen.estimate
    if estimate is None or estimate.architecture is None:
        return []
    ours = shown.part(estimate, "parameters").get("total")
    found = figures.siblings(tx, seen.repo, estimate.architecture, limit=_SIBLINGS, public_only=viewer.public_only)
    made = []
    for item in found:
        theirs = estimates.of(tx, item.repo, item.sha)
        total = shown.part(theirs, "parameters").get("total")
        last = marked(tx, changes.search(tx, repo=item.repo, min_severity=Severity.LOW, limit=1))
        made.append(
            Related(
                repo=item.repo,
                parameters=total,
                memory=shown.part(theirs, "memory").get("full_finetune_bytes"),
                delta=f"{(total - ours) / ours:+.1%}" if total is not None and ours else None,
                last=last[0] if last else None,
            )
        )
    return made
