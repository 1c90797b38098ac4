"""A backfill by a scheduler and two workers of which one or another is killed again and again.

What they leave is held against what a single undisturbed process makes of the same repos: the same revisions, the
same changes, the same advisories under the same ids, the same events, each of them once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storage import advisories, changes, history
from storage.database import Database
from storage.model import RepoRef
from tests.support.command import Hubwatch
from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tests.support.processes import Daemon, Fleet
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content

ROLES = ("scheduler", "worker", "worker")
QUICK = {"HUBWATCH_POLL_FLOOR": "1", "HUBWATCH_POLL_DEFAULT": "1", "HUBWATCH_PORT": "0"}
_NEVER = datetime(2000, 1, 1, tzinfo=UTC)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much there is to read, and how often somebody dies meanwhile. Everything follows from the seed."""

    seed: int
    revisions: int
    repos: int
    kills: int
    patience_s: float = 600.0  # for the next kill to come due, and for the end


def fill(hub: LoopbackHub, plan: Plan) -> list[str]:
    """Commit the plan's revisions, spread over its repos; returns the repos' names."""
    chance = random.Random(plan.seed)  # noqa: S311
    names = [f"owner{number % 3}/model{number}" for number in range(plan.repos)]
    for number, name in enumerate(names):
        repo = hub.create(name)
        repo.commit(
            {"config.json": llama(), "model.safetensors": weights(), "tokenizer_config.json": tokenizer_config()},
            title="Upload",
        )
        share = plan.revisions // plan.repos + (number < plan.revisions % plan.repos)
        for turn in range(1, share):
            repo.commit(_edit(chance, turn), title=f"n {turn}", author=chance.choice(("alice", "bob")))
    return names


def _edit(chance: random.Random, turn: int) -> dict[str, Content]:
    """What a revision changes: values that come, go and come back, so that advisories open, close and return."""
    match chance.randrange(6):
        case 0:
            return {"config.json": llama(rope_theta=1000.0 * chance.randrange(1, 4))}
        case 1:
            return {"config.json": llama(num_hidden_layers=chance.randrange(2, 5))}
        case 2:
            return {"tokenizer_config.json": tokenizer_config(chance.choice((TEMPLATE, THINKING)))}
        case 3:
            return {"model.safetensors": weights(salt=str(chance.randrange(3)))}
        case 4:
            return {"pytorch_model.bin": chance.choice((None, b"not a pickle"))}
        case _:
            return {"README.md": f"---\nlicense: mit\n---\nRevision {turn}\n"}


def calm(hub: LoopbackHub, names: list[str], home: Path) -> dict[str, Any]:
    """What one undisturbed ``hubwatch poll`` makes of the repos, on SQLite."""
    home.mkdir(parents=True)
    hubwatch = Hubwatch(hub.url, f"sqlite:///{home}/calm.db", home)
    for name in names:
        _ok(hubwatch("watch", "add", name))
    _ok(hubwatch("poll", timeout=7200))
    with _open(hubwatch.database_url) as database:
        return account(database, names)


def storm(hub: LoopbackHub, names: list[str], plan: Plan, url: str, home: Path, say: Say) -> dict[str, Any]:
    """What the daemons make of the repos on PostgreSQL, with processes killed at moments drawn from the seed.

    Moments are counted in revisions, so that the kills fall all over the backfill on any machine. Raises
    AssertionError when the backfill does not go on or does not come to its end.
    """
    home.mkdir(parents=True)
    hubwatch = Hubwatch(hub.url, url, home, dict(QUICK))
    for name in names:
        _ok(hubwatch("watch", "add", name))
    chance = random.Random(plan.seed + 1)  # noqa: S311
    first, last = max(1, plan.revisions // 50), max(2, plan.revisions * 9 // 10)
    moments = sorted(chance.sample(range(first, last), plan.kills))
    with _open(url) as database, Fleet(hubwatch) as fleet:
        daemons = fleet.start_all(*ROLES)
        for number, moment in enumerate(moments, 1):
            landed = _wait(database, moment, plan, daemons)
            victim = chance.randrange(len(daemons))
            daemons[victim].kill()
            say(f"kill {number:2}/{plan.kills}: {ROLES[victim]} {daemons[victim].pid} after {landed} revisions")
            daemons[victim] = fleet.start(ROLES[victim])
        _wait(database, plan.revisions, plan, daemons)
        codes = [daemon.stop() for daemon in daemons]
        assert codes == [0, 0, 0], f"the daemons ended with {codes}"
        return account(database, names)


def account(database: Database, names: list[str]) -> dict[str, Any]:
    """Everything that was learned of the repos, without the times at which it was."""
    found: dict[str, Any] = {}
    with database.snapshot() as tx:
        for name in names:
            owner, _, short = name.partition("/")
            repo = RepoRef(owner=owner, name=short)
            rows = history.revisions(tx, repo, newest_first=False)
            shas = [row.revision.sha for row in rows]
            found[name] = {
                "revisions": [(row.position, row.revision.sha, row.manifest_digest, row.backfill) for row in rows],
                "changes": changes.by_revision(tx, repo, shas),
                "events": advisories.events(tx, repo, shas),
                "advisories": {
                    item.id: replace(item, published=_NEVER, modified=_NEVER)
                    for item in advisories.of_repo(tx, repo)
                },
            }
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """Where two accounts are not the same, in words; nothing when they are."""
    for name in sorted({*one, *other}):
        for part in ("revisions", "changes", "events", "advisories"):
            left, right = one[name][part], other[name][part]
            if left == right:
                continue
            if isinstance(left, dict):
                keys = [key for key in {*left, *right} if left.get(key) != right.get(key)]
                yield f"{name}: {part} differ at {sorted(keys)[:3]} ({len(keys)})"
            else:
                yield f"{name}: {part} differ: {len(left)} against {len(right)}"


def repeats(one: dict[str, Any]) -> Iterator[str]:
    """What is there twice, in words."""
    for name, parts in one.items():
        shas = [row[1] for row in parts["revisions"]]
        if len(set(shas)) != len(shas):
            yield f"{name}: {len(shas) - len(set(shas))} revisions twice"
        happened = [event for events in parts["events"].values() for event in events]
        again = len(happened) - len({(event.advisory_id, event.action, event.sha) for event in happened})
        if again:
            yield f"{name}: {again} events twice"


def _wait(database: Database, wanted: int, plan: Plan, daemons: list[Daemon]) -> int:
    """Wait until so many revisions landed; returns how many did."""
    until, landed = time.monotonic() + plan.patience_s, 0
    while time.monotonic() < until:
        with database.snapshot() as tx:
            landed = sum(history.count(tx, repo) for repo in history.known_repos(tx))
        if landed >= wanted:
            return landed
        gone = [daemon.said for daemon in daemons if not daemon.is_running]
        assert not gone, f"a daemon ended by itself: {gone[0][-1000:]}"
        time.sleep(0.05)
    raise AssertionError(f"{landed} of {wanted} revisions after {plan.patience_s} s")


def _ok(result: Any) -> None:
    assert result.code == 0, result.err


@contextmanager
def _open(url: str) -> Iterator[Database]:
    database = Database.open(url)
    try:
        yield database
    finally:
        database.dispose()
