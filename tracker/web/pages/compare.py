"""``/models/{owner}/{name}/compare/{a}...{b}``: any two revisions, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from storage import history
from storage.errors import NotFound
from storage.model import (
    Estimate,
    Manifest,
    ProbeOutcome,
    ProbeResult,
    RepoRef,
    Revision,
    Severity,
    Snapshot,
    Tensor,
)
from tracker.examine import Examination
from tracker.web.access import Reader
from tracker.web.context import Here
from tracker.web.filters import OwnerName, RepoName
from tracker.web.pages import figures
from tracker.web.pages.render import PageRoute, html, short
from tracker.web.pages.sides import CodeDiff, code_diff, cost, prompt_sides
from tracker.web.pages.told import ROWS, Told, length, sections, within
from tracker.web.rest import repo_ref

_PROMPTS = 6
_CODE_FILES = 12
# Characters of the page: what is hostile is escaped, which makes it longer.
_PROMPT_ROOM = 15_000
_TABLE_ROOM = 8_000  # of tensors, and of files
_CODE_ROOM = 20_000
_PICK = 60  # revisions offered to choose from

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Side = Annotated[str, Query(max_length=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One probe, rendered with both revisions."""

    name: str
    before: Markup
    after: Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMoved:
    """A file that differs; a size is None where there is no such file."""

    path: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMoved:
    """A tensor that differs, as type and shape."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All that the page shows, small enough to be remembered."""

    before: Revision
    after: Revision
    sections: Sequence[tuple[str, str, Sequence[Told], int]]  # name, title, rows, how many in all
    prompts: Sequence[Prompt]
    prompts_total: int
    equal: Sequence[str]
    gaps: Sequence[str]
    files: Sequence[FileMoved]
    files_total: int
    tensors: Sequence[TensorMoved]
    tensors_total: int
    code: Sequence[CodeDiff]
    code_left: int
    estimate_before: Estimate | None
    estimate_after: Estimate | None
    worst: Severity | None
    count: int


@router.get("/models/{owner}/{name}/compare")
def choose(
    owner: OwnerName, name: RepoName, web: Here, viewer: Reader, a: Side = "", b: Side = "main"
) -> Response:
    """A form to choose two revisions, or the way to what was chosen."""
    repo = repo_ref(web, owner, name)
    with web.database.snapshot() as tx:
        viewer.require(tx, repo)
        found = history.revisions(tx, repo, limit=_PICK)
    if a.strip():
        pair = f"{quote(a.strip(), safe='')}...{quote(b.strip() or 'main', safe='')}"
        return RedirectResponse(f"/models/{repo.id}/compare/{pair}", status_code=303)
    return html("choose.html", repo=repo, found=found)


@router.get("/models/{owner}/{name}/compare/{pair:path}")
def compare(
    owner: OwnerName, name: RepoName, pair: Annotated[str, Path(max_length=520)], web: Here, viewer: Reader
) -> Response:
    """Two revisions, compared as if ``b`` followed ``a``."""
    repo = repo_ref(web, owner, name)
    a, dots, b = pair.partition("...")
    if not (a and dots and b):
        raise NotFound("two revisions are compared as a...b", help="such as 3f6c1a0...main")
    with web.database.snapshot() as tx:
        viewer.require(tx, repo)
    seen = web.comparer.view("page", repo, a, b, _compared)
    gained, lost = figures.cards_moved(seen.estimate_before, seen.estimate_after)
    return html(
        "compare.html",
        repo=repo,
        seen=seen,
        figures=figures.both(seen.estimate_before, seen.estimate_after),
        batches=figures.batches_both(seen.estimate_before, seen.estimate_after),
        gained=gained,
        lost=lost,
        hub=_hub(repo, seen),
    )


def _hub(repo: RepoRef, seen: Compared) -> str:
    return f"{repo.url}/compare/{seen.before.sha}..{seen.after.sha}"


def _compared(seen: Examination) -> Compared:
    assert seen.before is not None  # noqa: S101 - two revisions were given
    before, after = seen.before, seen.after
    prompts, equal, gaps = _probes(seen.probes)
    files = list(_files(before.manifest, after.manifest))
    tensors = list(_tensors(before, after))
    code, left = _code(before, after)
    return Compared(
        before=before.revision,
        after=after.revision,
        sections=list(sections(seen.findings)),
        prompts=[_prompt(result, _PROMPT_ROOM // (2 * len(prompts[:_PROMPTS]))) for result in prompts[:_PROMPTS]],
        prompts_total=len(prompts),
        equal=equal,
        gaps=gaps,
        files=within(files[:ROWS], _TABLE_ROOM, lambda row: length(short(row.path, 160)) + 120),
        files_total=len(files),
        tensors=within(tensors[:ROWS], _TABLE_ROOM, lambda row: length(short(row.name, 160)) + 180),
        tensors_total=len(tensors),
        code=code,
        code_left=left,
        estimate_before=_slim(seen.estimate_before),
        estimate_after=_slim(seen.estimate),
        worst=max((item.severity for item in seen.findings), default=None),
        count=len(seen.findings),
    )


def _slim(estimate: Estimate | None) -> Estimate | None:
    """Without the structure, which the page does not show."""
    if estimate is None:
        return None
    body = {key: value for key, value in estimate.body.items() if key != "structure"}
    return Estimate(
        estimator=estimate.estimator,
        version=estimate.version,
        status=estimate.status,
        source=estimate.source,
        model_type=estimate.model_type,
        architecture=estimate.architecture,
        reason=estimate.reason,
        body=body,
    )


def _probes(probes: Mapping[str, Sequence[ProbeResult]]) -> tuple[list[ProbeResult], list[str], list[str]]:
    """The probes that differ, and the names of those that are equal or could not run."""
    results = [result for _, found in sorted(probes.items()) for result in found]
    different = [result for result in results if result.outcome is ProbeOutcome.DIFFERENT]
    equal = [result.probe for result in results if result.outcome is ProbeOutcome.EQUAL]
    gaps = [result.probe for result in results if result.outcome is ProbeOutcome.GAP]
    return different, equal, gaps


def _prompt(result: ProbeResult, room: int) -> Prompt:
    before, after = prompt_sides(
        _side(result.before, result.before_error), _side(result.after, result.after_error), room
    )
    return Prompt(name=result.probe, before=before, after=after)


def _side(text: str | None, error: str | None) -> str:
    return text if text is not None else f"(error: {error})"


def _files(before: Manifest, after: Manifest) -> Iterable[FileMoved]:
    for path in sorted({*before.files, *after.files}):
        a, b = before.files.get(path), after.files.get(path)
        if (a and a.content_key) != (b and b.content_key):
            yield FileMoved(path=path, before=a.size if a else None, after=b.size if b else None)


def _tensors(before: Snapshot, after: Snapshot) -> Iterable[TensorMoved]:
    old, new = _table(before), _table(after)
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if a != b:
            yield TensorMoved(name=name, before=a, after=b)


def _table(snapshot: Snapshot) -> dict[str, str]:
    return {
        tensor.name: _tensor(tensor)
        for _, file in sorted(snapshot.tensor_files.items())
        for tensor in file.tensors
    }


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype} {' x '.join(map(str, tensor.shape)) or 'scalar'}"


def _code(before: Snapshot, after: Snapshot) -> tuple[list[CodeDiff], int]:
    """The text files that differ, as diffs within the room there is, and how many files were left out."""
    paths = sorted({*before.documents, *after.documents})
    texts = [(path, before.get(path), after.get(path)) for path in paths]
    moved = [
        (path, a if isinstance(a, str) else "", b if isinstance(b, str) else "")
        for path, a, b in texts
        if a != b and (isinstance(a, str) or isinstance(b, str))
    ]
    made: list[CodeDiff] = []
    room = _CODE_ROOM
    for path, a, b in moved[:_CODE_FILES]:
        diff = code_diff(path, a, b, room)
        made.append(diff)
        room -= sum(map(cost, diff.lines))
    return made, max(0, len(moved) - _CODE_FILES)
