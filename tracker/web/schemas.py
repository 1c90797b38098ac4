"""What the REST API answers, as types. The keys are those of the command line's ``--json``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from advisories.osv_model import OsvDocument

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
    not_kept: list[str] = Field(description="files whose content is not kept any more: they are not compared")
    estimate: BeforeAfter


class BlameEntry(Model):
    """A revision that set a value."""

    sha: Sha
    committed_at: Time
    value: Json
    present: bool = Field(description="false: the value, or its file, went away here")
    kept: bool = Field(description="false: the file changed here, and its content is not kept any more")
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
