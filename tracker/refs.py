"""Branches, tags and pull requests: what a pin by name gives today, and which weights wait unmerged.

The first reading of a repo's refs is where things stand and tells nothing. Later ones are held against it:

* a tag or another branch than the followed one points elsewhere: ``ref.moved``
* it is gone: ``ref.removed``, until it is there again
* a pull request brings weights that main never had: ``ref.pr``, until it is gone or main has them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from storage import history, refs
from storage.database import Database, Transaction
from storage.model import Advisory, Change, Manifest, RepoRef, Watch
from tracker.hub.errors import AccessDenied, FileGone, RevisionGone
from tracker.hub.interface import Upstream
from tracker.snapshot.kinds import is_weight
from tracker.state_advisories import Begun, open_states, write

HEADS, TAGS, PULLS = "refs/heads/", "refs/tags/", "refs/pr/"
MAX_TREES = 8
"""Pull requests whose tree is read at one time; the others wait for the next."""
MAX_WALKS = 8
"""Branches that are asked at one time whether they only moved forward."""


@dataclass(slots=True)
class RefKeeper:
    """Reads a repo's refs and keeps what they say."""

    upstream: Upstream
    database: Database
    clock: Callable[[], datetime]
    read: Callable[[RepoRef], dict[str, str]]
    """What tells the refs, by their full names."""

    def look(self, watch: Watch, source: RepoRef) -> int:
        """Read the refs: one request, and one for each pull request that is new or moved. Returns what opened.

        Raises HubError; then nothing was kept.
        """
        now = self.read(source)
        with self.database.snapshot() as tx:
            known = refs.known(tx, watch.repo)
        if not known:  # a repo has one ref at least: these were never read
            self._keep(watch, now, [])
            return 0
        with self.database.snapshot() as tx:
            origins = {
                fact["ref"]: str(fact.get("origin"))
                for item in open_states(tx, watch, "ref.moved")
                if (fact := item.findings[0].finding.change.facts)
            }
        begun = [*self._moved(watch, source, known, now, origins), *_removed(watch, known, now)]
        kept = dict(now)
        waiting = [name for name in sorted(now) if name.startswith(PULLS) and known.get(name) != now[name]]
        for name in waiting[:MAX_TREES]:
            found = self._pull_request(watch, source, name, now[name])
            if found is not None:
                begun.append(found)
        for name in waiting[MAX_TREES:]:
            kept.pop(name)
            kept.update({name: known[name]} if name in known else {})
        return self._keep(watch, kept, begun, seen=now)

    def _keep(
        self, watch: Watch, kept: Mapping[str, str], begun: list[Begun], seen: Mapping[str, str] | None = None
    ) -> int:
        with self.database.transaction() as tx:
            head = history.head(tx, watch.repo)
            main = history.manifest(tx, watch.repo, head.revision.sha) if head else Manifest(files={})
            opened = write(tx, watch, begun, ended=lambda item: _ended(item, seen or kept, main), now=self.clock())
            refs.keep(tx, watch.repo, kept)
        return opened

    def _moved(
        self,
        watch: Watch,
        source: RepoRef,
        known: Mapping[str, str],
        now: Mapping[str, str],
        origins: Mapping[str, str],
    ) -> Iterator[Begun]:
        """The refs that point elsewhere; one that is back where it began only ends what was said of it."""
        walks = MAX_WALKS
        for name in _pinnable(watch, known):
            old, new = known[name], now.get(name)
            origin = origins.get(name, old)
            if new in (None, old, origin):
                continue
            forward = False
            if name.startswith(HEADS) and walks:
                walks -= 1
                forward = self._descends(source, old, new)
            how = "moved on" if forward else "was moved"
            yield Begun(
                change=Change(
                    cls="ref.moved",
                    path="",
                    summary=f"{_short(name)} {how} from {old[:7]} to {new[:7]}",
                    before=old,
                    after=new,
                    facts={"ref": name, "forward": forward, "origin": origin},
                ),
                key=f"moved:{name}:{new}",
                sha=old,
            )

    def _descends(self, source: RepoRef, old: str, new: str) -> bool:
        """Whether a branch only gained commits."""
        try:
            return self.upstream.walk(source, head=new, known=frozenset({old}).__contains__).met == old
        except (RevisionGone, AccessDenied):
            return False

    def _pull_request(self, watch: Watch, source: RepoRef, name: str, sha: str) -> Begun | None:
        """What a pull request brings that main does not hold and never held."""
        try:
            tree = self.upstream.manifest(source, sha)
        except (RevisionGone, FileGone):
            return None
        with self.database.snapshot() as tx:
            brought = {
                path: entry.content_key
                for path, entry in sorted(tree.files.items())
                if is_weight(path) and not _held(tx, watch.repo, path, entry.content_key)
            }
        if not brought:
            return None
        paths = list(brought)
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        return Begun(
            change=Change(
                cls="ref.pr",
                path=paths[0],
                summary=f"{_short(name)}, not merged, brings weights: {paths[0][:120]}{more}",
                after={"sha": sha, "files": dict(list(brought.items())[:100])},
                facts={"ref": name, "paths": paths[:1_000]},
            ),
            key=f"pr:{name}:{sha}",
            sha=sha,
        )


def _held(tx: Transaction, repo: RepoRef, path: str, content_key: str) -> bool:
    """Whether main has, or once had, this content under this path."""
    versions = history.file_versions(tx, repo, path)
    return any(entry is not None and entry.content_key == content_key for _, entry in versions)


def _pinnable(watch: Watch, known: Mapping[str, str]) -> Iterator[str]:
    """The refs that people pin by name, but for the one whose every commit is read anyway."""
    followed = watch.ref if watch.ref.startswith("refs/") else f"{HEADS}{watch.ref}"
    yield from (name for name in sorted(known) if name.startswith((HEADS, TAGS)) and name != followed)


def _removed(watch: Watch, known: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Begun]:
    for name in _pinnable(watch, known):
        if name not in now:
            old = known[name]
            yield Begun(
                change=Change(
                    cls="ref.removed",
                    path="",
                    summary=f"{_short(name)}, which stood at {old[:7]}, is gone",
                    before=old,
                    facts={"ref": name},
                ),
                key=f"removed:{name}",
                sha=old,
            )


def _ended(advisory: Advisory, now: Mapping[str, str], main: Manifest) -> bool:
    """Whether what an open advisory says of a ref is no longer so."""
    change = advisory.findings[0].finding.change
    name = change.facts.get("ref")
    if not isinstance(name, str):
        return False
    match advisory.cls:
        case "ref.moved":
            return bool(now.get(name) != change.after)
        case "ref.removed":
            return name in now
        case "ref.pr":
            told = change.after if isinstance(change.after, dict) else {}
            brought = told.get("files") or {}
            held = {path: entry.content_key for path, entry in main.files.items()}
            merged = bool(brought) and all(held.get(path) == key for path, key in brought.items())
            return merged or now.get(name) != str(told.get("sha"))
    return False


def _short(name: str) -> str:
    for prefix, what in ((TAGS, "tag"), (HEADS, "branch"), (PULLS, "pull request")):
        if name.startswith(prefix):
            return f"{what} {name.removeprefix(prefix)[:120]}"
    return name[:120]
