"""The vocabulary: what hubwatch talks about, as frozen values.

Standard library only, no I/O. Every package imports these types; none of them
imports anything back. Times are timezone-aware UTC. Shas are lowercase hex.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any, TypeVar

from storage.errors import UsageError

# A parsed JSON value. ``Any`` because a recursive alias buys nothing at the edges.
Json = Any
T = TypeVar("T")


def canonical_json(value: Json) -> str:
    """One text for one value: sorted keys, no spaces, ASCII only, so that it hashes and stores anywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Json) -> str:
    """Return 32 hex characters that stand for a JSON value, equal exactly when the values are equal."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()[:32]


class Severity(enum.IntEnum):
    """How much a change matters: info, record; low, know; medium, read first; high, pin; critical, stop."""

    INFO = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @property
    def label(self) -> str:
        """The lowercase word used on the command line and in JSON."""
        return self.name.lower()

    @property
    def osv(self) -> str:
        """The word OSV documents use (MEDIUM is MODERATE there)."""
        return "MODERATE" if self is Severity.MEDIUM else self.name

    @classmethod
    def parse(cls, text: str) -> Severity:
        """Read ``low``, ``HIGH``, ``moderate``, ...; raises UsageError for any other word."""
        word = text.strip().upper()
        word = "MEDIUM" if word == "MODERATE" else word
        if word not in cls.__members__:
            raise UsageError(f"unknown severity {text!r}", help="use info, low, medium, high or critical")
        return cls[word]


DEFAULT_IDENTITY = "https://huggingface.co"
_SEGMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?|[A-Za-z0-9_]", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RepoRef:
    """A model repo by the name people use; ``endpoint`` is the identity, not the transport."""

    endpoint: str = DEFAULT_IDENTITY
    owner: str
    name: str

    @property
    def id(self) -> str:
        """``owner/name``."""
        return f"{self.owner}/{self.name}"

    @property
    def url(self) -> str:
        """The repo's page under its identity, which is also its OSV package name."""
        return f"{self.endpoint}/{self.owner}/{self.name}"

    @classmethod
    def parse(cls, text: str, *, endpoint: str = DEFAULT_IDENTITY) -> RepoRef:
        """Read ``owner/name``; raises UsageError before anything reaches the network."""
        owner, slash, name = text.partition("/")
        good = slash and all(_valid_segment(part) for part in (owner, name)) and not name.endswith(".git")
        if not good:
            raise UsageError(
                f"{text[:120]!r} is not a repo id",
                help="write owner/name: letters, digits, '-', '_', '.', at most 96 characters each",
            )
        return cls(endpoint=endpoint, owner=owner, name=name)


def _valid_segment(text: str) -> bool:
    return bool(_SEGMENT.fullmatch(text)) and "--" not in text and ".." not in text


def valid_owner(text: str) -> bool:
    """Whether text can be an owner (the part before ``/*``)."""
    return _valid_segment(text)


# --- what the Hub says ---------------------------------------------------------------------------


class RepoState(enum.StrEnum):
    """What the Hub answers for a repo, told apart because each means another thing to do."""

    OK = "ok"
    GATED = "gated"
    DISABLED = "disabled"
    MISSING = "missing"  # missing, or private and we cannot see it: the Hub answers the same
    PRIVATE = "private"
    RENAMED = "renamed"
    TOKEN_BAD = "token_bad"  # noqa: S105 - a state, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The answer to the cheap question: where does the ref stand, and in what state is the repo.

    ``hub_id`` is the Hub's ``_id``, the repo's identity; ``canonical`` the name it answers under.
    ``sha`` is None where the state hides it.
    """

    state: RepoState
    sha: str | None
    hub_id: str | None
    canonical: str
    created_at: datetime | None = None
    last_modified: datetime | None = None
    gated: str | None = None  # "auto" or "manual"
    private: bool = False
    with_token: bool = False  # asked with a token of ours
    downloads: int | None = None  # in the last month, as the Hub says
    paths: frozenset[str] | None = None  # of the files at ``sha``, where the answer names them

    @property
    def restricted(self) -> bool:
        """Whether what is read now is not open to everyone: private or gated, and read with our token."""
        return self.with_token and (self.private or self.gated is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One commit. ``parents`` is first-parent first; empty with ``parents_unknown`` when read by the API."""

    sha: str
    committed_at: datetime
    author: str
    title: str
    parents: tuple[str, ...] = ()
    parents_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of a tree. ``size`` is the content's, in bytes, also for LFS files."""

    path: str
    size: int
    blob_id: str
    lfs_sha256: str | None = None

    @property
    def content_key(self) -> str:
        """What names the content: ``sha256:<hex>`` for LFS files, else ``git:<blob sha1>``."""
        return f"sha256:{self.lfs_sha256}" if self.lfs_sha256 else f"git:{self.blob_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Every file of a revision, by path."""

    files: Mapping[str, FileEntry]

    @property
    def digest(self) -> str:
        """Equal exactly when two trees hold the same paths with the same contents."""
        return digest({path: entry.content_key for path, entry in self.files.items()})


# --- a revision, parsed --------------------------------------------------------------------------


class DocumentKind(enum.StrEnum):
    """What a small file is for. Decided by its path alone."""

    CONFIG = "config"  # config.json, also in sub-folders (vae/config.json)
    GENERATION_CONFIG = "generation_config"
    TOKENIZER = "tokenizer"  # tokenizer.json
    TOKENIZER_CONFIG = "tokenizer_config"
    SPECIAL_TOKENS = "special_tokens"  # special_tokens_map.json
    ADDED_TOKENS = "added_tokens"  # added_tokens.json
    VOCABULARY = "vocabulary"  # vocab.json, vocab.txt
    MERGES = "merges"  # merges.txt
    CHAT_TEMPLATE = "chat_template"  # *.jinja (text), chat_template.json
    WEIGHT_INDEX = "weight_index"  # *.index.json
    PROCESSOR = "processor"  # preprocessor_config.json, processor_config.json, ...
    ADAPTER = "adapter"  # adapter_config.json
    EMBEDDING = "embedding"  # sentence-transformers modules.json, pooling configs
    QUANTIZATION = "quantization"  # quantize_config.json, hf_quant_config.json, ...
    COMPONENTS = "components"  # model_index.json, scheduler configs
    CODE = "code"  # *.py (text)
    REQUIREMENTS = "requirements"  # requirements*.txt, pyproject.toml, setup.py, setup.cfg (text)
    CARD = "card"  # README.md: {"metadata": {...}, "body": "..."}
    LICENCE = "licence"  # LICENSE* (text)
    SIGNATURE = "signature"  # model.sig, *.sigstore: sigstore bundles
    JSON = "json"  # any other small JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A small file, parsed. ``data`` is JSON, or text for code, templates, licences and requirements."""

    path: str
    kind: DocumentKind
    content_key: str
    data: Json
    flaws: tuple[str, ...] = ()  # read all the same, but strict readers refuse it: duplicate keys, NaN, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor as a header declares it. ``dtype`` is the safetensors or GGUF name (``BF16``, ``Q4_K``)."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Scalars in the tensor; 1 for a shape of ()."""
        total = 1
        for size in self.shape:
            total *= size
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFile:
    """The header of one weight file: its tensors and its metadata (``__metadata__``, or GGUF keys).

    ``truncated``: the bytes at hand ended inside the header, so more tensors or keys exist than are here.
    """

    path: str
    content_key: str
    format: str  # "safetensors" or "gguf"
    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, Json] = field(default_factory=dict)
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PickleFile:
    """What a file that loaders unpickle would import, as its opcodes say; it was never loaded.

    ``container`` is what the first bytes are (``zip``, ``pickle``, ``numpy``, ...). ``imports`` are dotted
    names, ``dangerous`` those that run commands, reach the network or hide what they import, or why that cannot
    be known of a broken file. ``whole`` is False when the bytes that were read end before the pickle does.
    """

    path: str
    content_key: str
    container: str
    imports: tuple[str, ...] = ()
    dangerous: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A file that could not be read or parsed.

    ``last_readable`` is the content key of the version that stands in for it, so that nothing
    is reported as removed and the repair is compared with the last readable version.
    """

    path: str
    reason: str  # a stable word: too_large, parse_error, too_deep, encoding, header, fetch, ...
    detail: str
    last_readable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A revision, parsed: what the differs, the probes, the estimators and the rules look at.

    ``documents``, ``tensor_files`` and ``pickles`` are by path; a path with a gap holds the last readable
    version, if there was one.
    """

    revision: Revision
    manifest: Manifest
    documents: Mapping[str, Document] = field(default_factory=dict)
    tensor_files: Mapping[str, TensorFile] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    pickles: Mapping[str, PickleFile] = field(default_factory=dict)
    _found: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, name: str, work: Callable[[Snapshot], T]) -> T:
        """What a pure function makes of this snapshot; ``name`` stands for the function. Kept as long as it is."""
        if name not in self._found:
            self._found[name] = work(self)
        found: T = self._found[name]
        return found

    def by_kind(self, *kinds: DocumentKind) -> list[Document]:
        """The documents of these kinds, by path."""
        return [doc for doc in self.once("documents", _by_path) if doc.kind in kinds]

    def get(self, path: str) -> Json:
        """The parsed data of one path, or None."""
        doc = self.documents.get(path)
        return doc.data if doc else None


def _by_path(snapshot: Snapshot) -> list[Document]:
    return [doc for _, doc in sorted(snapshot.documents.items())]


# --- what changed --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is different between two revisions.

    ``facet`` names the watched value (``config:config.json#/rope_theta``), the same at every revision,
    and the digests are that value's before and after (None: it is not there). An advisory holds for as
    long as its facet keeps the after digest. A change of the moment (``repo.first_files``) has facet "".
    ``pointer`` is a JSON pointer (RFC 6901) into ``path``, None where the file is not JSON.
    ``facts`` is what rules rate by and pages show (imports added, probes that differ, counts).
    """

    cls: str
    path: str
    summary: str
    pointer: str | None = None
    before: Json = None
    after: Json = None
    facet: str = ""
    before_digest: str | None = None
    after_digest: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A change, judged: its severity and, in words, why."""

    change: Change
    severity: Severity
    reason: str

    @property
    def cls(self) -> str:
        """The change class."""
        return self.change.cls


class ProbeOutcome(enum.StrEnum):
    """What trying it out showed."""

    EQUAL = "equal"
    DIFFERENT = "different"
    GAP = "gap"  # the probe could not run: too slow, too big, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One probe, tried on both revisions. ``before`` and ``after`` are texts, or an error's text."""

    probe: str
    outcome: ProbeOutcome
    before: str | None = None
    after: str | None = None
    before_error: str | None = None
    after_error: str | None = None


# --- estimates -----------------------------------------------------------------------------------


class EstimateStatus(enum.StrEnum):
    """``exact``: equal to the class's own count; ``partial``: when in doubt; ``unsupported``: no count."""

    EXACT = "exact"
    PARTIAL = "partial"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a config costs: the figures as JSON under the keys of the public contract.

    ``body`` holds parameters, checkpoint, lora, memory, tokens, headroom, cards, cost, structure,
    forward_pass, layers, findings. Estimates are compared only within one ``estimator`` and ``version``.
    """

    estimator: str  # "exact" or "classic"
    version: str
    status: EstimateStatus
    source: str  # closed_form, transformers, checkpoint
    model_type: str | None
    architecture: str | None
    reason: str | None = None
    body: Mapping[str, Json] = field(default_factory=dict)


# --- advisories ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch of first-parent history in which an advisory is open.

    ``introduced`` is a sha, or "0" when it was there before what we read. ``fixed`` is the commit that
    restored the value; ``last_affected`` the last commit before the value became something new.
    At most one of the two is set; with neither, the advisory is open.
    """

    introduced: str
    fixed: str | None = None
    last_affected: str | None = None

    @property
    def open(self) -> bool:
        """Whether nothing has ended it."""
        return self.fixed is None and self.last_affected is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedFinding:
    """A finding inside an advisory, and whether its facet still has the value it warned of."""

    finding: Finding
    holds: bool = True
    ended_by: str | None = None  # "restored" or "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """One warning: one (repo, class, introducing revision), listing every path and value.

    ``context`` is what the document carries beside the findings: estimator deltas, probe results,
    ``since_first``, ``ended_at``. ``spans`` is empty only for repo-state advisories, whose OSV range is
    ``introduced: 0``.
    """

    id: str
    repo: RepoRef
    cls: str
    severity: Severity
    reason: str
    introduced: str  # the introducing sha, or the new head for repo-state classes
    predecessor: str | None  # the revision it was compared with
    ref: str
    findings: tuple[TrackedFinding, ...]
    spans: tuple[Span, ...]
    published: datetime
    modified: datetime
    withdrawn: datetime | None = None
    superseded_by: str | None = None
    related: tuple[str, ...] = ()
    context: Mapping[str, Json] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether any finding still holds and nobody withdrew it."""
        return self.withdrawn is None and any(item.holds for item in self.findings)


class AdvisoryAction(enum.StrEnum):
    """What a revision did to an advisory."""

    OPENED = "opened"
    REINTRODUCED = "reintroduced"
    FIXED = "fixed"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisoryEvent:
    """One thing that happened to one advisory at one revision (``sha`` is None for repo state)."""

    advisory_id: str
    action: AdvisoryAction
    sha: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """An event as kept: ``number`` grows with every event that is written, ``at`` is when we saw it."""

    number: int
    repo: RepoRef
    event: AdvisoryEvent
    at: datetime


# --- keeping watch -------------------------------------------------------------------------------


class Urgency(enum.IntEnum):
    """Who goes first when there is more to ask than may be asked."""

    IDLE = -1  # what is read at a slower pace, beside the heads
    QUIET = 0
    MOVING = 1  # new, or it moved lately
    HINTED = 2  # the Hub, or a person, says that something happened


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A repo under watch. ``since`` and ``from_head`` cut the history that is read."""

    id: int
    repo: RepoRef
    ref: str = "main"
    every: timedelta | None = None  # None: adaptive
    since: datetime | None = None
    from_head: bool = False
    public: bool = False
    restricted: bool = False  # read with a token of ours while private or gated: not shown to everyone
    paused: bool = False
    created_at: datetime
    hub_id: str | None = None
    canonical: str | None = None
    repo_created_at: datetime | None = None
    state: RepoState = RepoState.OK
    gated: str | None = None
    private: bool = False
    # the head that the first read aims at: revisions up to it are backfill and send no messages
    backfill_target: str | None = None
    head: str | None = None  # the newest revision landed
    checked_at: datetime | None = None
    next_check_at: datetime | None = None
    errors: int = 0
    last_error: str | None = None
    missing_since: datetime | None = None
    missing_count: int = 0
    urgency: Urgency = Urgency.QUIET
    downloads: int | None = None  # in a month, as the Hub last said


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerWatch:
    """All model repos of an owner under watch (``owner/*``), those that appear later included.

    ``known`` are the names seen in the owner's listing; None before it was first read. The options are
    those which each repo's own `Watch` begins with.
    """

    id: int
    endpoint: str = DEFAULT_IDENTITY
    owner: str
    every: timedelta | None = None
    since: datetime | None = None
    from_head: bool = False
    public: bool = False
    paused: bool = False
    created_at: datetime
    known: frozenset[str] | None = None
    checked_at: datetime | None = None
    next_check_at: datetime | None = None
    errors: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRepo:
    """A repo that this database holds something of, watched or not, and how it stands."""

    repo: RepoRef
    ref: str
    state: RepoState
    canonical: str | None
    gated: str | None
    private: bool
    public: bool
    restricted: bool
    watched: bool
    paused: bool
    checked_at: datetime | None
    head: str | None  # the newest revision landed
    head_observed_at: datetime | None
    revisions: int
    open_advisories: int  # above info


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedChange:
    """A change with the revision that made it. ``place`` orders the list it came from."""

    repo: RepoRef
    sha: str
    committed_at: datetime
    observed_at: datetime
    finding: Finding
    place: tuple[int, int]


# --- access --------------------------------------------------------------------------------------


class Scope(enum.StrEnum):
    """What a token of ours allows: ``read`` what is not open to everyone; ``write``, that and to change."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token of ours, without its secret."""

    id: int
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def allows(self, scope: Scope) -> bool:
        """Whether the token is good for this: writing includes reading."""
        return self.revoked_at is None and (scope in self.scopes or Scope.WRITE in self.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One change that somebody made through us: who (a token's name, or ``cli``), from where, to what."""

    id: int
    at: datetime
    actor: str
    client: str
    action: str  # watch.add, watch.remove, token.create, ...
    target: str
    detail: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxItem:
    """One event to be sent to subscribers. ``key`` is unique by content, so a re-run adds nothing."""

    key: str
    kind: str  # advisory.opened, advisory.closed, repo.new, ...
    repo: RepoRef
    payload: Mapping[str, Json]
    created_at: datetime


class Digest(enum.StrEnum):
    """How often a subscription is told: after the settle window, once an hour, or once a day."""

    INSTANT = "instant"
    HOURLY = "hourly"
    DAILY = "daily"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A part of every day, in the subscription's time zone, in which nothing is sent.

    ``begins`` later than ``ends`` spans midnight.
    """

    begins: time
    ends: time


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Who is told what, and when.

    ``url`` is a webhook's or an apprise URL and may hold secrets: never log it. ``secret`` signs webhooks:
    ``whsec_...`` made by us, ``env:NAME`` or ``file:PATH``. Empty ``classes`` and ``repos`` mean all;
    ``repos`` holds ``owner/name`` and ``owner/*``. A disabled subscription gets nothing, and says why.
    """

    id: str
    url: str
    secret: str | None = None
    min_severity: Severity = Severity.LOW
    classes: frozenset[str] = frozenset()
    repos: tuple[str, ...] = ()
    digest: Digest = Digest.INSTANT
    settle: timedelta = timedelta(minutes=15)
    quiet: QuietHours | None = None
    timezone: str = "UTC"
    allow_private: bool = False
    created_at: datetime
    disabled_at: datetime | None = None
    disabled_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An outbox item as it waits for one subscription; ``number`` is its place in the outbox."""

    number: int
    item: OutboxItem


class DeliveryState(enum.StrEnum):
    """Where a message stands: still to be sent, sent, or given up (a dead letter)."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message to one subscription, with the same id and body at every attempt.

    ``lane`` names what must stay in order: the messages of a lane are sent one after the other.
    """

    number: int
    subscription_id: str
    message_id: str
    lane: str
    body: Mapping[str, Json]
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    created_at: datetime
    next_at: datetime
    done_at: datetime | None = None
    status: int | None = None  # the last HTTP status
    error: str | None = None  # why the last attempt failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to send a message. ``status`` is the HTTP status, None when there was no answer."""

    at: datetime
    delivered: bool
    status: int | None
    error: str | None
    milliseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """All that one revision writes, in one transaction."""

    repo: RepoRef
    ref: str
    revision: Revision
    observed_at: datetime
    backfill: bool
    manifest: Manifest
    gaps: tuple[Gap, ...]
    findings: tuple[Finding, ...]  # every change with its rating, in the order shown
    estimate: Estimate | None
    advisories: tuple[Advisory, ...]  # opened or altered by this revision, as they now stand
    events: tuple[AdvisoryEvent, ...]
    outbox: tuple[OutboxItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRevision:
    """A revision as kept: its place in the first-parent history (0 is the oldest) and when we saw it."""

    revision: Revision
    position: int
    observed_at: datetime
    backfill: bool
    manifest_digest: str
