"""Bytes of database for a revision, held against git's own pack of the same history."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from storage import disk, schema, watches
from storage.database import Database
from storage.model import RepoRef
from tests.bench.served import write_history
from tracker.assembly import assemble
from tracker.demo.hub import LoopbackHub
from tracker.settings import Settings

Row = tuple[str, str, str, bool]
NAME = "acme/model"
REVISIONS = int(os.environ.get("HUBWATCH_BENCH_REVISIONS", "300"))
_TABLES = """
SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name GROUP BY 1 ORDER BY 2 DESC
"""


def main() -> Iterator[Row]:
    """Read a history, then weigh the vacuumed SQLite file and a pack that git made with its defaults."""
    with tempfile.TemporaryDirectory(prefix="hubwatch-bench-") as name, LoopbackHub(Path(name) / "hub") as hub:
        folder = Path(name)
        write_history(hub, NAME, REVISIONS)
        database = Database.open(f"sqlite:///{folder}/hubwatch.db")
        schema.upgrade(database)
        _vacuum(database)
        empty = _size(folder)
        repo = RepoRef.parse(NAME)
        with database.transaction() as tx:
            watch = watches.add(tx, repo, now=datetime.now(UTC))
        with assemble(Settings.model_validate({"hub": {"endpoint": hub.url}}), database) as services:
            outcome = services.worker.check(watch)
        if outcome.new_revisions != REVISIONS:
            raise RuntimeError(str(outcome))
        _vacuum(database)
        ours = _size(folder) - empty
        with database.snapshot() as tx:
            try:
                tables = tx.exec_driver_sql(_TABLES).all()
            except Exception:  # noqa: BLE001 - an SQLite that was built without dbstat
                tables = []
        database.dispose()
        pack = _packed(hub.repo(NAME).path, folder / "clone.git")
    yield (
        f"database against a pack, {REVISIONS} revisions",
        f"{ours / REVISIONS:.0f} against {pack / REVISIONS:.0f} bytes a revision: {ours / pack:.1f} times",
        "",
        True,
    )
    told = ", ".join(f"{table} {size / REVISIONS:.0f}" for table, size in tables[:6])
    yield "of it, with indices", f"{told} bytes", "", True


def _vacuum(database: Database) -> None:
    disk.vacuum(database)


def _size(folder: Path) -> int:
    return (folder / "hubwatch.db").stat().st_size


def _packed(source: Path, target: Path) -> int:
    """Bytes of the pack of a full clone; LFS contents are in neither."""
    for command in (
        ["git", "clone", "--quiet", "--bare", "--no-local", str(source), str(target)],
        ["git", "-C", str(target), "gc", "--quiet", "--aggressive"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return sum(file.stat().st_size for file in (target / "objects").rglob("*") if file.is_file())
