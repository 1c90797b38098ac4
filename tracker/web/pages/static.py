"""The stylesheet and the icon: small files of ours that pages link to."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import APIRouter, Response

router = APIRouter(include_in_schema=False)


@cache
def _file(name: str) -> bytes:
    return (resources.files("tracker.web") / "static" / name).read_bytes()


@router.get("/style.css")
def style() -> Response:
    """The one stylesheet."""
    return Response(_file("style.css"), media_type="text/css")


@router.get("/icon.svg")
def icon() -> Response:
    """The icon of a browser's tab."""
    return Response(_file("icon.svg"), media_type="image/svg+xml")
