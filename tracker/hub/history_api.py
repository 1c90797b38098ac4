"""History by the Hub's API: commit pages, and one tree per revision.

The API names no parents: the listing's order stands in for them, and every revision says so
(``parents_unknown``). Good for a few new revisions; for many, git is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from storage.model import FileEntry, Json, Manifest, RepoRef, Revision
from tracker.hub import fields
from tracker.hub.answers import FAULT_HELP
from tracker.hub.errors import TooLarge, UpstreamFault
from tracker.hub.interface import Walk
from tracker.hub.paging import Page, pages
from tracker.hub.wire import Wire

FIRST_PAGE = 100
"""Commits asked for first: cheap when one is new, and most repos have no more."""
FULL_PAGE = 1_000
"""Commits a page when the first did not reach what is known: the most the Hub gives."""
MAX_COMMITS = 100_000
MAX_FILES = 200_000
SIBLINGS = "siblings"
"""What the Hub calls the files that a model's info names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The newest commits of a head, newest first, as one page of the list gives them.

    ``more`` says that there are older ones, ``total`` how many commits there are in all, if the Hub said so.
    """

    revisions: tuple[Revision, ...]
    more: bool
    total: int | None


def read_recent(wire: Wire, repo: RepoRef, *, head: str, limit: int) -> Recent:
    """The first page of a head's commits, in one request. Raises UpstreamFault when it makes no sense."""
    for page in pages(wire, _path(repo, head), [("limit", str(limit))]):
        revisions = tuple(map(_revision, page.items))
        _check_start(repo, head, revisions)
        _check_whole(repo, page, len(revisions))
        return Recent(revisions=revisions, more=page.more, total=page.total)
    raise UpstreamFault(f"{repo.id}: no page of commits", help=FAULT_HELP)


def read_walk(
    wire: Wire,
    repo: RepoRef,
    *,
    head: str,
    known: Callable[[str], bool],
    since: datetime | None,
    only_head: bool,
) -> Walk:
    """See `Upstream.walk`. Beyond `MAX_COMMITS` the rest is left unread and ``horizon`` says so."""
    listed = _commits(wire, repo, head, first=1 if only_head else FIRST_PAGE)
    walk = cut(listed, known=known, since=since, only_head=only_head)
    return walk or Walk(revisions=(), met=None)


def walk_of(
    recent: Recent, *, known: Callable[[str], bool], since: datetime | None, only_head: bool
) -> Walk | None:
    """The walk, if it ends within these commits; None when older ones belong to it."""
    count = len(recent.revisions)
    listed = ((revision, recent.more or at < count) for at, revision in enumerate(recent.revisions, start=1))
    return cut(listed, known=known, since=since, only_head=only_head, whole=not recent.more)


def cut(
    listed: Iterable[tuple[Revision, bool]],
    *,
    known: Callable[[str], bool],
    since: datetime | None,
    only_head: bool,
    whole: bool = True,
) -> Walk | None:
    """The walk along commits, newest first, each with whether older ones follow: see `Upstream.walk`.

    None when the commits end before the walk does, and ``whole`` says that they are not all.
    """
    newest_first: list[Revision] = []
    for revision, more in listed:
        if known(revision.sha):
            return Walk(revisions=tuple(reversed(newest_first)), met=revision.sha)
        newest_first.append(revision)
        old = since is not None and revision.committed_at < since
        if only_head or old or len(newest_first) >= MAX_COMMITS:
            return Walk(revisions=tuple(reversed(newest_first)), met=None, horizon=more)
    return Walk(revisions=tuple(reversed(newest_first)), met=None) if whole else None


def _path(repo: RepoRef, head: str) -> str:
    return f"/api/models/{repo.id}/commits/{head}"


def _check_start(repo: RepoRef, head: str, revisions: Sequence[Revision]) -> None:
    if not revisions or revisions[0].sha != head:
        raise UpstreamFault(f"{repo.id}: the commits of {head[:12]} do not start with it", help=FAULT_HELP)


def _check_whole(repo: RepoRef, page: Page, so_far: int) -> None:
    """Refuse a list that ends before all of its commits were told."""
    if not page.more and page.total is not None and so_far < page.total:
        raise UpstreamFault(f"{repo.id}: the list of commits leaves some out", help=FAULT_HELP)


def _commits(wire: Wire, repo: RepoRef, head: str, *, first: int) -> Iterator[tuple[Revision, bool]]:
    """Commits from ``head`` back, each with whether older ones follow.

    The list is numbered by pages of one size, so that the larger pages start again at the head; what was
    given already is left out.
    """
    given: set[str] = set()
    path = _path(repo, head)
    for limit, most in ((first, 1), (FULL_PAGE, None)):
        listed: set[str] = set()
        more = False
        for page in islice(pages(wire, path, [("limit", str(limit))]), most):
            revisions = [_revision(item) for item in page.items]
            if not listed:
                _check_start(repo, head, revisions)
            if listed.issuperset(revision.sha for revision in revisions):
                raise UpstreamFault(f"{repo.id}: a page of commits brings nothing new", help=FAULT_HELP)
            fresh = [revision for revision in revisions if revision.sha not in given]
            for names in (listed, given):
                names.update(revision.sha for revision in revisions)
            _check_whole(repo, page, len(listed))
            more = page.more
            for place, revision in enumerate(fresh, start=1):
                yield revision, more or place < len(fresh)
        if not more:
            return


def _revision(item: Json) -> Revision:
    if not isinstance(item, dict):
        raise UpstreamFault("the Hub listed a commit that is none", help=FAULT_HELP)
    return Revision(
        sha=fields.sha(item.get("id"), "commit id"),
        committed_at=fields.moment(item.get("date")) or fields.EPOCH,
        author=fields.authors(item.get("authors")),
        title=fields.text(item.get("title"), fields.TITLE_LIMIT),
        parents_unknown=True,
    )


def read_manifest(wire: Wire, repo: RepoRef, revision: str) -> Manifest:
    """See `Upstream.manifest`.

    Folders and submodules are no files and left out; ``xetHash`` may appear without a commit and is not read.

    Raises:
        TooLarge: More than `MAX_FILES` files.
        UpstreamFault: An entry makes no sense, or one path is listed twice with different contents.

    """
    files: dict[str, FileEntry] = {}
    path = f"/api/models/{repo.id}/tree/{revision}"
    for page in pages(wire, path, [("recursive", "true"), ("expand", "false")]):
        for entry in filter(None, map(_file, page.items)):
            if files.setdefault(entry.path, entry) != entry:
                raise UpstreamFault(f"{repo.id}: the tree lists a path twice", help=FAULT_HELP)
        if len(files) > MAX_FILES:
            raise TooLarge(
                f"{repo.id}: more than {MAX_FILES} files", help="repos of this size are not read; remove the watch"
            )
    return Manifest(files=files)


def read_paths(wire: Wire, repo: RepoRef, revision: str) -> frozenset[str]:
    """The paths of a revision's files as the model's info names them; empty when it names none.

    An answer about another commit (some mirrors know only the newest) names none of this one.

    Another answer than the tree, to hold it against.
    """
    path = f"/api/models/{repo.id}/revision/{revision}"
    info = wire.get(path, [("expand", "sha"), ("expand", SIBLINGS)]).value
    if not isinstance(info, Mapping) or info.get("sha") != revision:
        return frozenset()
    return paths_of(info) or frozenset()


def paths_of(info: Mapping[str, Json]) -> frozenset[str] | None:
    """The paths of the files that a model's info names; None when it does not say."""
    siblings = info.get(SIBLINGS)
    if not isinstance(siblings, list):
        return None
    return frozenset(fields.safe_path(item.get("rfilename")) for item in siblings if isinstance(item, Mapping))


def _file(item: Json) -> FileEntry | None:
    if not isinstance(item, Mapping):
        raise UpstreamFault("the Hub listed a file that is none", help=FAULT_HELP)
    if item.get("type") != "file":
        return None
    lfs = item.get("lfs")
    if lfs is not None and not isinstance(lfs, Mapping):
        raise UpstreamFault("the Hub listed an LFS file without its facts", help=FAULT_HELP)
    return FileEntry(
        path=fields.safe_path(item.get("path")),
        size=fields.size(lfs.get("size", item.get("size")) if lfs else item.get("size"), "file size"),
        blob_id=fields.sha(item.get("oid"), "blob id"),
        lfs_sha256=fields.sha256(lfs.get("oid"), "LFS hash") if lfs else None,
    )
