"""Other repos that a repo names: the code it takes from them, the base model it descends from.

They are read without a token, one level deep and at most eight of a kind: ours must never read on a
stranger's behalf. What cannot be seen that way is left as it was known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from storage import history, refs
from storage.database import Database
from storage.errors import UsageError
from storage.model import Advisory, Change, Head, RepoRef, RepoState, Revision, Snapshot, Watch, digest
from storage.refs import RelatedRepo
from tracker.diff.lineage import PATHS, Difference, Relation, differences, relation_of, shares_weights
from tracker.diff.values import capped, examples, short
from tracker.hub.errors import AccessDenied, RevisionGone
from tracker.hub.interface import Upstream
from tracker.loader import Loader
from tracker.snapshot.card import base_models
from tracker.snapshot.code import AutoMap, auto_maps
from tracker.state_advisories import Begun, open_states, write

MAX_REPOS = 8
"""Other repos of a kind that are looked at."""
SECONDS = 60.0
"""For all of one repo's related reads together."""
CODE, BASE = "code", "base"
CROSS_REPO, DIVERGED, END_TOKEN = "code.cross_repo", "lineage.diverged", "tokens.eos"


class Anonymous(Upstream, Protocol):
    """An upstream that sends no token."""

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Put several calls under one deadline."""
        ...


@dataclass(slots=True)
class RelatedKeeper:
    """Looks at the repos that a watched one names. ``loader`` reads through the same anonymous upstream."""

    upstream: Anonymous
    database: Database
    loader: Loader
    clock: Callable[[], datetime]

    def look(self, watch: Watch) -> int:
        """Look at what the newest landed revision names; returns how many advisories were opened.

        Nothing is asked for a repo that names no other. Raises HubError; what was kept until then stays.
        """
        with self.database.snapshot() as tx:
            tip = history.head(tx, watch.repo)
        if tip is None:
            return 0
        here = self.loader.stored(watch.repo, tip.revision.sha)
        with self.upstream.within(SECONDS):
            return self._look_at_code(watch, here) + self._look_at_base(watch, here)

    # --- code --------------------------------------------------------------------------------------

    def _look_at_code(self, watch: Watch, here: Snapshot) -> int:
        named = _code_repos(watch.repo, here)
        with self.database.snapshot() as tx:
            known = refs.related(tx, watch.repo, CODE)
            origins = {
                str(fact["repo"]): fact.get("origin")
                for item in open_states(tx, watch, CROSS_REPO)
                if (fact := item.findings[0].finding.change.facts)
            }
        if not named and not known:
            return 0
        seen: dict[str, RelatedRepo] = {}
        begun: list[Begun] = []
        for target, item in named.items():
            before = known.get(target)
            now = self._seen(watch.repo, target) or before
            if now is None:
                continue
            seen[target] = now
            if before is not None and now.head and before.head and now.head != before.head:
                origin = origins.get(target) or before.head
                if origin != now.head or now.hub_id != before.hub_id:
                    begun.append(_moved(watch, target, item, before, now, str(origin)))
        heads = {target: item.head for target, item in seen.items()}
        with self.database.transaction() as tx:
            opened = write(tx, watch, begun, ended=lambda item: _code_ended(item, heads), now=self.clock())
            refs.keep_related(tx, watch.repo, CODE, seen)
        return opened

    def _seen(self, asker: RepoRef, target: str) -> RelatedRepo | None:
        """Where another repo stands; None where it cannot be seen by everybody."""
        repo = _parsed(target, asker.endpoint)
        try:
            head = self.upstream.head(repo) if repo else None
        except (RevisionGone, AccessDenied):
            return None
        if head is None or head.state not in {RepoState.OK, RepoState.RENAMED} or head.sha is None:
            return None
        return RelatedRepo(hub_id=head.hub_id, head=head.sha)

    # --- base model --------------------------------------------------------------------------------

    def _look_at_base(self, watch: Watch, here: Snapshot) -> int:
        relation = relation_of(here)
        names = [name for name in base_models(here) if name.lower() != watch.repo.id.lower()]
        with self.database.snapshot() as tx:
            known = refs.related(tx, watch.repo, BASE)
            standing = {
                (cls, str(item.context.get("state")))
                for cls in (DIVERGED, END_TOKEN)
                for item in open_states(tx, watch, cls)
            }
            last = refs.schedule(tx, watch.repo, "related")
        same_here = last is not None and last.head == here.revision.sha
        if not names and not known and not standing:
            return 0
        seen: dict[str, RelatedRepo] = {}
        begun: list[Begun] = []
        compared: set[str] = set()
        for name in names[:1] if relation is not Relation.DERIVED else ():
            unless = known[name].head if same_here and name in known else None
            read = self._read_base(watch.repo, name, here, relation, unless=unless)
            if read is None:
                continue
            base, found = read
            seen[name] = base
            if found is None:
                continue
            compared.add(name)
            begun += _differences(watch, here, name, base, found)
        keys = {item.key for item in begun}
        with self.database.transaction() as tx:
            opened = write(
                tx,
                watch,
                [item for item in begun if (item.change.cls, item.key) not in standing],
                ended=lambda item: _lineage_ended(item, names, compared, keys, relation),
                now=self.clock(),
            )
            refs.keep_related(tx, watch.repo, BASE, seen or {k: v for k, v in known.items() if k in names})
        return opened

    def _read_base(
        self, asker: RepoRef, name: str, here: Snapshot, relation: Relation, *, unless: str | None
    ) -> tuple[RelatedRepo, tuple[Difference, ...] | None] | None:
        """The base as it stands now and what differs from it; None where it cannot be read by everybody.

        Nothing is compared, and the second is None, while the base's head is still ``unless``.
        """
        repo = _parsed(name, asker.endpoint)
        if repo is None:
            return None
        try:
            head = self.upstream.head(repo)
            if head.state not in {RepoState.OK, RepoState.RENAMED} or head.sha is None:
                return None
            if head.sha == unless:
                return RelatedRepo(hub_id=head.hub_id, head=head.sha), None
            manifest = self.upstream.manifest(_named(repo, head), head.sha)
            base = self.loader.some(_named(repo, head), _revision(head), manifest, PATHS)
        except (RevisionGone, AccessDenied):
            return None
        if shares_weights(manifest, here.manifest):
            relation = Relation.SAME
        return RelatedRepo(hub_id=head.hub_id, head=head.sha), differences(base, here, relation)


def _parsed(name: str, endpoint: str) -> RepoRef | None:
    try:
        return RepoRef.parse(name, endpoint=endpoint)
    except UsageError:
        return None


def _named(repo: RepoRef, head: Head) -> RepoRef:
    owner, _, name = head.canonical.partition("/")
    return replace(repo, owner=owner, name=name) if name else repo


def _revision(head: Head) -> Revision:
    assert head.sha is not None  # noqa: S101 - the caller has looked
    at = head.last_modified or head.created_at or datetime.fromtimestamp(0, UTC)
    return Revision(sha=head.sha, committed_at=at, author="", title="")


# --- what is said ----------------------------------------------------------------------------------


def _code_repos(own: RepoRef, here: Snapshot) -> dict[str, AutoMap]:
    """The other repos whose code a revision names, with the first place that names each."""
    found: dict[str, AutoMap] = {}
    for item in auto_maps(here):
        for target in item.repos:
            if target.lower() != own.id.lower():
                found.setdefault(target, item)
    return {target: found[target] for target in sorted(found)[:MAX_REPOS]}


def _moved(watch: Watch, target: str, item: AutoMap, before: RelatedRepo, now: RelatedRepo, origin: str) -> Begun:
    old, new = str(before.head), str(now.head)
    replaced = before.hub_id is not None and now.hub_id is not None and now.hub_id != before.hub_id
    how = "is another repo now" if replaced else f"moved from {old[:7]} to {new[:7]}"
    return Begun(
        change=Change(
            cls=CROSS_REPO,
            path=item.path,
            pointer=item.pointer,
            summary=f"{short(item.path, limit=80)} takes code from {short(target, limit=120)}, which {how}",
            before=old,
            after=new,
            facts={"repo": target, "moved": True, "replaced": replaced, "origin": origin, "paths": [item.path]},
        ),
        key=f"{CODE}:{target}",
        sha=new,
        context={
            "references": [{"type": "WEB", "url": f"{watch.repo.endpoint}/{target}/commit/{new}"}],
        },
    )


def _code_ended(advisory: Advisory, heads: Mapping[str, str | None]) -> bool:
    """Whether the repo moved on from there, went back, or is named no longer."""
    if advisory.cls != CROSS_REPO:
        return False
    change = advisory.findings[0].finding.change
    return bool(heads.get(str(change.facts.get("repo"))) != change.after)


def _differences(
    watch: Watch, here: Snapshot, name: str, base: RelatedRepo, found: tuple[Difference, ...]
) -> Iterator[Begun]:
    """All that differs as one; an end token, which makes generation run on or stop short, by itself as well."""
    if found:
        yield _diverged(DIVERGED, watch, here, name, base, found)
    ends = tuple(item for item in found if item.key == "eos_token_id")
    if ends:
        yield _diverged(END_TOKEN, watch, here, name, base, ends)


def _diverged(
    cls: str, watch: Watch, here: Snapshot, name: str, base: RelatedRepo, found: tuple[Difference, ...]
) -> Begun:
    paths = sorted({item.path for item in found})
    told = ", ".join(f"{item.key}{_values(item)}" for item in found[:4])
    return Begun(
        change=Change(
            cls=cls,
            path=paths[0],
            pointer=f"/{found[0].key}" if len(found) == 1 else None,
            summary=f"differs from its base {short(name, limit=80)} in {short(told, limit=180)}",
            before={item.key: capped(item.base) for item in found},
            after={item.key: capped(item.here) for item in found},
            facts={
                "base": name,
                "base_sha": base.head,
                "paths": paths,
                "keys": examples(f"{item.path}#/{item.key}" for item in found),
            },
        ),
        key=f"{BASE}:{name}:{digest([[item.path, item.key, item.base, item.here] for item in found])}",
        sha=here.revision.sha,
        context={"references": [{"type": "WEB", "url": f"{watch.repo.endpoint}/{name}/commit/{base.head}"}]},
    )


def _values(item: Difference) -> str:
    if item.key == "chat_template":
        return ""
    return f" ({short(item.base, limit=24)} there, {short(item.here, limit=24)} here)"


def _lineage_ended(
    advisory: Advisory, names: list[str], compared: set[str], keys: set[str], relation: Relation
) -> bool:
    """Whether the base is named no longer, is expected to differ, or was read and differs otherwise or not."""
    if advisory.cls not in {DIVERGED, END_TOKEN}:
        return False
    base = str(advisory.findings[0].finding.change.facts.get("base"))
    if base not in names or relation is Relation.DERIVED:
        return True
    return base in compared and str(advisory.context.get("state")) not in keys
