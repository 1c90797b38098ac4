"""The OSV documents that hubwatch writes, as types: unknown fields are refused, as strict readers do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Sha = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
Introduced = Annotated[str, Field(pattern=r"^(?:0|[0-9a-f]{40}|[0-9a-f]{64})$")]
Timestamp = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z$")]
AdvisoryId = Annotated[
    str,
    Field(pattern=r"^x_HUBWATCH-[0-9]{4}(?:-[23456789cfghjmpqrvwx]{4}){3,}$", max_length=100),
]


def _unique(items: list[str]) -> list[str]:
    if len(set(items)) != len(items):
        raise ValueError("no duplicates")
    return items


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OsvPackage(_Strict):
    """The repo as a package."""

    ecosystem: Literal["GIT"]
    name: str
    purl: Annotated[str, Field(pattern=r"^pkg:huggingface/[^@]+$")]


class OsvEvent(_Strict):
    """One event of a range: exactly one key."""

    introduced: Introduced | None = None
    fixed: Sha | None = None
    last_affected: Sha | None = None

    @model_validator(mode="after")
    def _one_key(self) -> OsvEvent:
        if len(self.model_fields_set) != 1:
            raise ValueError("one key an event")
        return self


class OsvRange(_Strict):
    """A range of commits."""

    type: Literal["GIT"]
    repo: str
    events: Annotated[list[OsvEvent], Field(min_length=1)]
    database_specific: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> OsvRange:
        if not any(event.introduced for event in self.events):
            raise ValueError("at least one introduced")
        fixed = {event.fixed for event in self.events if event.fixed}
        if fixed and any(event.last_affected for event in self.events):
            raise ValueError("fixed and last_affected exclude each other")
        if fixed & {event.introduced for event in self.events}:
            raise ValueError("introduced and fixed are different commits")
        return self


class OsvAffected(_Strict):
    """The repo and its affected commits."""

    package: OsvPackage
    ranges: list[OsvRange]
    versions: Annotated[list[Sha], AfterValidator(_unique)] = Field(default_factory=list)
    database_specific: dict[str, Any]


class OsvReference(_Strict):
    """A link."""

    type: Literal[
        "ADVISORY",
        "ARTICLE",
        "DETECTION",
        "DISCUSSION",
        "REPORT",
        "FIX",
        "INTRODUCED",
        "GIT",
        "PACKAGE",
        "EVIDENCE",
        "WEB",
    ]
    url: str


class OsvCredit(_Strict):
    """Who found it."""

    name: str
    type: Literal["TOOL"]


class OsvDocument(_Strict):
    """One advisory as an OSV document."""

    schema_version: str
    id: AdvisoryId
    published: Timestamp
    modified: Timestamp
    withdrawn: Timestamp | None = None
    related: Annotated[list[AdvisoryId], AfterValidator(_unique)] = Field(default_factory=list)
    summary: Annotated[str, Field(max_length=200)]
    details: str
    affected: Annotated[list[OsvAffected], Field(min_length=1, max_length=1)]
    references: list[OsvReference]
    credits: list[OsvCredit]
    database_specific: dict[str, Any]
