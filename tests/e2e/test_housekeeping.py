"""Housekeeping by the real command line: prune, backup, restore, reassess, doctor."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Hubwatch
from tests.support.models import llama
from tracker.demo.hub import LoopbackHub

REPO = "acme/tiny"


def test_a_life_of_housekeeping(hub: LoopbackHub, hubwatch: Hubwatch, tmp_path: Path) -> None:
    repo = hub.create(REPO)
    shas = [
        repo.commit({"config.json": llama(), "README.md": "# 0\n", "x.json": '{"a": 0}'}),
        repo.commit({"README.md": "# 1\n", "x.json": '{"a": 1}'}),
        repo.commit({"README.md": "# 2\n", "x.json": '{"a": 2}'}),
    ]
    assert hubwatch("watch", "add", REPO).code == 0
    assert hubwatch("poll").code == 0
    told = hubwatch.json("advisories", REPO)
    whole = hubwatch.json("diff", REPO, shas[0], shas[1])
    assert whole["not_kept"] == []
    dry = hubwatch.json("db", "prune", "--keep", "0d", "--dry-run")
    assert dry["dry_run"] is True
    done = hubwatch.json("db", "prune", "--keep", "0d", "--vacuum")
    assert done["contents"] == dry["contents"] > 0
    assert hubwatch.json("db", "prune", "--keep", "0d")["contents"] == 0
    assert hubwatch.json("advisories", REPO) == told
    part = hubwatch("diff", REPO, shas[0], shas[1])
    assert part.code == 0
    assert "contents not kept" in part.err
    said = hubwatch.json("diff", REPO, shas[0], shas[1])
    assert set(said["not_kept"]) == {"README.md", "x.json"}
    assert "document.unreadable" not in {change["class"] for change in said["changes"]}
    entries = hubwatch.json("blame", REPO, "x.json#/a")["entries"]
    assert [(row["sha"], row["value"], row["kept"]) for row in entries] == [
        (shas[2], 2, True),
        (shas[1], 1, True),  # what the open advisory on the newest one is held against
        (shas[0], None, False),
    ]
    assert "(content not kept)" in hubwatch("blame", REPO, "x.json#/a").out
    assert hubwatch.json("show", f"{REPO}@{shas[0]}")["files"]
    left = hubwatch.json("reassess", REPO, codes=(1,))["repos"][0]
    assert left["status"] == "not_kept"
    again = hubwatch.json("reassess", "--fetch")["repos"][0]
    assert (again["status"], again["added"], again["changed"], again["withdrawn"]) == ("ok", [], [], [])
    assert hubwatch.json("diff", REPO, shas[0], shas[1]) == whole
    assert hubwatch("db", "backup", str(tmp_path / "copy")).code == 0
    assert hubwatch("db", "restore", str(tmp_path / "copy")).code == 2
    other = Hubwatch(hub.url, f"sqlite:///{tmp_path}/other/new.db", hubwatch.home)
    restored = other.json("db", "restore", str(tmp_path / "copy"))
    assert (restored["repos"], restored["revisions"]) == (1, 3)
    assert other.json("advisories", REPO) == told
    assert hubwatch("reassess", "acme/absent").code == 2
    seen = hubwatch.json("doctor", "--all", HUBWATCH_PORT="0")
    assert seen["fail"] == 0, seen
    assert hubwatch("doctor", "--offline", HUBWATCH_PORT="0", HUBWATCH_HOST="192.0.2.1").code == 1
    assert hubwatch("doctor", "--nonsense").code == 2


def test_a_rewritten_history_goes_on_where_its_base_is_not_kept(hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create(REPO)
    base = repo.commit({"config.json": llama(), "README.md": "# 0\n"})
    for number in range(1, 5):
        repo.commit({"README.md": f"# {number}\n"})
    hubwatch("watch", "add", REPO)
    assert hubwatch("poll").code == 0
    assert hubwatch.json("db", "prune", "--keep", "0d")["contents"] > 0
    repo.reset("main", base)
    repo.commit({"README.md": "# another\n"})
    polled = hubwatch.json("poll", codes=(0, 1))["repos"][0]
    assert (polled["status"], polled["error"]) == ("ok", None)
