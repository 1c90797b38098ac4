"""What the REST API answers, as types. The keys are those of the command line's ``--json``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from advisories.osv_model import OsvDocument
from storage.model import Scope
from tracker.web.filters import Since

Json = Any
Sha = Annotated[str, Field(pattern="^[0-9a-f]{40}([0-9a-f]{24})?$", examples=["3f6c1a0b" * 5])]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-11-30T18:00:00Z"])]
RepoId = Annotated[str, Field(examples=["acme/tiny-llm"])]
AdvisoryId = Annotated[str, Field(examples=["x_HUBWATCH-2026-7k3m-p2qd-9xwc"])]
Cursor = Annotated[str | None, Field(description="asks for the next page; null on the last one")]


class Model(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(populate_by_name=True)


class Repo(Model):
    """A repo that is known here."""

    repo: RepoId
    url: str
    ref: str
    state: str
    canonical: str | None = Field(description="the name it answers under")
    gated: str | None
    private: bool
    public: bool
    restricted: bool = Field(description="read with a Hub token: shown only with a token unless public")
    watched: bool
    paused: bool
    checked_at: Time | None
    head: Sha | None
    head_observed_at: Time | None
    revisions: int
    open_advisories: int = Field(description="those above info")


class RepoPage(Model):
    """Repos by owner and name."""

    repos: list[Repo]
    next_cursor: Cursor


class Change(Model):
    """One thing that is different between two revisions."""

    cls: str = Field(alias="class", examples=["template.generation_prompt"])
    severity: Literal["info", "low", "medium", "high", "critical"]
    path: str
    pointer: str | None
    before: Json
    after: Json
    summary: str
    reason: str
    facts: Json = None


class LandedChange(Change):
    """A change and the revision that made it."""

    repo: RepoId
    sha: Sha
    committed_at: Time
    observed_at: Time


class ChangePage(Model):
    """Changes, the newest revision first."""

    changes: list[LandedChange]
    next_cursor: Cursor


class Estimate(Model):
    """What a revision costs, under the keys of ``hubwatch estimate --json``."""

    model_config = ConfigDict(extra="allow")

    status: Literal["exact", "partial", "unsupported"]
    source: str
    model_type: str | None
    architecture: str | None
    estimator: str
    version: str
    reason: str | None


class Event(Model):
    """What a revision did to an advisory."""

    advisory: AdvisoryId
    action: str


class Revision(Model):
    """A commit as read, with what it changed."""

    sha: Sha
    committed_at: Time
    observed_at: Time
    author: str
    title: str
    parents: list[Sha]
    parents_unknown: bool
    changes: list[Change]
    estimate: Estimate | None
    advisories: list[AdvisoryId]
    events: list[Event]


class History(Model):
    """Revisions of a repo, newest first."""

    repo: RepoId
    revisions: list[Revision]
    next_cursor: Cursor


class File(Model):
    """One file of a revision."""

    path: str
    size: int
    blob_id: str
    lfs_sha256: str | None


class Gap(Model):
    """A file that could not be read."""

    path: str
    reason: str
    detail: str


class Shown(Model):
    """One revision whole."""

    repo: RepoId
    sha: Sha
    committed_at: Time
    observed_at: Time
    author: str
    title: str
    files: list[File]
    gaps: list[Gap]
    estimate: Estimate | None
    open_advisories: list[AdvisoryId]


class FilePage(Model):
    """Files of a revision, by path."""

    repo: RepoId
    sha: Sha
    files: list[File]
    next_cursor: Cursor


class BeforeAfter(Model):
    """The estimates of two revisions."""

    before: Estimate | None
    after: Estimate | None


class Diff(Model):
    """Two revisions, compared."""

    repo: RepoId
    from_: str | None = Field(alias="from")
    to: Sha
    changes: list[Change]
    estimate: BeforeAfter


class BlameEntry(Model):
    """A revision that set a value."""

    sha: Sha
    committed_at: Time
    value: Json
    present: bool = Field(description="false: the value, or its file, went away here")
    author: str
    title: str


class Blame(Model):
    """Which revisions set a value, newest first."""

    repo: RepoId
    path: str
    pointer: str | None
    entries: list[BlameEntry]


class DatedEstimate(Model):
    """The estimate of one revision."""

    sha: Sha
    committed_at: Time
    observed_at: Time
    estimate: Estimate | None


class EstimatePage(Model):
    """Estimates over time, newest first."""

    repo: RepoId
    estimates: list[DatedEstimate]
    next_cursor: Cursor


class AdvisoryPage(Model):
    """OSV documents, newest first."""

    advisories: list[OsvDocument]
    next_cursor: Cursor


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


class Found(Model):
    """A revision found by its sha."""

    repo: RepoId
    sha: Sha


class Hit(Model):
    """An advisory found by its id or class."""

    id: AdvisoryId
    repo: RepoId
    severity: str
    state: str
    summary: str


class Results(Model):
    """What a search found, each list at most ``limit`` long."""

    repos: list[Repo]
    revisions: list[Found]
    advisories: list[Hit]


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


# --- the OSV API's own shapes, as its readers know them ------------------------------------------

_TEXT = {"type": "string", "maxLength": 1000}
_PACKAGE = {
    "type": "object",
    "properties": {"name": _TEXT, "ecosystem": _TEXT, "purl": _TEXT},
}
OSV_QUERY: dict[str, Any] = {
    "type": "object",
    "properties": {"commit": _TEXT, "version": _TEXT, "package": _PACKAGE, "page_token": _TEXT},
    "examples": [
        {"commit": "3f6c1a0b" * 5},
        {
            "version": "3f6c1a0b" * 5,
            "package": {"ecosystem": "GIT", "name": "https://huggingface.co/acme/tiny-llm"},
        },
        {"package": {"purl": "pkg:huggingface/acme/tiny-llm"}},
    ],
}
OSV_BATCH: dict[str, Any] = {
    "type": "object",
    "required": ["queries"],
    "properties": {"queries": {"type": "array", "maxItems": 1000, "items": OSV_QUERY}},
}
OSV_VULNS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "vulns": {"type": "array", "items": {"type": "object"}},
        "next_page_token": {"type": "string"},
    },
}
OSV_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
    "examples": [{"code": 5, "message": "Vulnerability not found"}],
}
