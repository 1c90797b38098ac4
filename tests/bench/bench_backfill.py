"""The first read of a history: hubwatch, a straight script, and git alone, on a Hub that answers after 20 ms.

All three are run in turn, some rounds. hubwatch is run as the command ``hubwatch poll``
with a new database; the start of its process counts, as the script's does. The Hub is a process of its own. See
`tests.bench.plain` for the script.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from storage import history, schema, watches
from storage.database import Database
from storage.model import RepoRef
from tests.bench.served import Served, Spent, served, spending, write_history
from tests.support.command import Hubwatch

Row = tuple[str, str, str, bool]
NAME = "acme/model"
REVISIONS = int(os.environ.get("HUBWATCH_BENCH_REVISIONS", "300"))
ROUNDS = 3
LATENCY_S = 0.02
TIMES = 5.0
MOST_REQUESTS = 12
_PLAIN = (
    "import sys; from pathlib import Path; from tests.bench.plain import read; "
    "read(*sys.argv[1:3], Path(sys.argv[3]))"
)


def main() -> Iterator[Row]:
    """Run all of them and tell the medians."""
    with tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as name:
        folder = Path(name)
        with served(folder / "hub", write_history, NAME, REVISIONS, latency_s=LATENCY_S) as hub:
            yield from _measured(hub, folder)


def _measured(hub: Served, folder: Path) -> Iterator[Row]:
    ways = {
        "hubwatch": lambda at: _hubwatch(hub, at),
        "hubwatch, git off": lambda at: _hubwatch(hub, at, HUBWATCH_HUB_GIT="off"),
        "straight script": lambda at: _run([sys.executable, "-c", _PLAIN, hub.url, NAME, str(at)]),
        "git clone --filter=blob:none": lambda at: _clone(hub, at),
    }
    spent: dict[str, list[Spent]] = {what: [] for what in ways}
    asked = {}
    numbers = count()
    for _ in range(ROUNDS):
        for what, run in ways.items():
            at = folder / f"{next(numbers)}"
            if what.startswith("hubwatch"):
                _watch(at)
            hub.asked()
            with spending() as took:
                run(at)
            spent[what] += took
            asked[what] = hub.asked()
    for what, all_of in spent.items():
        clock, processor = (
            sorted(items)[len(items) // 2] for items in zip(*((s.clock, s.processor) for s in all_of), strict=True)
        )
        kinds, size = asked[what]
        told = ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items()))
        yield (
            f"{what}, {REVISIONS} revisions",
            f"{REVISIONS / clock:.1f}/s, processor {processor:.1f} s; {told}; {size / 1000:.0f} kB",
            "",
            True,
        )
    ratio = sorted(
        plain.clock / ours.clock for plain, ours in zip(spent["straight script"], spent["hubwatch"], strict=True)
    )[ROUNDS // 2]
    yield (
        "hubwatch against the script, in pairs",
        f"{ratio:.1f} times as fast",
        f"at least {TIMES} times",
        ratio >= TIMES,
    )
    kinds, size = asked["hubwatch"]
    beside = kinds["api"] + kinds["git"] + kinds["resolve"] - _headers(folder)
    yield "requests beside weight headers", str(beside), f"at most {MOST_REQUESTS}", beside <= MOST_REQUESTS
    bound = _bound(folder)
    yield "bytes against the lower bound", f"{size / bound:.2f} times {bound / 1000:.0f} kB", "", True


def _watch(at: Path) -> None:
    """A new database with one watch."""
    database = Database.open(f"sqlite:///{at}/hubwatch.db")
    schema.upgrade(database)
    with database.transaction() as tx:
        watches.add(tx, RepoRef.parse(NAME), now=datetime.now(UTC))
    database.dispose()


def _hubwatch(hub: Served, at: Path, **environment: str) -> None:
    done = Hubwatch(hub.url, f"sqlite:///{at}/hubwatch.db", at)("poll", timeout=3600, **environment)
    if done.code:
        raise RuntimeError(done.err)


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, "HF_HUB_DISABLE_TELEMETRY": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])


def _clone(hub: Served, at: Path) -> None:
    _run(
        ["git", "clone", "--quiet", "--bare", "--filter=blob:none", f"{hub.url}/{NAME}", str(at)],
        GIT_TERMINAL_PROMPT="0",
    )


def _open(folder: Path) -> Database:
    return Database.open(f"sqlite:///{folder / '0'}/hubwatch.db")


def _headers(folder: Path) -> int:
    """Requests that weight headers took: each distinct file is asked for once."""
    with _open(folder).snapshot() as tx:
        return int(tx.exec_driver_sql("SELECT count(*) FROM blobs WHERE key LIKE 'header:%'").scalar_one())


def _bound(folder: Path) -> int:
    """Bytes that no reader can do without: each distinct small content and each commit once, each packed alone."""
    with _open(folder).snapshot() as tx:
        contents = tx.exec_driver_sql("SELECT sum(length(data)) FROM blobs").scalar_one()
        found = [row.revision for row in history.revisions(tx, RepoRef.parse(NAME))]
    commits = (f"{item.sha} {item.parents} {item.author} {item.committed_at} {item.title}" for item in found)
    return int(contents) + sum(len(zlib.compress(text.encode())) for text in commits)
