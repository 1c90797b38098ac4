"""How fast the API answers over a large history: 1,000 repos, 50,000 revisions, 200,000 advisories.

The application is served by uvicorn and asked over one kept connection on the loopback, as a client behind a proxy
would be, taking gzip. Processor time is that of server and client together.
"""

from __future__ import annotations

import gc
import http.client
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from storage.database import Database
from tests.bench.history import RARE, Scale, name, sha
from tests.bench.places import filled, folder, kinds
from tracker.settings import Settings, WebSettings
from tracker.web.app import create_app
from tracker.web.server import running_app

Row = tuple[str, str, str, bool]
MILLISECONDS = 50
ROUNDS = int(os.environ.get("HUBWATCH_BENCH_ROUNDS", "200"))
WARM = 20
_CHOICE = random.Random(7)  # noqa: S311 - which pages are asked for
Ask = Callable[[], None]


def main() -> Iterator[Row]:
    """Measure on SQLite, and on PostgreSQL where there is one."""
    scale = Scale(repos=int(os.environ.get("HUBWATCH_BENCH_REPOS", "1000")))
    with folder() as place:
        for kind in kinds():
            with filled(kind, place, scale) as (url, database):
                yield from _measure(kind, url, database, scale, place)


def _measure(kind: str, url: str, database: Database, scale: Scale, place: Path) -> Iterator[Row]:
    settings = Settings(database_url=url, web=WebSettings(cache=place / f"cache-{kind}"))
    with running_app(create_app(settings, database), "127.0.0.1", 0) as address:
        client = Client(address)
        gc.collect()
        gc.freeze()  # what was needed to make the data is no part of what is measured
        for what, ask in _questions(client, scale).items():
            for _ in range(WARM):
                ask()
            client.bytes = 0
            began = time.process_time()
            taken = sorted(_timed(ask) for _ in range(ROUNDS))
            processor = (time.process_time() - began) / ROUNDS * 1000
            p50, p99 = (taken[int(len(taken) * share)] * 1000 for share in (0.5, 0.99))
            size = client.bytes / ROUNDS / 1000
            figures = f"p50 {p50:.1f}, p99 {p99:.1f}, processor {processor:.1f} ms, {size:.0f} kB"
            yield f"{kind}: {what}", figures, f"p99 < {MILLISECONDS} ms", p99 < MILLISECONDS


class Client:
    """One kept connection to a server."""

    def __init__(self, address: str, timeout: float = 60) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=timeout)
        self.bytes = 0
        """Bytes of the bodies received, as sent."""

    def get(self, path: str, *, or_status: int = 200) -> bool:
        """Ask for a page, which must be there, or refused so; whether it was there."""
        return self._ask("GET", path, None, or_status) == 200

    def post(self, path: str, body: Any) -> None:
        """Send JSON, which must be taken."""
        self._ask("POST", path, json.dumps(body))

    def _ask(self, method: str, path: str, body: str | None, or_status: int = 200) -> int:
        self._connection.request(method, path, body, headers={"Accept-Encoding": "gzip"})
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status not in {200, or_status}:
            raise RuntimeError(f"{path}: {answer.status} {data[:500]!r}")
        self.bytes += len(data)
        return answer.status


def _questions(client: Client, scale: Scale) -> dict[str, Ask]:
    def repo() -> str:
        return "/".join(name(_CHOICE.randrange(scale.repos)))

    def commit() -> str:
        return sha(_CHOICE.randrange(scale.repos), _CHOICE.randrange(scale.revisions))

    def get(path: Callable[[], str]) -> Ask:
        def ask() -> None:
            client.get(path())

        return ask

    def batch() -> None:
        client.post("/v1/querybatch", {"queries": [{"commit": commit()} for _ in range(3)]})

    return {
        "POST /v1/query by commit": lambda: client.post("/v1/query", {"commit": commit()}),
        "POST /v1/querybatch of 3": batch,
        "GET history page (50 revisions)": get(lambda: f"/api/v1/repos/{repo()}/revisions"),
        "GET history page by class": get(lambda: f"/api/v1/repos/{repo()}/revisions?class=tokens.eos"),
        "GET blame of a value (50 versions)": get(
            lambda: f"/api/v1/repos/{repo()}/blame?path=config.json&pointer=/num_hidden_layers"
        ),
        "GET blame of a file": get(lambda: f"/api/v1/repos/{repo()}/blame?path=config.json"),
        "GET estimates over time": get(lambda: f"/api/v1/repos/{repo()}/estimates"),
        "GET changes of all, by class": get(lambda: "/api/v1/changes?class=tokens.eos"),
        "GET feed of a repo": get(lambda: f"/feeds/{repo()}.atom"),
        "GET feed of all": get(lambda: "/feeds/all.atom"),
        "GET feed of all, critical": get(lambda: "/feeds/all.json?min_severity=critical"),
        "GET feed of all, a common class": get(lambda: "/feeds/all.atom?class=tokens.eos"),
        "GET feed of all, a rare class": get(lambda: f"/feeds/all.atom?class={RARE[0]}"),
        "GET feed of an owner": get(lambda: f"/feeds/{repo().split('/', 1)[0]}.atom"),
        "GET advisories, newest": get(lambda: "/api/v1/advisories?limit=20&state=open"),
        "GET advisories, critical": get(lambda: "/api/v1/advisories?limit=20&min_severity=critical"),
        "GET advisories, a rare class": get(lambda: f"/api/v1/advisories?limit=20&class={RARE[0]}"),
        "GET advisories of a repo": get(lambda: f"/api/v1/repos/{repo()}/advisories?limit=20"),
        "GET repos": get(lambda: "/api/v1/repos"),
        "GET search": get(lambda: f"/api/v1/search?q={commit()[:6]}"),
        "GET a file's tree": get(lambda: f"/api/v1/repos/{repo()}/revisions/main/files"),
        "GET a model's page": get(lambda: f"/models/{repo()}"),
    }


def _timed(ask: Ask) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began
