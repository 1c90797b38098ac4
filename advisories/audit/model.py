"""What an audit talks about: references, what is known of a repo, findings, gaps."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from storage.model import Severity

_FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_sha(text: str | None) -> bool:
    """Whether a revision is a full commit sha, which alone never moves."""
    return text is not None and _FULL_SHA.fullmatch(text) is not None


class Notation(enum.StrEnum):
    """In what a reference is written."""

    PYTHON = "python"
    NOTEBOOK = "notebook"
    YAML = "yaml"
    TOML = "toml"
    JSON = "json"
    ENV = "env"
    DOCKERFILE = "dockerfile"
    SHELL = "shell"
    SBOM = "sbom"
    HUB_CACHE = "hub_cache"


class Pinning(enum.StrEnum):
    """Whether a reference can mean another commit tomorrow."""

    PINNED = "pinned"
    FLOATING = "floating"
    UNKNOWN = "unknown"
    """A revision is given, or may be, and cannot be told from the file: neither is proved."""


class Form(enum.StrEnum):
    """In what shape a reference stands, which says how a pin is written beside it."""

    PLAIN = "plain"
    """The value of a key, an argument of a call, a word of a command."""
    ITEM = "item"
    """An entry of a list of names: there is no place for a pin."""
    PART = "part"
    """An argument beside the model's, in a call whose revision is the model's alone."""
    WORDS = "words"
    """A word of a command that is written as a list."""
    VARIABLE = "variable"
    """``NAME: value`` in a mapping of environment variables."""
    ASSIGNMENT = "assignment"
    """``NAME=value``."""
    ENTRY = "entry"
    """``NAME=value`` as an entry of a list."""
    RECORD = "record"
    """``{name: NAME, value: value}``."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """Where in a file: the line of the call or the flag, and the characters there, all counted from 1.

    ``end_column`` is behind the last character. Columns are None where only the line is known.
    """

    line: int
    column: int | None = None
    end_column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One use of a model repo.

    ``repo`` is ``owner/name``; ``endpoint`` the hub it names itself, None where it names none.
    ``revision`` is as written: a full sha, or a branch, a tag, a short sha, or None for the default branch.
    ``via`` is the call, flag, key or form it stands in (``from_pretrained``, ``--model``, ``hf://``);
    ``file`` is relative to what was audited, with ``/``. ``unsure``: a revision is given, or may be, that cannot
    be followed; ``revision`` is then None. ``pin_key`` is the argument, flag, key or variable that gives the
    revision, as written, or that is known to be where one belongs; None otherwise.
    """

    repo: str
    revision: str | None
    place: Place
    via: str
    endpoint: str | None = None
    file: str = ""
    notation: Notation = Notation.PYTHON
    unsure: bool = False
    form: Form = Form.PLAIN
    pin_key: str | None = None

    @property
    def pinned(self) -> bool:
        """Whether it names a commit by its full sha, and so never moves."""
        return is_sha(self.revision)

    @property
    def pinning(self) -> Pinning:
        """Whether it is pinned, floats, or nobody can tell from the file."""
        if self.unsure:
            return Pinning.UNKNOWN
        return Pinning.PINNED if self.pinned else Pinning.FLOATING

    @property
    def line(self) -> int:
        """The line of the call or the flag, from 1."""
        return self.place.line


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What could not be looked at, or not be answered. ``reason`` is a stable word."""

    reason: str
    detail: str
    file: str | None = None
    line: int | None = None
    repo: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one text, or a whole tree, gave."""

    references: tuple[Reference, ...] = ()
    gaps: tuple[Gap, ...] = ()


class Unreadable(Exception):
    """A text that a finder cannot read at all; becomes a gap.

    Args:
        reason: A stable word: syntax, parse_error, too_deep, ...
        detail: What was wrong, in a few words.

    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What a source knows of one repo.

    ``documents`` are its OSV documents, `info` and withdrawn ones too where the source has them. ``read`` are
    the shas that were read; with ``ordered`` oldest first and complete. ``head`` is the newest read commit of
    ``ref``, None where the source cannot tell. ``facts`` describe the head (model type, architecture).
    ``everything``: a sha that is not in ``read`` was certainly not read.
    """

    repo: str
    documents: tuple[Mapping[str, Any], ...]
    ref: str = "main"
    head: str | None = None
    read: tuple[str, ...] = ()
    ordered: bool = False
    everything: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An advisory, as far as an audit shows it."""

    id: str
    severity: Severity
    cls: str
    summary: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one reference holds: the commit, how far it is behind, and what the advisories say.

    Attributes:
        reference: The reference.
        sha: The commit held: the pin, or the newest read head for a floating reference; None when unknown.
        head: The newest read head.
        behind: Revisions read between ``sha`` and ``head``; None when the source has no order.
        affected: Advisories that touch what is held.
        gained: Those that an update to the head would bring.
        lost: Those that an update to the head would end.
        since: Advisories introduced after ``sha``, whether or not they are still open.
        unjudged: Why nothing was judged although the repo is known, in words; None where it was.

    """

    reference: Reference
    sha: str | None = None
    head: str | None = None
    behind: int | None = None
    affected: tuple[Notice, ...] = ()
    gained: tuple[Notice, ...] = ()
    lost: tuple[Notice, ...] = ()
    since: tuple[Notice, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    unjudged: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The answer: every reference with what it holds, and what could not be answered.

    ``base`` is the folder (or file's folder) that files are relative to, absolute, None for no place on disk.
    """

    holdings: tuple[Holding, ...]
    gaps: tuple[Gap, ...]
    base: str | None = None

    @property
    def references(self) -> tuple[Reference, ...]:
        """Every reference, by file and line."""
        return tuple(holding.reference for holding in self.holdings)

    @property
    def findings(self) -> tuple[tuple[Holding, Notice], ...]:
        """Every advisory that touches what a reference holds, by file and line, the gravest first."""
        return tuple((holding, notice) for holding in self.holdings for notice in holding.affected)

    @property
    def worst(self) -> Severity | None:
        """The gravest severity found; None when nothing was."""
        return max((notice.severity for _, notice in self.findings), default=None)
