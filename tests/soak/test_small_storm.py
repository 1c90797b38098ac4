"""The storm, small: what ``make soak`` does at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.storm import Plan, calm, differences, fill, repeats, storm
from tracker.demo import faults
from tracker.demo.hub import LoopbackHub

PLAN = Plan(seed=7, revisions=120, repos=3, kills=4, patience_s=120)


@pytest.mark.postgres
def test_a_storm_leaves_what_a_calm_run_leaves(tmp_path: Path, postgres_url: str) -> None:
    with LoopbackHub(tmp_path / "hub") as hub:
        names = fill(hub, PLAN)
        expected = calm(hub, names, tmp_path / "calm")
        hub.faults.add(faults.delay(0.02))
        came = storm(hub, names, PLAN, postgres_url, tmp_path / "storm", print)
        assert not hub.crashes
    assert sum(len(parts["revisions"]) for parts in came.values()) == PLAN.revisions
    assert all(parts["advisories"] for parts in came.values())
    assert list(differences(expected, came)) == []
    assert list(repeats(came)) == []


def test_a_loss_and_a_repeat_are_seen(tmp_path: Path) -> None:
    with LoopbackHub(tmp_path / "hub") as hub:
        names = fill(hub, Plan(seed=7, revisions=12, repos=1, kills=0))
        whole = calm(hub, names, tmp_path / "calm")
    (name,) = names
    events = {sha: found * 2 for sha, found in whole[name]["events"].items()}
    lost = {name: {**whole[name], "revisions": whole[name]["revisions"][:-1], "advisories": {}}}
    twice = {name: {**whole[name], "events": events, "revisions": whole[name]["revisions"] * 2}}
    assert [line.split(": ")[1][:9] for line in differences(whole, lost)] == ["revisions", "advisorie"]
    assert len(list(repeats(twice))) == 2
    assert list(differences(whole, whole)) == list(repeats(whole)) == []
