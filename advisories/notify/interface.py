"""What a way of sending is: types, one protocol, its errors. Implementations are the modules beside this one.

A notifier is a module that exports ``NOTIFIER``; `advisories.notify.registry` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from storage.errors import HubwatchError
from storage.model import Json

CHAT_SCHEMES = (
    "discord",
    "gchat",
    "gotifys",
    "mailto",
    "mailtos",
    "matrixs",
    "mmosts",
    "msteams",
    "ntfy",
    "ntfys",
    "pover",
    "rockets",
    "slack",
    "tgram",
    "workflows",
    "zulip",
)
"""Chat and mail schemes allowed unless settings say otherwise: no scheme that runs programs, writes files,
drives the desktop or posts to any address one likes."""


class CannotSend(HubwatchError):
    """A message cannot be sent as things are set up: a missing secret, a refused address."""

    code = "notify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a message goes. ``url`` and ``secret`` are not for any log."""

    url: str
    secret: str | None = None
    allow_private: bool = False
    schemes: frozenset[str] = frozenset(CHAT_SCHEMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. ``id`` is the same at every attempt; ``body`` is what webhooks get, as a JSON object."""

    id: str
    body: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How sending went. Never holds a secret or a whole address.

    ``gone``: the receiver wants nothing more, ever. ``retry_after`` is the receiver's own wish.
    ``silent``: the receiver did not answer at all, so that trying it with another message is no use now.
    """

    delivered: bool
    status: int | None = None
    error: str | None = None
    gone: bool = False
    silent: bool = False
    retry_after: timedelta | None = None


class Notifier(Protocol):
    """A way of sending. Implementations hold no state and are used by many threads."""

    @property
    def name(self) -> str:
        """The word users see."""
        ...

    @property
    def signs(self) -> bool:
        """Whether messages are signed with the subscription's secret."""
        ...

    def takes(self, scheme: str) -> bool:
        """Whether URLs of this (lowercase) scheme are its own."""
        ...

    def check(self, target: Target) -> None:
        """Refuse a target that can never work, before it is kept; raises UsageError."""
        ...

    def shown(self, url: str) -> str:
        """The URL without anything secret, for lists."""
        ...

    def send(self, target: Target, message: Message, *, now: datetime) -> Answer:
        """Send, within about half a minute. What goes wrong is in the answer; never raises HubwatchError."""
        ...
