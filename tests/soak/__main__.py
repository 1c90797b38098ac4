"""``make soak``: the storm at full size, on a PostgreSQL of its own. Prints what it did and what came of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from storage import schema
from storage.database import Database
from tests.soak.storm import Plan, calm, differences, fill, repeats, storm
from tests.support.databases import postgres_running
from tracker.demo.hub import LoopbackHub


def main(arguments: list[str]) -> int:
    """Run it; 0 when nothing was lost and nothing is there twice."""
    parser = argparse.ArgumentParser(prog="make soak ARGS=...", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--revisions", type=int, default=5000)
    parser.add_argument("--repos", type=int, default=10)
    parser.add_argument("--kills", type=int, default=20)
    plan = Plan(**vars(parser.parse_args(arguments)))
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="hubwatch-soak-") as folder, postgres_running() as server:
        url = server.get_uri()
        database = Database.open(url)
        schema.upgrade(database)
        database.dispose()
        with LoopbackHub(Path(folder) / "hub") as hub:
            names = fill(hub, plan)
            say(f"seed {plan.seed}: {plan.revisions} revisions in {plan.repos} repos")
            expected = calm(hub, names, Path(folder) / "calm")
            say(f"calm: {_told(expected)}")
            try:
                came = storm(hub, names, plan, url, Path(folder) / "storm", say)
            except AssertionError as error:
                say(f"FAILED: {error}")
                return 1
            say(f"storm: {_told(came)}")
    wrong = [*differences(expected, came), *repeats(came)]
    for line in wrong:
        say(line)
    say("FAILED" if wrong else f"nothing lost, nothing twice, after {plan.kills} kills")
    return int(bool(wrong))


def _told(account: dict[str, Any]) -> str:
    parts = ("revisions", "advisories")
    return ", ".join(f"{sum(len(found[part]) for found in account.values())} {part}" for part in parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
