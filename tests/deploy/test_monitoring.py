"""Dashboard and alert rules ask for metrics that a real process shows, and every alert has a runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from storage import budgets
from storage.budgets import Quota
from storage.database import Database
from tests.tracker.test_metrics import Checker, watch
from tracker import metrics
from tracker.settings import Settings
from tracker.vitals import Vitals
from tracker.web.app import create_app

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "hubwatch.json").read_text())
_METRIC = re.compile(r"\b(?:hubwatch|process)_[a-z_]+")
_SELECTOR = re.compile(r"\b((?:hubwatch|process)_[a-z_]+)\{([^}]*)\}")
_GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
SET_BY_PROMETHEUS = {"job", "instance", "le"}


@pytest.fixture
def scraped(database: Database) -> dict[str, set[str]]:
    """What a process shows that has done a little of everything: the labels of each sample, by its name."""
    checked = watch(database, "tiny", next_check_at=NOW - timedelta(hours=1))
    Checker("ok").check(checked)
    metrics.failed("upstream")
    metrics.requested("api", 200, 0.1)
    metrics.child_started("templates")
    metrics.child_failed("templates", "died")
    metrics.listed()
    ends = NOW + timedelta(seconds=90)
    quota = Quota(scope="x anonymous", name="api", limit=500, window_s=300, window_ends=ends, spent=3)
    with database.transaction() as tx:
        budgets.learn(tx, quota, tolerance=timedelta(seconds=5))
        if not database.is_sqlite:
            tx.execute(text("CREATE SCHEMA hubwatch_queue_0123abcd"))
            tx.execute(text("CREATE TABLE hubwatch_queue_0123abcd.procrastinate_jobs (id serial, status text)"))
    vitals = Vitals(database, lambda: NOW, ("scheduler", "web"))
    vitals.beat("due")
    app = create_app(Settings(database_url="sqlite:///unused.db"), database, vitals=vitals, clock=lambda: NOW)
    client = TestClient(app)
    client.get("/healthz")
    shown: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            shown.setdefault(sample.name, set()).update(sample.labels)
    # each is of one kind of database only
    only = {"hubwatch_database_free_bytes": set(), "hubwatch_queue_jobs": {"status"}}
    missing = "hubwatch_queue_jobs" if database.is_sqlite else "hubwatch_database_free_bytes"
    assert missing not in shown
    assert set(only) - {missing} <= set(shown)
    return {**shown, missing: only[missing]}


def expressions() -> list[tuple[str, str]]:
    found = [(rule["alert"], rule["expr"]) for rule in RULES]
    for panel in DASHBOARD["panels"]:
        found += [(panel["title"], target["expr"]) for target in panel.get("targets", ())]
    return found


def test_every_metric_and_label_that_is_asked_for_is_shown(scraped: dict[str, set[str]]) -> None:
    asked = expressions()
    assert len(asked) > 50
    for title, expression in asked:
        used = set(_METRIC.findall(expression))
        assert used <= set(scraped), f"{title}: {used - set(scraped)}"
        labels = {label for name in used for label in scraped[name]} | SET_BY_PROMETHEUS
        for grouping in _GROUPING.findall(expression):
            wanted = {label.strip() for label in grouping.split(",")}
            assert wanted <= labels, f"{title}: {wanted - labels}"
        for name, selector in _SELECTOR.findall(expression):
            wanted = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", selector))
            assert wanted <= scraped[name] | SET_BY_PROMETHEUS, f"{title}: {name} {wanted}"


def test_every_legend_names_labels_that_are_kept() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            kept = {label.strip() for group in _GROUPING.findall(target["expr"]) for label in group.split(",")}
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= kept | {"instance"}, panel["title"]


def test_the_dashboard_has_what_grafana_needs() -> None:
    assert DASHBOARD["schemaVersion"] >= 36
    assert DASHBOARD["uid"] == "hubwatch"
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    variables = {item["name"]: item for item in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_every_alert_says_what_to_do() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text()
    headings = {re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
                for line in guide.splitlines() if line.startswith("#")}  # fmt: skip
    for rule in RULES:
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/operating.md"
        assert anchor in headings, rule["alert"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert {"summary", "description"} <= set(rule["annotations"])
    tested = (DEPLOY / "prometheus" / "rules.test.yml").read_text()
    assert {rule["alert"] for rule in RULES} == set(re.findall(r"alertname: (\w+)", tested))


def test_every_metric_is_explained() -> None:
    guide = (ROOT / "docs" / "operating.md").read_text()
    shown = {metric.name for metric in metrics.REGISTRY.collect() if metric.name.startswith("hubwatch")}
    for name in shown:
        assert f"`{name}" in guide, name


def test_the_rules_hold_by_promtools_own_tests() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: it comes with Prometheus")
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "rules.test.yml"]):
        done = subprocess.run(
            [promtool, *command],
            cwd=DEPLOY / "prometheus",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
