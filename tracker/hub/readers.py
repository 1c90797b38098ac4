"""Which reader tells a repo's history: the API for a few new revisions, git for many.

    with Histories(client, GitReader(endpoint, token)).history(repo, head=sha, known=...) as reading:
        for revision in reading.walk.revisions:
            reading.manifest(repo, revision.sha)

The API is asked for the newest commits first: one request, which is all there is to ask for when little is new,
and which tells whom git's names of people stand for. Whatever git cannot do (`GitUnavailable`) the API does, at
any point; where the API fails, git is tried. Weight headers and LFS content always come over HTTP.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import structlog

from storage.model import FileEntry, Manifest, RepoRef
from tracker.hub.answers import FAULT_HELP
from tracker.hub.client import HubClient
from tracker.hub.errors import GitUnavailable, HubError, Unreachable, UpstreamFault
from tracker.hub.history_api import FIRST_PAGE, Recent, walk_of
from tracker.hub.history_git import GitHistory, GitReader
from tracker.hub.interface import Walk

GIT_FROM = 20
"""New revisions from which on git is cheaper: the API takes a request for each tree and each small file."""

Known = Callable[[str], bool]
Place = Callable[[str], int | None]
Base = Callable[[], Manifest | None]
Submit = Callable[[Callable[[], Manifest]], Future[Manifest]]

log = structlog.get_logger("hubwatch.history")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked of a history."""

    repo: RepoRef
    head: str
    known: Known
    place: Place
    since: datetime | None
    only_head: bool
    base: Base
    paths: frozenset[str] | None
    wary: bool


@dataclass(slots=True)
class Reading:
    """One history, being read: the new revisions, and everything that can be asked about them.

    Shared by threads, as far as trees are asked for by one alone, in their order. ``name`` is the reader that
    tells the trees: ``git`` or ``api``.
    """

    walk: Walk
    client: HubClient
    _git: GitHistory | None = None
    _open_git: Callable[[], GitHistory] | None = None
    _last: Manifest | None = None
    """The tree told last: at first that of the revision before the new ones."""
    _last_revision: str | None = None
    """Which one that is; None stands for the one before the new ones."""
    _paths: frozenset[str] | None = None
    """The files of the newest revision, as another answer named them."""
    _wary: bool = False
    """Whether every tree of the API is held against a second answer."""
    _beside: dict[str, tuple[str | None, str | None]] = field(init=False)
    """The revisions before and after each of the new ones."""
    _coming: dict[str, Future[Manifest]] = field(default_factory=dict)
    """Trees that the API was asked for already, by revision."""
    _turn: threading.RLock = field(default_factory=threading.RLock)
    """Held while git is asked, which answers one thread at a time."""

    def __post_init__(self) -> None:
        """Note the order of the revisions."""
        shas = [revision.sha for revision in self.walk.revisions]
        # none at all where the ref went back to what is known
        self._beside = dict(zip(shas, zip([None, *shas], [*shas[1:], None], strict=False), strict=False))

    @property
    def name(self) -> str:
        """The reader in use."""
        return "git" if self._git is not None else "api"

    def manifest(self, repo: RepoRef, revision: str) -> Manifest:
        """See `Upstream.manifest`.

        Nothing in a list of files says that it is whole. One of the API is taken for that where it has all files
        of its neighbours, or all that another answer names; else another answer is asked for.
        """
        before, _ = self._beside.get(revision, (revision, None))
        if before != self._last_revision:
            self._last = None  # nothing is known of what it follows
        self._last = self._told(repo, revision)
        self._last_revision = revision
        return self._last

    def _told(self, repo: RepoRef, revision: str) -> Manifest:
        with self._turn:
            if self._git is not None:
                try:
                    return self._git.manifest(repo, revision)
                except GitUnavailable as error:
                    self._leave_git(error)
        try:
            return self._by_api(repo, revision)
        except (UpstreamFault, Unreachable) as fault:
            with self._turn:
                git = self._turn_to_git(fault)
                if git is None:
                    raise
                try:
                    return git.manifest(repo, revision)
                except GitUnavailable as error:
                    self._leave_git(error)
                    raise fault from None

    def coming(self, repo: RepoRef, revisions: Sequence[str], submit: Submit) -> None:
        """Have the trees that `manifest` will be asked for next asked for at once, where each takes a request."""
        if self._git is None:
            for revision in revisions:
                if revision not in self._coming:
                    self._coming[revision] = submit(partial(self.client.manifest, repo, revision))

    def _by_api(self, repo: RepoRef, revision: str) -> Manifest:
        asked = self._ask(repo, revision)
        del self._coming[revision]
        manifest = asked.result()
        if not self._is_whole(repo, revision, manifest):
            self.client.confirm(repo, revision, manifest)
        return manifest

    def _is_whole(self, repo: RepoRef, revision: str, manifest: Manifest) -> bool:
        """Whether what is known of a tree without asking speaks for it: see `manifest`."""
        here = manifest.files.keys()
        beside = self._beside.get(revision)
        if beside is None:
            return False
        _, after = beside
        if after is None:
            return self._paths is not None and self._paths == set(here)
        if self._wary or self._last is None or not self._last.files.keys() <= here:
            return False
        following = self._ask(repo, after)
        return following.exception() is None and following.result().files.keys() <= here

    def _ask(self, repo: RepoRef, revision: str) -> Future[Manifest]:
        """The answer to the question for a tree; an error is raised by who wants that very tree."""
        if revision not in self._coming:
            answer: Future[Manifest] = Future()
            try:
                answer.set_result(self.client.manifest(repo, revision))
            except HubError as error:
                answer.set_exception(error)
            self._coming[revision] = answer
        return self._coming[revision]

    def content(self, repo: RepoRef, revision: str, entry: FileEntry) -> bytes:
        """See `Upstream.content`."""
        with self._turn:
            if self._git is not None and self._git.has(entry):
                try:
                    return self._git.content(repo, revision, entry)
                except GitUnavailable as error:
                    self._leave_git(error)
        return self.client.content(repo, revision, entry)

    def at_hand(self, entry: FileEntry) -> bool:
        """Whether the content of a file takes no request: git brought it."""
        git = self._git
        return git is not None and git.has(entry)

    def header(self, repo: RepoRef, revision: str, entry: FileEntry, *, limit: int) -> bytes:
        """See `Upstream.header`."""
        return self.client.header(repo, revision, entry, limit=limit)

    def part(self, repo: RepoRef, revision: str, entry: FileEntry, *, start: int, stop: int) -> bytes:
        """See `Upstream.part`."""
        return self.client.part(repo, revision, entry, start=start, stop=stop)

    def _leave_git(self, error: GitUnavailable) -> None:
        self._git = self._open_git = None
        log.warning("history read by", reader="api", reason=error.reason, detail=error.message)

    def _turn_to_git(self, fault: UpstreamFault | Unreachable) -> GitHistory | None:
        """Git, opened after the API failed; None when it cannot help, or was tried before."""
        opener, self._open_git = self._open_git, None
        if opener is None:
            return None
        try:
            self._git = opener()
        except GitUnavailable as error:
            self._leave_git(error)
            return None
        log.warning("history read by", reader="git", reason="api_failed", detail=fault.message)
        return self._git


@dataclass(frozen=True, slots=True)
class Histories:
    """Opens histories. Shared by threads.

    Args:
        client: The API.
        git: The other reader; None reads by the API alone.
        git_from: New revisions from which on git is used.

    """

    client: HubClient
    git: GitReader | None = None
    git_from: int = field(default=GIT_FROM)

    @contextmanager
    def history(
        self,
        repo: RepoRef,
        *,
        head: str,
        known: Known,
        place: Place = lambda _: None,
        since: datetime | None = None,
        only_head: bool = False,
        base: Base = lambda: None,
        paths: frozenset[str] | None = None,
        wary: bool = False,
    ) -> Iterator[Reading]:
        """Walk from ``head`` to what is known (see `Upstream.walk`) by the better reader, and keep it open.

        ``place`` tells how many commits a known one ends, itself among them, and ``base`` gives a manifest that is
        known, whose files git need not bring again. ``paths`` are the files at ``head`` by another answer than its
        tree. ``wary`` takes no tree of the API at its word.
        """
        asked = _Question(
            repo=repo,
            head=head,
            known=known,
            place=place,
            since=since,
            only_head=only_head,
            base=base,
            paths=paths,
            wary=wary,
        )
        with ExitStack() as stack:
            yield self._begin(asked, stack)

    def _begin(self, asked: _Question, stack: ExitStack) -> Reading:
        try:
            recent = self.client.recent(asked.repo, head=asked.head, limit=1 if asked.only_head else FIRST_PAGE)
        except (UpstreamFault, Unreachable) as fault:
            return self._git_instead(asked, stack, fault)
        walk = walk_of(recent, known=asked.known, since=asked.since, only_head=asked.only_head)
        if self.git is None:
            return self._by_api(asked, stack, walk, recent.total, "git_off", tried=True)
        if not self._many(recent, walk):
            return self._by_api(asked, stack, walk, recent.total, "few_revisions", tried=False)
        try:
            reading = self._by_git(asked, stack, recent)
        except GitUnavailable as error:
            log.warning("git cannot tell", reason=error.reason, detail=error.message)
            return self._by_api(asked, stack, walk, recent.total, error.reason, tried=True)
        log.info("history read by", reader="git", reason="many_revisions", revisions=len(reading.walk.revisions))
        return reading

    def _many(self, recent: Recent, walk: Walk | None) -> bool:
        if walk is not None:
            return len(walk.revisions) >= self.git_from
        # how many are new is not known: at least one page, at most all
        return recent.total is None or recent.total >= self.git_from

    def _by_api(
        self, asked: _Question, stack: ExitStack, walk: Walk | None, total: int | None, reason: str, *, tried: bool
    ) -> Reading:
        try:
            walk = self._whole(asked, walk or self._walk(asked), total)
        except (UpstreamFault, Unreachable) as fault:
            if tried:
                raise
            return self._git_instead(asked, stack, fault)
        log.info("history read by", reader="api", reason=reason, revisions=len(walk.revisions))
        return Reading(
            walk,
            self.client,
            _open_git=None if tried else lambda: self._opened(asked, stack),
            _last=asked.base() if walk.met is not None else None,
            _paths=asked.paths,
            _wary=asked.wary,
        )

    def _walk(self, asked: _Question) -> Walk:
        return self.client.walk(
            asked.repo, head=asked.head, known=asked.known, since=asked.since, only_head=asked.only_head
        )

    def _whole(self, asked: _Question, walk: Walk, total: int | None) -> Walk:
        """The walk, if it adds up to all commits that the Hub counts, or else is told a second time.

        A list that lost a commit is still a list: a revision would never be seen, or a history taken for
        rewritten. It does not add up either where not all of the history is known, or where it has merges.

        Raises UpstreamFault where the two lists differ.
        """
        place = asked.place(walk.met) if walk.met is not None else None
        if total is None or place is None or place + len(walk.revisions) == total or self._walk(asked) == walk:
            return walk
        raise UpstreamFault(f"{asked.repo.id}: two lists of the same commits differ", help=FAULT_HELP)

    def _by_git(self, asked: _Question, stack: ExitStack, recent: Recent | None) -> Reading:
        git = self._opened(asked, stack)
        walk = git.walk(
            asked.repo,
            head=asked.head,
            known=asked.known,
            since=asked.since,
            only_head=asked.only_head,
            listed=recent.revisions if recent else (),
        )
        return Reading(walk, self.client, git, _paths=asked.paths, _wary=asked.wary)

    def _git_instead(self, asked: _Question, stack: ExitStack, fault: UpstreamFault | Unreachable) -> Reading:
        """Git, where the list of commits failed. Raises the API's error when git cannot tell either."""
        if self.git is None:
            raise fault
        try:
            reading = self._by_git(asked, stack, None)
        except GitUnavailable as error:
            log.warning("git cannot tell", reason=error.reason, detail=error.message)
            raise fault from None
        log.warning("history read by", reader="git", reason="api_failed", detail=fault.message)
        return reading

    def _opened(self, asked: _Question, stack: ExitStack) -> GitHistory:
        if self.git is None:
            raise GitUnavailable("git is off", reason="no_git")
        return stack.enter_context(self.git.open(asked.repo, head=asked.head, base=asked.base()))

    def refs(self, repo: RepoRef, *, by_git: bool = False) -> dict[str, str]:
        """Branches, tags and pull requests, see `Upstream.refs`; ``by_git`` where that can be, out of no quota."""
        if by_git and self.git is not None:
            try:
                return self.git.ls_remote(repo)
            except GitUnavailable as error:
                log.info("refs read by", reader="api", reason=error.reason)
        return self.client.refs(repo)
