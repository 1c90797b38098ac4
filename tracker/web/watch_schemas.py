"""What the REST API takes and answers where something is followed or changed, as types."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from storage.model import Scope
from tracker.web.filters import Since
from tracker.web.schemas import Cursor, Json, Model, RepoId, Time


class Watch(Model):
    """How a repo is followed."""

    repo: RepoId
    ref: str
    state: str
    paused: bool
    head: str | None
    checked_at: Time | None
    next_check_at: Time | None
    errors: int
    last_error: str | None
    every_seconds: float | None
    since: Time | None
    from_head: bool
    public: bool
    restricted: bool
    notes: list[str] = Field(default_factory=list, description="what to know, when it was just added")


class Owner(Model):
    """An owner all of whose models are followed."""

    owner: str
    paused: bool


class WatchPage(Model):
    """Watches by owner and name; ``owners`` are all on the first page."""

    watches: list[Watch]
    owners: list[Owner]
    next_cursor: Cursor


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


Every = Annotated[
    str,
    Field(
        max_length=20,
        pattern=r"^[0-9]{1,7}(\.[0-9]{1,3})?[smhd]?$",
        description="a fixed interval: 90s, 30m, 6h, 1d",
        examples=["30m"],
    ),
]


class NewWatch(_Strict):
    """What is to be followed, and how."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"repo": "acme/tiny-llm", "every": "30m"}, {"repo": "acme/*"}]},
    )

    repo: str = Field(
        min_length=3, max_length=200, description="owner/name, or owner/* for all of an owner's models"
    )
    ref: str = Field(default="main", min_length=1, max_length=200)
    since: Since | None = Field(default=None, description="read history from this time on")
    from_head: bool = Field(default=False, description="read no history")
    every: Every | None = None
    public: bool = Field(default=False, description="show what was read with a Hub token to everybody")


class WatchChange(_Strict):
    """What is to be changed; what is not given stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"paused": True}, {"every": None}]})

    paused: bool = False
    public: bool = False
    every: Every | None = Field(default=None, description="null: adaptive again")


class JournalEntry(Model):
    """One change that somebody made."""

    id: int
    at: Time
    actor: str
    client: str
    action: str
    target: str
    detail: Json


class Journal(Model):
    """Who changed what, newest first."""

    entries: list[JournalEntry]
    next_cursor: Cursor


class Me(Model):
    """The token that was sent."""

    name: str
    scopes: list[Scope]
