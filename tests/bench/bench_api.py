"""How fast the API answers over a large history: 1,000 repos, 50,000 revisions, 200,000 advisories."""

from __future__ import annotations

import gc
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from advisories.export import INDEX, export, index
from advisories.osv import ECOSYSTEM, timestamp
from storage import advisories, schema
from storage.database import Database
from tests.bench.history import Scale, fill, name, sha
from tracker.settings import Settings
from tracker.web.app import create_app

Row = tuple[str, str, str, bool]
MILLISECONDS = 50
ROUNDS = 100
_CHOICE = random.Random(7)  # noqa: S311 - which pages are asked for


def main() -> Iterator[Row]:
    """Measure on SQLite, and on PostgreSQL where ``HUBWATCH_BENCH_POSTGRES`` names an empty database."""
    scale = Scale(repos=int(os.environ.get("HUBWATCH_BENCH_REPOS", "1000")))
    with tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as folder:
        urls = {"SQLite": f"sqlite:///{folder}/bench.db"}
        if url := os.environ.get("HUBWATCH_BENCH_POSTGRES"):
            urls["PostgreSQL"] = url
        for kind, url in urls.items():
            yield from _measure(kind, url, scale, Path(folder))


def _measure(kind: str, url: str, scale: Scale, folder: Path) -> Iterator[Row]:
    database = Database.open(url)
    schema.require_current(database)
    fill(database, scale)
    settings = Settings(database_url=url, web={"cache": folder / "cache"})
    client = TestClient(create_app(settings, database))
    gc.collect()
    gc.freeze()  # what was needed to make the data is no part of what is measured
    for what, ask in _questions(client, scale).items():
        for _ in range(5):
            ask()
        began = time.process_time()
        taken = sorted(_timed(ask) for _ in range(ROUNDS))
        processor = (time.process_time() - began) / ROUNDS * 1000
        p50, p99 = (taken[int(len(taken) * share)] * 1000 for share in (0.5, 0.99))
        figures = f"p50 {p50:.1f}, p99 {p99:.1f}, processor {processor:.1f} ms"
        yield f"{kind}: {what}", figures, f"p99 < {MILLISECONDS} ms", p99 < MILLISECONDS
    yield from _export(kind, database, folder / "export")
    database.dispose()


def _export(kind: str, database: Database, folder: Path) -> Iterator[Row]:
    """An export into a folder that is up to date but for one repo's newest revision."""
    inner = folder / ECOSYSTEM
    inner.mkdir(parents=True)
    with database.snapshot() as tx:
        known = advisories.stamps(tx, sorted(advisories.ids(tx)))
    for advisory_id in known:
        (inner / f"{advisory_id}.json").touch()
    newest = max(known.values())
    older = {name: when for name, when in known.items() if when < newest}
    (inner / INDEX).write_bytes(index({name: timestamp(when) for name, when in older.items()}))
    began = time.process_time()
    taken = _timed(lambda: export(database, folder, archives=False))
    figures = f"{taken:.2f} s, processor {time.process_time() - began:.2f} s"
    yield f"{kind}: export, one revision is new, no zip", figures, "< 1 s", taken < 1


def _questions(client: TestClient, scale: Scale) -> dict[str, Callable[[], None]]:
    def repo() -> str:
        return "/".join(name(_CHOICE.randrange(scale.repos)))

    def commit() -> str:
        return sha(_CHOICE.randrange(scale.repos), _CHOICE.randrange(scale.revisions))

    def get(path: Callable[[], str]) -> Callable[[], None]:
        return lambda: _ok(client.get(path()))

    return {
        "POST /v1/query by commit": lambda: _ok(client.post("/v1/query", json={"commit": commit()})),
        "POST /v1/querybatch of 3": lambda: _ok(
            client.post("/v1/querybatch", json={"queries": [{"commit": commit()} for _ in range(3)]})
        ),
        "GET history page (50 revisions)": get(lambda: f"/api/v1/repos/{repo()}/revisions"),
        "GET history page by class": get(lambda: f"/api/v1/repos/{repo()}/revisions?class=tokens.eos"),
        "GET changes of all, by class": get(lambda: "/api/v1/changes?class=tokens.eos"),
        "GET feed of a repo": get(lambda: f"/feeds/{repo()}.atom"),
        "GET feed of all": get(lambda: "/feeds/all.atom"),
        "GET feed of all, critical": get(lambda: "/feeds/all.json?min_severity=critical"),
        "GET feed of an owner": get(lambda: f"/feeds/{repo().split('/', 1)[0]}.atom"),
        "GET advisories, newest": get(lambda: "/api/v1/advisories?limit=20&state=open"),
        "GET advisories of a repo": get(lambda: f"/api/v1/repos/{repo()}/advisories?limit=20"),
        "GET repos": get(lambda: "/api/v1/repos"),
        "GET search": get(lambda: f"/api/v1/search?q={commit()[:6]}"),
        "GET a file's tree": get(lambda: f"/api/v1/repos/{repo()}/revisions/main/files"),
    }


def _ok(answer: Any) -> None:
    assert answer.status_code == 200, answer.text[:500]


def _timed(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began
