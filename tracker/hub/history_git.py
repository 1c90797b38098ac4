"""History by git: every commit with its parents, every tree, and the small blobs, in a few requests.

    with GitReader(endpoint, token).open(repo, head=sha) as history:
        walk = history.walk(repo, head=sha, known=...)       # nothing is asked for: it came with `open`
        manifest = history.manifest(repo, revision)          # first use brings the blobs of many revisions at once

1. `git fetch --filter=blob:none` of the head by its id: all its commits and trees. By id, because a branch may
   move between two questions, and because what is fetched is then what was asked for, by hash.
2. The blobs of the new revisions' trees that are not known yet, by id, in one `git fetch --stdin` for up to
   `BATCH` of them; never one by one, and never behind our back.

All blobs, not only those that will be read: a tree names no sizes, and only the blob tells an LFS pointer from a
file. On the Hub that is little: what is above 10 MB is in LFS, and in recorded histories of model repos all
versions of all plain files take under 6 MB together (docs/decisions/0005-history-by-git.md). Where it is more than
the disk cap, the API reads on.

The result is what the API reader gives: same revisions in the same order (`git log`'s), same entries, same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from storage.model import FileEntry, Manifest, RepoRef, Revision
from tracker.hub import fields, history_api
from tracker.hub.answers import FAULT_HELP, plain
from tracker.hub.errors import Corrupt, FileGone, GitUnavailable, RevisionGone, TooLarge
from tracker.hub.files import CORRUPT_HELP, matches
from tracker.hub.git import HELP, Git
from tracker.hub.git_environment import GitLimits
from tracker.hub.git_objects import POINTER_LIMIT, Commit, Objects, parse_pointer
from tracker.hub.interface import Walk

BATCH = 10_000
"""Blobs asked for at once: half a megabyte of ids, below the size at which git sends a request in pieces."""
MAX_BLOBS = 300_000
"""Distinct blobs of one reading."""
MAX_REFS = 100_000
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--filter=blob:none")


class Blob(NamedTuple):
    """What the manifest says of a blob: the content's size, and its sha256 if the blob is an LFS pointer."""

    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class GitReader:
    """Reads repos of one Hub by git. Shared by threads.

    Args:
        endpoint: Where requests go, as for `HubClient`.
        token: Sent there only; None reads anonymously.
        limits: What one reading may cost.
        program: Where git is; by default found on PATH.

    """

    endpoint: str
    token: str | None = None
    limits: GitLimits = field(default_factory=GitLimits)
    program: str | None = None

    def __repr__(self) -> str:
        """The endpoint; whether there is a token, never which."""
        return f"GitReader({self.endpoint!r}, token={'set' if self.token else None})"

    @contextmanager
    def open(self, repo: RepoRef, *, head: str, base: Manifest | None = None) -> Iterator[GitHistory]:
        """Bring the commits and trees of ``head`` into a temporary repository: two requests.

        ``base`` is a manifest that is known; its blobs are not fetched again.

        Raises:
            GitUnavailable: Whatever went wrong.
            RateLimited: The server asks for a pause.

        """
        if not fields.is_sha(head) or len(head) != 40:
            raise GitUnavailable(
                f"{head[:64]!r} is no id that git can be asked for", reason="not_served", help=HELP
            )
        with self._git(repo) as git:
            git.remote(*_FETCH, "--end-of-options", "origin", head)
            known = (
                {entry.blob_id: Blob(entry.size, entry.lfs_sha256) for entry in base.files.values()}
                if base
                else {}
            )
            yield GitHistory(git, Objects(git), repo, head, known)

    def ls_remote(self, repo: RepoRef) -> dict[str, str]:
        """Branches, tags and pull-request refs as `Upstream.refs` gives them, in two requests of no API quota.

        An annotated tag stands for the commit it names. Raises as `open`.
        """
        with self._git(repo) as git:
            said = git.remote("ls-remote", "--quiet", "--end-of-options", "origin")
        return parse_refs(said)

    def _git(self, repo: RepoRef) -> Git:
        endpoint = self.endpoint.strip().rstrip("/")
        checked = RepoRef.parse(repo.id)
        return Git(f"{endpoint}/{checked.id}", self.token, self.limits, program=self.program)


def parse_refs(said: bytes) -> dict[str, str]:
    """Read what ``git ls-remote`` prints. Raises GitUnavailable when it makes no sense."""
    refs: dict[str, str] = {}
    for line in said.decode("utf-8", "replace").splitlines():
        sha, _, name = line.partition("\t")
        if not fields.is_sha(sha) or len(refs) >= MAX_REFS:
            raise GitUnavailable("the refs make no sense", reason="corrupt", help=HELP)
        if name.startswith(("refs/heads/", "refs/tags/", "refs/pr/")):
            refs[name.removesuffix("^{}")] = sha  # a tag's own object comes first, then what it names
    return refs


@dataclass(slots=True)
class GitHistory:
    """One repo's history, open. Belongs to one thread; what it raises beside `GitUnavailable` is as by the API."""

    git: Git
    objects: Objects
    repo: RepoRef
    head: str
    blobs: dict[str, Blob] = field(default_factory=dict)
    """What is known of blobs, by id: fetched ones, and those of the base."""
    _commits: dict[str, Commit] = field(default_factory=dict)
    _planned: list[str] = field(default_factory=list)
    """Revisions that are to come, oldest first."""
    _whole: set[str] = field(default_factory=set)
    _here: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)
    """Trees whose blobs are known."""

    def walk(
        self,
        repo: RepoRef,
        *,
        head: str,
        known: Callable[[str], bool],
        since: datetime | None = None,
        only_head: bool = False,
        listed: Sequence[Revision] = (),
    ) -> Walk:
        """See `Upstream.walk`; the same order, with the real parents.

        ``listed`` are revisions as the API lists them, newest first, from the head. The Hub names the account
        where git has the name that somebody set up, so that the author is taken from there, also for older
        commits of the same identity.
        """
        if head != self.head:
            raise GitUnavailable("another head than was fetched", reason="failed", help=HELP)
        most = history_api.MAX_COMMITS + 1
        said = self.git.local("rev-list", f"--max-count={most}", "--end-of-options", head)
        shas = said.decode("ascii", "replace").split()
        if not shas or shas[0] != head or not all(map(fields.is_sha, shas)):
            raise GitUnavailable("the commits do not start with the head", reason="corrupt", help=HELP)
        commits: list[Commit] = []
        met, horizon = None, False
        for number, sha in enumerate(shas, start=1):
            if known(sha):
                met = sha
                break
            commit = self._commit(sha)
            commits.append(commit)
            if only_head or (since is not None and commit.committed_at < since) or number >= most - 1:
                horizon = number < len(shas)
                break
        self._planned = [commit.sha for commit in reversed(commits)]
        return Walk(revisions=_revisions(commits, listed)[::-1], met=met, horizon=horizon)

    def manifest(self, repo: RepoRef, revision: str) -> Manifest:
        """See `Upstream.manifest`."""
        self._settle(revision)
        files: dict[str, FileEntry] = {}
        for path, oid in self._files(revision):
            if oid not in self.blobs:
                raise GitUnavailable(f"blob {oid[:12]} is not known", reason="failed", help=HELP)
            size, sha256 = self.blobs[oid]
            # a name that is no UTF-8 comes over the API with replacement characters too
            name = fields.safe_path(path.decode("utf-8", "replace"))
            entry = FileEntry(path=name, size=size, blob_id=oid, lfs_sha256=sha256)
            if files.setdefault(name, entry) != entry:
                raise GitUnavailable("the tree lists a path twice", reason="corrupt", help=HELP)
        return Manifest(files=files)

    def has(self, entry: FileEntry) -> bool:
        """Whether the bytes of a file are here: it is in git, and was fetched."""
        return entry.lfs_sha256 is None and entry.blob_id in self._here

    def content(self, repo: RepoRef, revision: str, entry: FileEntry) -> bytes:
        """See `Upstream.content`; for files that `has` says are here, without a request."""
        if fields.is_unsafe(entry.path):
            raise FileGone(f"{repo.id}: a file has a name that cannot be asked for", help=FAULT_HELP)
        if not self.has(entry):
            raise GitUnavailable(f"{plain(entry.path)} is not in the clone", reason="not_served", help=HELP)
        body = self.objects.read(entry.blob_id, "blob", entry.size)
        if not matches(body, entry):
            raise Corrupt(f"{repo.id}: {plain(entry.path)} is not what the tree lists", help=CORRUPT_HELP)
        return body

    def prefetch(self, revisions: Sequence[str]) -> int:
        """Bring what is not known of the blobs of these revisions, in order, until `BATCH` blobs are on the way.

        Returns how many revisions are then whole: at least one, all of them where they fit into one batch. The
        blobs of a single revision with more than that come in several.

        Raises:
            GitUnavailable: Whatever went wrong; then this history is of no more use.
            TooLarge: The first revision has too many files; a later one waits for its turn.

        """
        missing: dict[str, None] = {}
        count = 0
        for revision in revisions:
            if len(missing) >= BATCH:
                break
            try:
                for _, oid in self._files(revision, seen=self._seen):
                    if oid not in self.blobs:
                        missing[oid] = None
            except TooLarge:
                if not count:
                    raise
                break
            count += 1
        if len(missing) + len(self.blobs) > MAX_BLOBS:
            raise GitUnavailable(f"more than {MAX_BLOBS} versions of files", reason="too_large", help=HELP)
        self._bring(list(missing))
        self._whole.update(revisions[:count])
        return count

    def _settle(self, revision: str) -> None:
        """See to it that all blobs of a revision are known, and of those that will be asked for after it."""
        if revision in self._whole:
            return
        if self._planned[:1] == [revision]:
            del self._planned[: self.prefetch(self._planned)]
        else:
            self.prefetch([revision])

    def _bring(self, oids: Sequence[str]) -> None:
        """Fetch blobs that are not here, and read what the manifest says of them."""
        sizes = dict(self.objects.sizes(oids))  # all are here already if the server knows no filter
        absent = [oid for oid in oids if oid not in sizes]
        if absent:
            self.objects.close()
            for start in range(0, len(absent), BATCH):
                asked = "".join(f"{oid}\n" for oid in absent[start : start + BATCH])
                self.git.remote(*_FETCH, "--stdin", "--end-of-options", "origin", stdin=asked.encode("ascii"))
            sizes |= self.objects.sizes(absent)
        for oid in oids:
            if oid not in sizes:
                raise GitUnavailable(f"blob {oid[:12]} did not come", reason="corrupt", help=HELP)
            self.blobs[oid] = self._blob(oid, sizes[oid])
            self._here.add(oid)

    def _blob(self, oid: str, size: int) -> Blob:
        pointer = parse_pointer(self.objects.read(oid, "blob", size)) if size <= POINTER_LIMIT else None
        return Blob(pointer.size, pointer.sha256) if pointer else Blob(size, None)

    def _commit(self, sha: str) -> Commit:
        if sha not in self._commits:
            self._commits[sha] = self.objects.commit(sha)
        return self._commits[sha]

    def _files(self, revision: str, *, seen: set[str] | None = None) -> Iterator[tuple[bytes, str]]:
        if not fields.is_sha(revision) or len(revision) != 40:
            raise RevisionGone(f"{revision[:80]!r} is not a commit id", help="ask for the head first")
        return self.objects.files(self._commit(revision).tree, most=history_api.MAX_FILES, seen=seen)


def _revisions(commits: Sequence[Commit], listed: Sequence[Revision]) -> tuple[Revision, ...]:
    """Commits as revisions, named as the API names them where that is known. Newest first, as both are given.

    Raises:
        GitUnavailable: The API lists other commits, another order or other dates: ids depend on these.

    """
    for commit, item in zip(commits, listed, strict=False):
        if (commit.sha, commit.committed_at) != (item.sha, item.committed_at):
            raise GitUnavailable(f"git and the API differ at {item.sha[:12]}", reason="differs", help=HELP)
    told = {item.sha: item for item in listed}
    accounts: dict[bytes, str] = {}
    for commit in commits:
        if commit.sha in told and ", " not in told[commit.sha].author:
            accounts.setdefault(commit.identity, told[commit.sha].author)
    return tuple(
        Revision(
            sha=commit.sha,
            committed_at=commit.committed_at,
            author=told[commit.sha].author if commit.sha in told else accounts.get(commit.identity, commit.author),
            title=told[commit.sha].title if commit.sha in told else commit.title,
            parents=commit.parents,
        )
        for commit in commits
    )
