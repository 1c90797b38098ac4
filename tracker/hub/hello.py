"""One question to the Hub that says whether it answers, whether it takes our token, and what time it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic

from storage.model import RepoState
from tracker.hub.errors import AccessDenied
from tracker.hub.wire import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """How the Hub answered: ``token_good`` is None without a token, ``ahead`` how far its clock is before ours."""

    milliseconds: int
    token_good: bool | None
    ahead_seconds: float | None


def greet(endpoint: str, token: str | None, *, seconds: float, clock: Callable[[], datetime]) -> Greeting:
    """Ask who we are, or without a token for one model. Raises HubError, UsageError for what is no endpoint."""
    wire = Wire(endpoint, token, deadline_s=seconds, connect_s=seconds, read_s=seconds, clock=clock)
    began = monotonic()
    headers = None
    with wire.operation():
        try:
            if wire.has_token:
                headers = wire.get("/api/whoami-v2").headers
            else:
                headers = wire.get("/api/models", [("limit", "1")]).headers
            good = True
        except AccessDenied as denied:
            if denied.state is not RepoState.TOKEN_BAD:
                raise
            good = False
    took = monotonic() - began
    told = _date(headers.get("date")) if headers is not None else None
    return Greeting(
        milliseconds=int(took * 1000),
        token_good=good if wire.has_token else None,
        # the date was written somewhere within the time that the answer took, and in whole seconds
        ahead_seconds=None if told is None else (told - clock()).total_seconds() + took / 2 + 0.5,
    )


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    if found is None:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
