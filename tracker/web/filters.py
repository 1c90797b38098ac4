"""What requests may name: owners, repos, classes, severities, times; typed, bounded, described."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from storage.errors import UsageError
from storage.model import Severity
from tracker.web import cursors

_WORDS = ("info", "low", "medium", "moderate", "high", "critical")


def _severity(value: Any) -> Any:
    try:
        return Severity.parse(value) if isinstance(value, str) else value
    except UsageError as error:
        raise ValueError(error) from None


def _utc(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is no time that there was") from None


def once(request: Request) -> None:
    """Refuse a parameter that is given twice: all but one would be left out without a word."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    refuse([name for name, times in given.items() if times > 1], "is given more than once: ask once for each")


def refuse(names: Sequence[str], why: str) -> None:
    """Refuse parameters of a query; nothing for none of them."""
    if names:
        raise RequestValidationError([{"loc": ("query", name), "msg": why, "type": "query"} for name in names])


SeverityWord = Annotated[
    Severity,
    BeforeValidator(_severity),
    WithJsonSchema({"type": "string", "enum": [*_WORDS, *map(str.upper, _WORDS)]}),
]
ClassName = Annotated[
    str, Field(pattern=r"^[a-z0-9_]{1,50}\.[a-z0-9_]{1,50}$", examples=["template.generation_prompt"])
]
Owner = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,96}$", examples=["acme"])]
# Whether it can be a repo is `RepoRef.parse`'s to say; here it is only bounded.
OwnerName = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,96}$", examples=["acme"])]
RepoName = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,96}$", examples=["tiny-llm"])]
Revision = Annotated[
    str,
    Path(
        min_length=1,
        max_length=255,
        description="`main`, a full sha or at least four characters of one",
        examples=["main"],
    ),
]
Since = Annotated[datetime, AfterValidator(_utc), Field(description="observed at or after, RFC 3339")]
FilePath = Annotated[str, Field(min_length=1, max_length=4096, examples=["config.json"])]


class Paging(BaseModel):
    """How much, and from where on. Unknown parameters are refused: a filter with a slip must not say "all"."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = Field(
        default=None, max_length=cursors.LONGEST, description="`next_cursor` of the page before"
    )


class RepoFilter(Paging):
    """Which repos."""

    owner: Owner | None = None
    q: str | None = Field(default=None, min_length=1, max_length=200, description="part of owner/name")
    watched: bool | None = None


class ChangeFilter(Paging):
    """Which changes, or which revisions by their changes."""

    cls: ClassName | None = Field(default=None, alias="class")
    min_severity: SeverityWord | None = None
    path: FilePath | None = None
    since: Since | None = None


class AllChangeFilter(ChangeFilter):
    """Which changes of which owner's repos."""

    owner: Owner | None = None


class AdvisoryFilter(AllChangeFilter):
    """Which advisories."""

    state: Literal["open", "closed", "all"] = "all"


class SinceFilter(Paging):
    """From when on."""

    since: Since | None = None


class FileFilter(Paging):
    """Which files."""

    prefix: str | None = Field(default=None, max_length=4096, description="the beginning of their paths")


Repos = Annotated[RepoFilter, Query()]
Changes = Annotated[ChangeFilter, Query()]
AllChanges = Annotated[AllChangeFilter, Query()]
Advisories = Annotated[AdvisoryFilter, Query()]
FromWhen = Annotated[SinceFilter, Query()]
Files = Annotated[FileFilter, Query()]
Page = Annotated[Paging, Query()]
