"""The Hub: one question, and what its answer says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from storage.errors import HubwatchError
from tracker.doctor.model import Check, fail, good, warn
from tracker.hub.errors import RateLimited
from tracker.hub.hello import greet
from tracker.settings import Settings

SECONDS = 15.0
SKEW = 30.0
"""Seconds between the Hub's clock and ours from which times mislead: a schedule, a signed link, a window."""


def hub(settings: Settings, clock: Callable[[], datetime]) -> Iterator[Check]:
    """Whether it answers, takes our token, and has the same time."""
    endpoint = settings.hub.endpoint
    token = settings.hub.token.get_secret_value() if settings.hub.token else None
    try:
        seen = greet(endpoint, token, seconds=min(SECONDS, settings.hub.deadline_seconds), clock=clock)
    except RateLimited as error:
        yield warn("hub", f"{endpoint} answers, and asks for a pause", error.help)
        return
    except HubwatchError as error:
        yield fail("hub", error.message, error.help)
        return
    yield good("hub", f"{endpoint} answered in {seen.milliseconds} ms")
    if seen.token_good is False:
        yield fail("token", "the Hub does not accept it", "set HF_TOKEN to a valid one, or unset it")
    elif seen.token_good:
        yield good("token", "the Hub accepts it")
    else:
        yield good("token", "none: what is open to everybody is read, with the smaller quota")
    if seen.ahead_seconds is not None:
        if abs(seen.ahead_seconds) > SKEW:
            side = "behind" if seen.ahead_seconds > 0 else "ahead of"
            yield warn(
                "clock",
                f"this machine is {abs(seen.ahead_seconds):.0f} s {side} the Hub",
                "let it keep time by NTP",
            )
        else:
            yield good("clock", "within a few seconds of the Hub's")
