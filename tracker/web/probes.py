"""For machines that look after this one: ``/healthz``, ``/readyz``, ``/metrics``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response
from fastapi.responses import PlainTextResponse

from tracker.exposition import exposition, registry_of
from tracker.settings import Settings
from tracker.vitals import Vitals
from tracker.web.access import reading


def router(settings: Settings, vitals: Vitals) -> APIRouter:
    """The three routes of one process. ``/metrics`` is for who may read, or for all with ``metrics.open``."""
    made = APIRouter(include_in_schema=False)
    registry = registry_of(vitals)
    access = [] if settings.metrics.open else [Depends(reading)]

    @made.get("/healthz", response_class=PlainTextResponse)
    def healthz() -> str:
        """Alive: the process answers."""
        return "ok\n"

    @made.get("/readyz", response_class=PlainTextResponse)
    def readyz() -> Response:
        """Ready: the database answers and has our schema, and the scheduler ticks where it is a role."""
        troubles = vitals.troubles()
        text = "".join(f"{trouble}\n" for trouble in troubles) or "ok\n"
        return PlainTextResponse(text, 503 if troubles else 200, {"Retry-After": "5"} if troubles else {})

    @made.get("/metrics", dependencies=access)
    def metrics(accept: Annotated[str, Header()] = "") -> Response:
        """What Prometheus reads."""
        body, media_type = exposition(registry, accept)
        return Response(body, media_type=media_type)

    return made
