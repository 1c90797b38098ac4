"""How long the bulk files take over the same history, and what other readers notice while they are made.

The first export writes every document; the next one, of a database in which one repo has moved, only what that
changed. Then a server is asked for its archive for the first time, and asked other things meanwhile.
"""

from __future__ import annotations

import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from advisories.export import ARCHIVE, INDEX, export, index, read_index
from advisories.osv import ECOSYSTEM
from storage.database import Database
from tests.bench.bench_api import Client
from tests.bench.history import Scale, name
from tests.bench.places import filled, folder, kinds
from tracker.settings import Settings, WebSettings
from tracker.web.app import create_app
from tracker.web.server import running_app

Row = tuple[str, str, str, bool]
Found = TypeVar("Found")
ROUNDS = 10
PATIENCE = 900  # seconds for a whole archive


def main() -> Iterator[Row]:
    """Measure on SQLite, and on PostgreSQL where there is one."""
    scale = Scale(repos=int(os.environ.get("HUBWATCH_BENCH_REPOS", "1000")))
    with folder() as place:
        for kind in kinds():
            with filled(kind, place, scale) as (url, database):
                out = place / "export"
                shutil.rmtree(out, ignore_errors=True)
                yield from _export(kind, database, out)
                shutil.rmtree(out)
                cache = place / "cache"
                shutil.rmtree(cache, ignore_errors=True)
                yield from _meanwhile(kind, url, database, scale, cache)
                shutil.rmtree(cache)


def _export(kind: str, database: Database, out: Path) -> Iterator[Row]:
    report, seconds, processor = _timed(lambda: export(database, out, archives=False))
    yield f"{kind}: first export, no zip", _rate(report.total, seconds, processor), "", True
    _, seconds, processor = _timed(lambda: export(database, out))
    size = (out / ARCHIVE).stat().st_size / 1e6
    yield f"{kind}: the zip of it, {size:.0f} MB", _rate(report.total, seconds, processor), "", True
    taken, busy = [], []
    for _ in range(ROUNDS):
        moved = _step_back(out)
        report, seconds, processor = _timed(lambda: export(database, out, archives=False))
        taken.append(seconds)
        busy.append(processor)
    figures = f"median {statistics.median(taken):.2f}, worst {max(taken):.2f}, processor {max(busy):.2f} s"
    yield f"{kind}: export, one repo moved ({moved} documents), no zip", figures, "< 1 s", max(taken) < 1
    _, seconds, processor = _timed(lambda: export(database, out, archives=False))
    yield (
        f"{kind}: export, nothing moved, no zip",
        f"{seconds:.2f}, processor {processor:.2f} s",
        "< 1 s",
        seconds < 1,
    )


def _step_back(out: Path) -> int:
    """Make a folder what it was before the newest revision landed; returns how many documents that changed."""
    known = read_index(out)
    newest = next(iter(known.values()))
    older = {key: when for key, when in known.items() if when < newest}
    (out / ECOSYSTEM / INDEX).write_bytes(index(older))
    for key in known.keys() - older.keys():
        (out / ECOSYSTEM / f"{key}.json").write_text("{}")
    return len(known) - len(older)


def _meanwhile(kind: str, url: str, database: Database, scale: Scale, cache: Path) -> Iterator[Row]:
    settings = Settings(database_url=url, web=WebSettings(cache=cache))
    with running_app(create_app(settings, database), "127.0.0.1", 0) as address:
        done = threading.Event()
        waited: list[str] = []
        asking = threading.Thread(target=_archive, args=(address, done, waited), daemon=True)
        client, taken = Client(address), []
        path = f"/api/v1/repos/{'/'.join(name(scale.repos // 2))}/revisions"
        client.get(path)
        asking.start()
        while not done.wait(0.05):
            _, seconds, _ = _timed(lambda: client.get(path))
            taken.append(seconds * 1000)
        taken.sort()
        p50, p99 = (taken[int(len(taken) * share)] for share in (0.5, 0.99))
    yield f"{kind}: the archive asked for, nothing made yet", waited[0], "", True
    told = f"p50 {p50:.0f}, p99 {p99:.0f}, worst {taken[-1]:.0f} ms, {len(taken)} answers"
    yield f"{kind}: history pages meanwhile", told, "no answer missed", True


def _archive(address: str, done: threading.Event, told: list[str]) -> None:
    """Ask for the archive until it is there."""
    client = Client(address, timeout=PATIENCE)
    began, refused, first = time.perf_counter(), 0, 0.0
    try:
        while not client.get("/osv/all.zip", or_status=503):
            refused += 1
            first = first or time.perf_counter() - began
            time.sleep(2)
        later = f", told to come again {refused} times, first after {first:.0f} s" if refused else ""
        told.append(f"after {time.perf_counter() - began:.0f} s{later}")
    finally:
        done.set()


def _timed(work: Callable[[], Found]) -> tuple[Found, float, float]:
    began, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - began, time.process_time() - processor


def _rate(documents: int, seconds: float, processor: float) -> str:
    return f"{seconds:.0f} s, processor {processor:.0f} s, {documents / seconds:,.0f} documents a second"
