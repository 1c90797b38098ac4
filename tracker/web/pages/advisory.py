"""``/advisories/{id}``: an advisory as a page for browsers, as its OSV document for everybody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from markupsafe import escape

from advisories import publish
from advisories.advice import EARLIER
from advisories.rules.registry import by_class
from storage import advisories
from storage.errors import NotFound
from storage.model import Advisory, Json
from tracker.web.access import Reader
from tracker.web.context import Here
from tracker.web.pages import figures
from tracker.web.pages.compare import Prompt
from tracker.web.pages.render import PageRoute, html
from tracker.web.pages.sides import prompt_sides
from tracker.web.problems import wants_html

_CHANGES = 24
_VERSIONS = 60
_PROMPTS = 4
_DOCUMENT = 24_000  # characters of the page that the document takes
_PROMPT_ROOM = 2_000  # of one side

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Format = Annotated[Literal["html", "json"] | None, Query(alias="format")]


@router.get("/advisories/{advisory_id}")
def advisory(advisory_id: str, request: Request, web: Here, viewer: Reader, kind: Format = None) -> Response:
    """One advisory."""
    with web.database.snapshot() as tx:
        found = advisories.get(tx, advisory_id) if advisory_id.isprintable() else None
        if found is not None:
            viewer.require(tx, found.repo)
        document = None if found is None else publish.document_of(tx, found.id)
        followers = [] if found is None else list(advisories.by_ids(tx, _others(found)))
    if found is None or document is None:
        raise NotFound(f"there is no advisory {advisory_id[:100]!r} here", help="see /api/v1/advisories")
    text = publish.to_json(document)
    if kind == "json" or (kind is None and not wants_html(request)):
        return Response(text, media_type="application/json")
    rule = by_class().get(found.cls)
    versions = document["affected"][0].get("versions", [])
    told, _, earlier = document["database_specific"]["advice"].partition(EARLIER)
    prompts = _prompts(found.context.get("probes"))
    return html(
        "advisory.html",
        advisory=found,
        repo=found.repo,
        document=document,
        about=document["database_specific"],
        state=publish.state_of(document),
        meaning=_meaning(found, publish.state_of(document)),
        pin=_pin(found),
        advice=told.strip(),
        earlier=earlier,
        ended_in=_put_back_at(found),
        effect=rule.effect if rule else "",
        versions=versions[-_VERSIONS:][::-1],
        versions_total=len(versions),
        changes=document["database_specific"]["changes"][:_CHANGES],
        prompts=prompts,
        moved=list(_moved(found.context.get("estimate"))),
        cards=_cards(found.context.get("estimate")),
        related=[item for item in followers if item.id != found.id],
        text=text if len(escape(text)) <= _DOCUMENT else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A revision to pin, and what it is."""

    sha: str
    what: str


def _put_back_at(found: Advisory) -> str | None:
    """The revision that put back what was before, where the advisory ended by that and not otherwise."""
    return found.spans[-1].fixed if found.spans and found.withdrawn is None else None


def _pin(found: Advisory) -> Pin | None:
    """What to pin as things stand; None where the end of the advisory leaves nothing to pin."""
    fixed = _put_back_at(found)
    if fixed is not None:
        return Pin(sha=fixed, what="The revision that put it back. A later one has it too.")
    if found.predecessor is None or found.withdrawn is not None or (found.spans and not found.spans[-1].open):
        return None
    return Pin(sha=found.predecessor, what="The revision before the change.")


def _meaning(found: Advisory, state: str) -> str:
    """What the state means to a reader."""
    last = found.spans[-1] if found.spans else None
    if state == "open":
        return "Open: it is so at the newest revision read."
    if state == "withdrawn":
        return "Withdrawn: it stands for nothing any more and is kept so that links to it stay good."
    if last is not None and last.fixed is not None:
        return (
            f"Closed: revision {last.fixed[:7]} put back what was there before. The affected commits stay as they "
            "are, for whoever runs or pinned one of them."
        )
    if last is not None:
        told = "another advisory tells what came in its place" if found.superseded_by else "see the changes"
        return f"Closed: the value changed again, to another one than before; {told}."
    return "Ended: the repo is not in this state any more."


def _others(found: Advisory) -> Sequence[str]:
    named = [*found.related, *([found.superseded_by] if found.superseded_by else [])]
    return list(dict.fromkeys(named))[:20]


def _prompts(probes: Json) -> list[Prompt]:
    told = [probe for probe in probes if isinstance(probe, Mapping)] if isinstance(probes, list) else []
    made = []
    for probe in [item for item in told if item.get("outcome") == "different"][:_PROMPTS]:
        sides = [_side(probe, key) for key in ("before", "after")]
        before, after = prompt_sides(sides[0], sides[1], _PROMPT_ROOM)
        made.append(Prompt(name=str(probe.get("probe")), before=before, after=after))
    return made


def _side(probe: Mapping[str, Json], key: str) -> str:
    text = probe.get(key)
    if isinstance(text, Mapping):  # cut when it was kept
        return str(text.get("head", ""))
    return str(text) if text is not None else f"(error: {probe.get(f'{key}_error')})"


def _moved(delta: Json) -> list[figures.Moved]:
    return figures.moved_of(delta) if isinstance(delta, Mapping) else []


def _cards(delta: Json) -> tuple[Sequence[Any], Sequence[Any]]:
    if not isinstance(delta, Mapping):
        return (), ()
    gained, lost = delta.get("cards_gained"), delta.get("cards_lost")
    return (gained if isinstance(gained, list) else ()), (lost if isinstance(lost, list) else ())
