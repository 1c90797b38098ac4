"""The Hub by its API: `HubClient` is an `Upstream` over huggingface_hub.

    head       one request: where does the ref stand, in what state is the repo
    peek       one request of another quota: where does the ref stand
    walk       commit pages, newest first, until something known
    manifest   every page of one tree           confirm    that it leaves out no file, by another answer
    content    one small file, verified          header   one weight header, by range
    part       bytes of a file, by range
    listing    all models of an owner            refs     branches, tags, pull requests

Each method is one operation under one deadline, however many requests it takes, and raises only
`tracker.hub.errors.HubError` and its children. Nothing here sleeps on the Hub's behalf; what may be asked
again at once (a page after a 5xx, bytes with a wrong hash, an expired link) is asked once more. A client
is shared by threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from urllib.parse import quote, urlsplit

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # exported lazily

from storage.errors import UsageError
from storage.model import FileEntry, Head, Json, Manifest, RepoRef, RepoState, valid_owner
from tracker.hub import fields, files, history_api
from tracker.hub.answers import ENDPOINT_HELP, FAULT_HELP, HELP, plain
from tracker.hub.budget import Gate
from tracker.hub.deadline import DEFAULT_CONNECT_S, DEFAULT_DEADLINE_S, DEFAULT_READ_S
from tracker.hub.errors import AccessDenied, RevisionGone, UpstreamFault
from tracker.hub.history_api import SIBLINGS
from tracker.hub.interface import Listing, Upstream, Walk
from tracker.hub.limits import Budget
from tracker.hub.paging import pages
from tracker.hub.wire import REDIRECTS, Wire, joined, utc_now

EXPANDED = ("sha", "lastModified", "createdAt", "disabled", "gated", "private", "downloads")
PEEKED = ".gitattributes"
"""The file that is asked for only to learn the commit: nearly every repo has it, and nobody counts it."""
FEW_FILES = 200
"""Names that an answer to `head` may hold at every poll: some 2 kB, packed."""
MAX_LARGE = 100_000
LISTING_PAGE = 1_000
MAX_LISTED = 100_000
MAX_COUNT = 10**15
MAX_REFS = 100_000
_REF_GROUPS = ("branches", "tags", "pullRequests")


class HubClient(Upstream, Listing):
    """Reads repos from a Hub.

    Args:
        endpoint: Where requests go (``HF_ENDPOINT``). It is transport only: a repo's identity is in its `RepoRef`.
        token: A Hub token, sent to the endpoint's origin only; None reads anonymously.
        deadline_s: Seconds for one method call, all requests and bodies included.
        connect_s: Seconds for one connect.
        read_s: Seconds of silence before giving up.
        clock: The wall clock, by which rate limit windows end.
        gate: The budget that requests are paid from; None pays nothing.

    Raises:
        UsageError: The endpoint is no http(s) address, or the token cannot be one.

    """

    def __init__(
        self,
        endpoint: str,
        token: str | None = None,
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
        connect_s: float = DEFAULT_CONNECT_S,
        read_s: float = DEFAULT_READ_S,
        clock: Callable[[], datetime] = utc_now,
        gate: Gate | None = None,
    ) -> None:
        self._wire = Wire(
            endpoint,
            token,
            deadline_s=deadline_s,
            connect_s=connect_s,
            read_s=read_s,
            clock=clock,
            gate=gate,
        )
        self._large: set[str] = set()  # repos of more than a few files, by id

    def __repr__(self) -> str:
        """The endpoint; whether there is a token, never which."""
        return f"HubClient({self._wire.endpoint!r}, token={'set' if self._wire.has_token else None})"

    @property
    def endpoint(self) -> str:
        """Where requests go, without a slash at the end."""
        return self._wire.endpoint

    @property
    def has_token(self) -> bool:
        """Whether this client reads with a token: what it sees may not be for everybody."""
        return self._wire.has_token

    @property
    def budgets(self) -> dict[str, Budget]:
        """The Hub's quotas (``api``, ``resolvers``) as its last answers told them."""
        return self._wire.budgets

    @property
    def paused_until(self) -> datetime | None:
        """When the pause ends that the last 429 asked for; until then calls raise `RateLimited` unsent."""
        return self._wire.paused_until

    def resume(self) -> None:
        """Forget pauses and spent windows, for instance because another node has seen the Hub answer."""
        self._wire.resume()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Put several calls of this thread under one deadline: a repo's whole check, for instance."""
        with self._wire.operation(seconds):
            yield

    def head(self, repo: RepoRef, *, ref: str = "main", paths: bool = False) -> Head:
        """See `Upstream.head`. Gated and private repos that answer are OK, with ``gated`` and ``private`` set.

        A repo that named many files is not asked for their names again: every answer would hold them.

        Raises:
            RevisionGone: The repo is there, the ref is not.

        """
        path = f"/api/models/{_checked(repo).id}"
        if ref != "main":
            path += f"/revision/{_quoted_ref(ref)}"
        with self._wire.operation():
            try:
                wanted = (*EXPANDED, SIBLINGS) if paths and repo.id not in self._large else EXPANDED
                answer = self._wire.get(path, [("expand", name) for name in wanted])
            except AccessDenied as denied:
                return Head(state=denied.state, sha=None, hub_id=None, canonical=repo.id)
        head = replace(_head(answer.value), with_token=self._wire.has_token)
        if head.paths is not None and len(head.paths) > FEW_FILES and len(self._large) < MAX_LARGE:
            self._large.add(repo.id)
        # names differ in case without a move: the Hub answers for any spelling
        moved = head.canonical.lower() != repo.id.lower()
        return replace(head, state=RepoState.RENAMED) if moved and head.state is RepoState.OK else head

    def walk(
        self,
        repo: RepoRef,
        *,
        head: str,
        known: Callable[[str], bool],
        since: datetime | None = None,
        only_head: bool = False,
    ) -> Walk:
        """See `Upstream.walk`. Every revision has ``parents_unknown``: the listing's order stands in."""
        _checked(repo)
        with self._wire.operation():
            return history_api.read_walk(
                self._wire, repo, head=_checked_sha(head), known=known, since=since, only_head=only_head
            )

    def recent(self, repo: RepoRef, *, head: str, limit: int = history_api.FIRST_PAGE) -> history_api.Recent:
        """The newest commits of ``head``, at most ``limit``, in one request."""
        _checked(repo)
        with self._wire.operation():
            return history_api.read_recent(self._wire, repo, head=_checked_sha(head), limit=limit)

    def manifest(self, repo: RepoRef, revision: str) -> Manifest:
        """See `Upstream.manifest`. Names that git forbids are kept under made-up ones (`fields.safe_path`)."""
        _checked(repo)
        with self._wire.operation():
            return history_api.read_manifest(self._wire, repo, _checked_sha(revision))

    def confirm(self, repo: RepoRef, revision: str, manifest: Manifest) -> None:
        """Hold a revision's tree against a second answer of the Hub, in one request.

        Raises:
            UpstreamFault: The model's info names files that the tree leaves out.

        """
        _checked(repo)
        try:
            with self._wire.operation():
                named = history_api.read_paths(self._wire, repo, _checked_sha(revision))
        except (AccessDenied, RevisionGone):
            return  # the tree was told, its info is not: there is nothing to hold it against
        except UpstreamFault as fault:
            if fault.status is None or fault.status >= 500:
                raise
            return  # this upstream has no such answer
        left_out = named - manifest.files.keys()
        if left_out:
            raise UpstreamFault(
                f"{repo.id}: the tree of {revision[:12]} leaves out {plain(min(left_out))}", help=FAULT_HELP
            )

    def content(self, repo: RepoRef, revision: str, entry: FileEntry) -> bytes:
        """See `Upstream.content`. At most ``entry.size`` bytes are kept in memory."""
        _checked(repo)
        with self._wire.operation():
            return files.read_content(self._wire, repo, _checked_sha(revision), entry)

    def header(self, repo: RepoRef, revision: str, entry: FileEntry, *, limit: int) -> bytes:
        """See `Upstream.header`. One range for most files, two at most."""
        _checked(repo)
        with self._wire.operation():
            return files.read_header(self._wire, repo, _checked_sha(revision), entry, limit=limit)

    def part(self, repo: RepoRef, revision: str, entry: FileEntry, *, start: int, stop: int) -> bytes:
        """See `Upstream.part`."""
        _checked(repo)
        with self._wire.operation():
            return files.read_part(self._wire, repo, _checked_sha(revision), entry, start=start, stop=stop)

    def token_is_good(self) -> bool | None:
        """See `Upstream.token_is_good`: True, False (a 401), or None without a token."""
        if not self._wire.has_token:
            return None
        with self._wire.operation():
            try:
                self._wire.get("/api/whoami-v2")
            except AccessDenied as denied:
                if denied.state is RepoState.TOKEN_BAD:
                    return False
                raise
        return True

    def peek(self, repo: RepoRef, *, ref: str = "main") -> str | None:
        """See `Upstream.peek`: one HEAD of ``.gitattributes``, whose redirect names the commit.

        Never ``config.json``: the Hub counts a request for that as a download.
        """
        url = f"{self.endpoint}/{_checked(repo).id}/resolve/{_quoted_ref(ref)}/{PEEKED}"
        with self._wire.operation(), self._wire.open(url, method="HEAD") as response:
            place = re.fullmatch(
                r"/api/resolve-cache/models/([^/]+/[^/]+)/([0-9a-f]{40})/.*",
                urlsplit(joined(url, response.headers.get("location", ""))).path,
            )
            if response.status_code in REDIRECTS and place and place[1] == repo.id:
                return place[2]
            named = response.headers.get("x-repo-commit", "")
            return named if response.status_code == 200 and fields.is_sha(named) else None

    def listing(self, owner: str, *, max_pages: int | None = None) -> list[Head]:
        """See `Listing.listing`: one request a page of 1,000, the last modified first.

        Entries that make no sense or are not the owner's are left out; the state is never RENAMED or MISSING.
        """
        if not valid_owner(owner):
            raise AccessDenied(
                f"{owner[:120]!r} cannot be an owner", state=RepoState.MISSING, help="check the name"
            )
        asked = [("author", owner), ("sort", "lastModified"), ("limit", str(LISTING_PAGE))]
        heads: dict[str, Head] = {}
        with self._wire.operation():
            listed = pages(self._wire, "/api/models", asked + [("expand", name) for name in EXPANDED])
            for page in islice(listed, max_pages):
                for head in filter(None, (_listed(item, owner) for item in page.items)):
                    heads.setdefault(head.canonical, replace(head, with_token=self.has_token))
                if len(heads) >= MAX_LISTED:
                    break
        return list(heads.values())

    def refs(self, repo: RepoRef) -> dict[str, str]:
        """The branches, tags and pull-request refs by full name (``refs/heads/main``), with their shas."""
        path = f"/api/models/{_checked(repo).id}/refs"
        with self._wire.operation():
            answer = self._wire.get(path, [("include_prs", "1")]).value
        if not isinstance(answer, dict):
            raise UpstreamFault(f"{repo.id}: the refs make no sense", help=FAULT_HELP)
        found: dict[str, str] = {}
        for item in (item for group in _REF_GROUPS for item in answer.get(group) or ()):
            name = item.get("ref") if isinstance(item, dict) else None
            if not isinstance(name, str) or not _valid_ref(name) or len(found) >= MAX_REFS:
                raise UpstreamFault(f"{repo.id}: the refs make no sense", help=FAULT_HELP)
            found[name] = fields.sha(item.get("targetCommit"), "ref target")
        return found


def _head(value: Json) -> Head:
    """One model of an answer with the `EXPANDED` fields."""
    name = value.get("id") if isinstance(value, dict) else None
    try:
        repo = RepoRef.parse(name if isinstance(name, str) else "")
    except UsageError:
        raise UpstreamFault("the Hub's answer names no repo", help=ENDPOINT_HELP) from None
    hub_id, gated, sha, downloads = (value.get(key) for key in ("_id", "gated", "sha", "downloads"))
    return Head(
        state=RepoState.DISABLED if value.get("disabled") is True else RepoState.OK,
        sha=None if sha is None else fields.sha(sha, "head"),
        hub_id=fields.text(hub_id, 64) or None,
        canonical=repo.id,
        created_at=fields.moment(value.get("createdAt")),
        last_modified=fields.moment(value.get("lastModified")),
        gated=(fields.text(gated, 20) or "auto") if gated else None,
        private=value.get("private") is True,
        downloads=downloads if type(downloads) is int and 0 <= downloads <= MAX_COUNT else None,
        paths=history_api.paths_of(value),
    )


def _listed(item: Json, owner: str) -> Head | None:
    try:
        head = _head(item)
    except UpstreamFault:
        return None
    return head if head.canonical.partition("/")[0].lower() == owner.lower() else None


def _checked(repo: RepoRef) -> RepoRef:
    """The repo, if its name can be one; nothing else ever stands in a URL."""
    try:
        validate_repo_id(RepoRef.parse(repo.id).id)
    except (UsageError, HFValidationError):
        raise AccessDenied(
            f"{repo.id[:120]!r} is not a repo id", state=RepoState.MISSING, help=HELP[RepoState.MISSING]
        ) from None
    return repo


def _checked_sha(revision: str) -> str:
    if not fields.is_sha(revision):
        raise RevisionGone(f"{revision[:80]!r} is not a commit id", help="ask for the head first")
    return revision


def _valid_ref(ref: str) -> bool:
    return 0 < len(ref) <= 255 and ref.isprintable() and ".." not in ref and not set(ref) & set(" ~^:?*[\\")


def _quoted_ref(ref: str) -> str:
    if not _valid_ref(ref):
        raise RevisionGone(f"{ref[:80]!r} cannot be a ref", help="check --ref")
    return quote(ref, safe="")
