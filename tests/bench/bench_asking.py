"""How many requests a round takes in which nothing moved: ``hubwatch poll``, a second time, on a loopback Hub."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from storage import schema, watches
from storage.database import Database
from storage.model import RepoRef
from tests.support.command import Hubwatch
from tests.support.models import llama, tokenizer_config, weights
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import GitRepo

Row = tuple[str, str, str, bool]
# repos, owners, and the most requests that a round may take
SHAPES = ((1, 1, 1), (100, 1, 2), (1000, 1, 2), (100, 100, 100), (1000, 100, 100), (1000, 1000, 1000))


def main() -> Iterator[Row]:
    """Count for each shape; the first poll reads everything, the second finds nothing new."""
    for repos, owners, most in SHAPES:
        with tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as folder:
            first, second = _requests(Path(folder), repos, owners)
        what = f"{repos} repos of {owners} owner{'s' * (owners > 1)}"
        figures = f"{len(second)} requests ({', '.join(sorted(set(second)))}); the first round took {first}"
        yield what, figures, f"at most {most}", len(second) <= most


def _requests(folder: Path, repos: int, owners: int) -> tuple[int, list[str]]:
    with LoopbackHub(folder / "hub") as hub:
        git = GitRepo(folder / "model.git")  # one repository under all names: only who is asked matters here
        git.commit(
            {
                ".gitattributes": "*.safetensors filter=lfs\n",
                "config.json": llama(),
                "tokenizer_config.json": tokenizer_config(),
                "model.safetensors": weights(),
            }
        )
        names = [f"owner{number % owners}/model{number}" for number in range(repos)]
        for name in names:
            hub.add(name, git)
        url = f"sqlite:///{folder}/hubwatch.db"
        database = Database.open(url)
        schema.upgrade(database)
        with database.transaction() as tx:
            for name in names:
                watches.add(tx, RepoRef.parse(name), now=datetime.now(UTC))
        database.dispose()
        hubwatch = Hubwatch(hub.url, url, folder)
        rounds: list[list[str]] = []
        for _ in range(2):
            hub.requests.clear()
            done = hubwatch.json("poll", "--limit", "1", timeout=3600)
            if not isinstance(done, dict):
                raise TypeError(f"the poll said {done!r}")
            rounds.append([f"{item.method} {item.kind}" for item in hub.requests])
    return len(rounds[0]), rounds[1]
