"""What Prometheus is told: of the database, of a process, and to whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event, insert, text

from storage import budgets, deliveries, gauges, outbox, pauses, subscriptions, watches
from storage.budgets import Quota
from storage.database import Database
from storage.model import (
    Attempt,
    DeliveryState,
    OutboxItem,
    RepoRef,
    RepoState,
    Subscription,
    Urgency,
    Watch,
)
from storage.tables import revisions
from tests.advisories.landing import Kept
from tests.tracker.hub.scripted import Script, reply
from tracker import metrics
from tracker.exposition import StoredFigures, exposition, registry_of
from tracker.hub.client import HubClient
from tracker.hub.errors import HubError
from tracker.probe.process import Sandbox
from tracker.serving import serving_metrics
from tracker.settings import MetricsSettings, Settings
from tracker.vitals import LATE_S, Vitals
from tracker.web.app import create_app

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Found:
    """Every sample of an exposition, by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def figures(database: Database, now: datetime = NOW) -> Found:
    """What a scrape tells now, nothing kept from an earlier one."""
    body, _ = exposition(registry_of(Vitals(database, lambda: now)))
    return read(body.decode())


def of(found: Found, name: str, /, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def counted(name: str, /, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def watch(database: Database, name: str, **changed: object) -> Watch:
    with database.transaction() as tx:
        made = watches.add(tx, RepoRef(owner="acme", name=name), now=NOW - timedelta(days=9))
        made = replace(made, **{"next_check_at": NOW + timedelta(hours=1), "urgency": Urgency.QUIET, **changed})
        watches.save(tx, made)
    return made


def test_it_tells_how_late_each_urgency_is(database: Database) -> None:
    for name, seconds, urgency in (
        ("hinted", 30, Urgency.HINTED),
        ("moving", 120, Urgency.MOVING),
        ("moving-too", 4000, Urgency.MOVING),
        ("quiet", -60, Urgency.QUIET),
    ):
        watch(database, name, next_check_at=NOW - timedelta(seconds=seconds), urgency=urgency)
    watch(database, "stopped", next_check_at=NOW - timedelta(days=2))
    with database.transaction() as tx:
        watches.pause(tx, RepoRef(owner="acme", name="stopped"))
    found = figures(database)
    lag = {word: of(found, "hubwatch_poll_lag_seconds", urgency=word) for word in ("hinted", "moving", "quiet")}
    assert lag == {"hinted": 30, "moving": 4000, "quiet": 0}
    assert of(found, "hubwatch_watches_due", urgency="moving") == 2
    assert of(found, "hubwatch_watches_late", urgency="moving", seconds="60") == 2
    assert of(found, "hubwatch_watches_late", urgency="moving", seconds="3600") == 1
    assert of(found, "hubwatch_watches_late", urgency="hinted", seconds="60") == 0
    assert of(found, "hubwatch_watches_paused") == 1


def test_it_tells_the_states_and_failures_of_watches(database: Database) -> None:
    watch(database, "fine")
    watch(database, "gone", state=RepoState.MISSING, errors=3, last_error="acme/gone does not exist")
    watch(database, "closed", state=RepoState.GATED)
    found = figures(database)
    assert of(found, "hubwatch_watches", state="ok") == 1
    assert of(found, "hubwatch_watches", state="missing") == 1
    assert of(found, "hubwatch_watches", state="gated") == 1
    assert of(found, "hubwatch_watches", state="token_bad") == 0
    assert of(found, "hubwatch_watches_failing") == 1


def test_it_tells_budgets_and_pauses_and_a_window_that_is_over_is_whole_again(database: Database) -> None:
    quota = Quota(
        scope="https://huggingface.co anonymous",
        name="api",
        limit=500,
        window_s=300,
        window_ends=NOW + timedelta(seconds=100),
        spent=420,
    )
    with database.transaction() as tx:
        budgets.learn(tx, quota, tolerance=timedelta(seconds=5))
        pauses.put(tx, "hub", NOW + timedelta(seconds=40), reason="acme/tiny asked too often")
    who = {"payer": "anonymous", "name": "api"}
    found = figures(database)
    assert of(found, "hubwatch_budget_limit", **who) == 500
    assert of(found, "hubwatch_budget_remaining", **who) == 80
    assert of(found, "hubwatch_budget_window_end_timestamp_seconds", **who) == quota.window_ends.timestamp()
    assert of(found, "hubwatch_pause_remaining_seconds", scope="hub") == 40
    later = figures(database, NOW + timedelta(seconds=200))
    assert of(later, "hubwatch_budget_remaining", **who) == 500
    assert of(later, "hubwatch_pause_remaining_seconds", scope="hub") == 0


def test_it_tells_what_was_not_delivered(database: Database) -> None:
    repo = watch(database, "tiny").repo
    item = OutboxItem(key="k", kind="opened", repo=repo, payload={}, created_at=NOW - timedelta(seconds=50))
    with database.transaction() as tx:
        for number, name in enumerate(("a", "b")):
            subscriptions.add(tx, subscription(name))
            for age in (10, 600):
                deliveries.add(
                    tx,
                    name,
                    message_id=f"msg_{name}{age}",
                    lane=f"lane-{age}",
                    body={},
                    numbers=(),
                    now=NOW - timedelta(seconds=age + number),
                )
        outbox.append(tx, [item])
        deliveries.bury(tx, "b", reason="gone", now=NOW)
        subscriptions.disable(tx, "b", reason="gone", now=NOW)
    found = figures(database)
    assert of(found, "hubwatch_deliveries_pending") == 2
    assert of(found, "hubwatch_delivery_oldest_seconds") == 600
    assert of(found, "hubwatch_dead_letters") == 2
    assert of(found, "hubwatch_outbox_waiting") == 1
    assert of(found, "hubwatch_subscriptions", enabled="yes") == 1
    assert of(found, "hubwatch_subscriptions", enabled="no") == 1


def subscription(name: str) -> Subscription:
    return Subscription(id=name, url="https://hooks.example/x", secret=None, created_at=NOW)


def test_what_lands_is_counted_once_whoever_lands_it(database: Database) -> None:
    kept = Kept(database)
    kept.rope("A", "B")
    news = gauges.News()
    news.look(database)
    assert not news.revisions
    kept.rope("C", "A")
    for _ in range(3):
        news.look(database)
    assert news.revisions == {False: 2}
    assert sum(count for (action, _), count in news.advisories.items() if action == "opened") >= 1
    assert set(dict(news.advisories)) <= {
        (action, severity)
        for action in ("opened", "superseded", "fixed", "reintroduced")
        for severity in ("info", "low", "medium", "high", "critical")
    }


def test_a_row_that_is_committed_after_a_later_one_is_counted(database: Database) -> None:
    Kept(database).rope("A")
    news = gauges.News()
    news.look(database)
    with database.snapshot() as tx:
        row = dict(tx.execute(revisions.select()).mappings().one())
    for number in (row["id"] + 10, row["id"] + 9):
        again = {**row, "id": number, "sha": f"{number:040x}", "position": number}
        with database.transaction() as tx:
            tx.execute(insert(revisions).values(**again))
        news.look(database)
    assert sum(news.revisions.values()) == 2


def test_attempts_are_counted_by_outcome(database: Database) -> None:
    with database.transaction() as tx:
        subscriptions.add(tx, subscription("a"))
        deliveries.add(tx, "a", message_id="msg_1", lane="x", body={}, numbers=(), now=NOW)
        (message,) = deliveries.due(tx, "a", NOW, 5)
    news = gauges.News()
    news.look(database)
    for delivered in (False, True):
        attempt = Attempt(at=NOW, delivered=delivered, status=200, error=None, milliseconds=3)
        with database.transaction() as tx:
            deliveries.record(tx, message, attempt, state=DeliveryState.PENDING, next_at=NOW)
    news.look(database)
    assert news.attempts == {True: 1, False: 1}


@pytest.mark.postgres
def test_jobs_are_counted_where_there_is_a_queue(postgres_database: Database) -> None:
    assert ("hubwatch_queue_jobs", frozenset({("status", "todo")})) not in figures(postgres_database)
    place = "hubwatch_queue_0123abcd"
    with postgres_database.transaction() as tx:
        tx.execute(text(f"CREATE SCHEMA {place}"))
        tx.execute(text(f"CREATE TABLE {place}.procrastinate_jobs (id serial, status text)"))
        for status in ("todo", "todo", "succeeded"):
            tx.execute(text(f"INSERT INTO {place}.procrastinate_jobs (status) VALUES (:s)"), {"s": status})  # noqa: S608
    found = figures(postgres_database)
    assert of(found, "hubwatch_queue_jobs", status="todo") == 2
    assert of(found, "hubwatch_queue_jobs", status="doing") == 0
    assert of(found, "hubwatch_database_bytes") > 0


def test_a_scrape_asks_the_database_at_most_every_few_seconds(sqlite_database: Database) -> None:
    asked: list[str] = []
    event.listen(sqlite_database.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    moment = [0.0]
    stored = StoredFigures(sqlite_database, lambda: NOW, lambda: moment[0])
    list(stored.collect())
    first = len(asked)
    assert first
    list(stored.collect())
    assert len(asked) == first
    moment[0] = 11.0
    list(stored.collect())
    assert first < len(asked)
    assert sum("FROM repos JOIN watches" in statement for statement in asked) == 1
    moment[0] = 61.0
    list(stored.collect())
    assert sum("FROM repos JOIN watches" in statement for statement in asked) == 2


def test_what_is_due_is_found_by_an_index(sqlite_database: Database) -> None:
    asked: list[tuple[str, object]] = []
    event.listen(sqlite_database.engine, "before_cursor_execute", lambda *args: asked.append((args[2], args[3])))
    gauges.pressing(sqlite_database, NOW)
    for table in ("watches", "deliveries", "outbox"):
        (statement, values) = next(item for item in asked if f"FROM {table} " in item[0].replace("\n", " "))
        with sqlite_database.snapshot() as tx:
            plan = tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
        assert any("USING INDEX" in str(row) for row in plan), plan


def test_a_database_that_cannot_be_read_leaves_only_its_own_figures_out(sqlite_database: Database) -> None:
    with sqlite_database.transaction() as tx:
        tx.execute(text("DROP TABLE notices"))
    found = figures(sqlite_database)
    assert of(found, "hubwatch_database_up") == 0
    assert not any(name == "hubwatch_watches" for name, _ in found)
    assert any(name == "process_resident_memory_bytes" for name, _ in found)


def test_no_name_from_a_repo_is_a_label(database: Database) -> None:
    repo = watch(database, "s3cret-project", errors=1, last_error="acme/s3cret-project: no", hub_id="h1dden").repo
    metrics.failed("upstream")
    metrics.requested("api", 200, 0.1)
    body, _ = exposition(registry_of(Vitals(database, lambda: NOW)))
    assert repo.name not in body.decode()
    assert "acme" not in body.decode()


def test_a_worker_leaves_the_database_to_others(sqlite_database: Database) -> None:
    body, _ = exposition(registry_of(Vitals(sqlite_database, lambda: NOW, ("worker",))))
    assert b"hubwatch_checks_running" in body
    assert b"hubwatch_database_up" not in body


# --- what a process counts -------------------------------------------------------------------------


@dataclass
class Checker:
    """What `Worker.check` looks like."""

    status: str = "ok"

    @metrics.observed
    def check(self, watch: Watch, *, fail: bool = False) -> Checker:
        assert counted("hubwatch_checks_running") == 1
        if fail:
            raise RuntimeError("no")
        return self


def test_a_check_is_counted_timed_and_told_how_late_it_began(sqlite_database: Database) -> None:
    late = watch(
        sqlite_database, "a", next_check_at=datetime.now(UTC) - timedelta(hours=2), urgency=Urgency.HINTED
    )
    names = {
        "checks": ("hubwatch_checks_total", {"status": "unchanged"}),
        "seconds": ("hubwatch_check_seconds_count", {"status": "unchanged"}),
        "lag": ("hubwatch_check_lag_seconds_count", {"urgency": "hinted"}),
        "short": ("hubwatch_check_lag_seconds_bucket", {"urgency": "hinted", "le": "3600.0"}),
    }
    before = {key: counted(name, **labels) for key, (name, labels) in names.items()}
    assert Checker("unchanged").check(late).status == "unchanged"
    with pytest.raises(RuntimeError):
        Checker("unchanged").check(late, fail=True)
    after = {key: counted(name, **labels) - before[key] for key, (name, labels) in names.items()}
    assert after == {"checks": 1, "seconds": 1, "lag": 2, "short": 0}
    assert counted("hubwatch_checks_running") == 0


def test_requests_are_counted_by_quota_and_answer() -> None:
    kinds = ("/api/models/a/b", "/a/b/resolve/main/x", "/a/b.git/info/refs", "/xet-bridge/0123/ab")
    assert [metrics.kind_of(path) for path in kinds] == ["api", "resolvers", "git", "storage"]
    repo = RepoRef(owner="acme", name="tiny")
    before = {
        status: counted("hubwatch_hub_requests_total", kind="api", status=status)
        for status in ("404", "unreachable", "other")
    }
    with Script() as server:
        server.fallback = reply({}, 404)
        with pytest.raises(HubError):
            HubClient(server.url, None, deadline_s=10, connect_s=5, read_s=5).head(repo)
    with pytest.raises(HubError):
        HubClient("http://127.0.0.1:9", None, deadline_s=5, connect_s=2, read_s=2).head(repo)
    metrics.requested("api", 799, 0.1)
    after = {
        status: counted("hubwatch_hub_requests_total", kind="api", status=status) - count
        for status, count in before.items()
    }
    assert after == {"404": 1, "unreachable": 1, "other": 1}


def test_children_that_die_are_counted(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text("raise SystemExit(3)\n")
    started = counted("hubwatch_probe_children_started_total", kind="templates")
    died = counted("hubwatch_probe_failures_total", kind="templates", reason="died")
    sandbox = Sandbox("templates", script=script, start_seconds=10)
    for _ in range(2):
        assert sandbox.ask({}, seconds=1) == {"gap": "died"}
    assert counted("hubwatch_probe_children_started_total", kind="templates") - started == 2
    assert counted("hubwatch_probe_failures_total", kind="templates", reason="died") - died == 2


# --- who may read, and the routes beside it --------------------------------------------------------


def site(database: Database, vitals: Vitals | None = None, **settings: object) -> TestClient:
    made = Settings(database_url="sqlite:///unused.db", **settings)
    return TestClient(create_app(made, database, vitals=vitals, clock=lambda: NOW), raise_server_exceptions=False)


def test_metrics_follow_the_read_access_unless_opened(sqlite_database: Database) -> None:
    assert site(sqlite_database).get("/metrics").status_code == 200
    closed = site(sqlite_database, web={"read": "token"})
    assert closed.get("/metrics").status_code == 401
    opened = site(sqlite_database, web={"read": "token"}, metrics={"open": True})
    assert opened.get("/metrics").status_code == 200
    assert opened.get("/api/v1/repos").status_code == 401


def test_it_speaks_openmetrics_where_asked(sqlite_database: Database) -> None:
    client = site(sqlite_database)
    assert client.get("/metrics").headers["content-type"].startswith("text/plain; version=")
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_ready_means_a_database_of_our_schema(sqlite_database: Database) -> None:
    client = site(sqlite_database)
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, "ok\n")
    with sqlite_database.transaction() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "another schema" in answer.text
    assert client.get("/healthz").status_code == 200


def test_a_database_that_is_gone_is_told_without_its_place(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path}/x.db")
    (tmp_path / "x.db").write_bytes(b"not a database" * 100)
    answer = site(database).get("/readyz")
    assert answer.status_code == 503
    assert answer.text == "the database cannot be used\n"
    assert answer.headers["retry-after"]


def test_a_scheduler_must_go_on_ticking(sqlite_database: Database) -> None:
    moment = [0.0]
    vitals = Vitals(sqlite_database, lambda: NOW, ("scheduler",), ("due",), lambda: moment[0])
    client = site(sqlite_database, vitals)
    assert client.get("/readyz").status_code == 200  # time for the first tick
    moment[0] = LATE_S + 1
    assert "'due'" in client.get("/readyz").text
    vitals.beat("due")
    assert client.get("/readyz").status_code == 200
    assert of(read(client.get("/metrics").text), "hubwatch_tick_timestamp_seconds", tick="due") == NOW.timestamp()
    moment[0] += LATE_S + 1
    assert client.get("/readyz").status_code == 503
    idle = Vitals(sqlite_database, lambda: NOW, ("web",), (), lambda: moment[0] + 1000)
    assert site(sqlite_database, idle).get("/readyz").status_code == 200


def test_a_process_without_pages_has_a_port_of_its_own(sqlite_database: Database) -> None:
    vitals = Vitals(sqlite_database, lambda: NOW, ("worker",))
    with serving_metrics(MetricsSettings(), vitals) as url:
        assert url == ""
    with serving_metrics(MetricsSettings(port=0), vitals) as url:
        assert fetch(f"{url}healthz") == (200, "ok\n")
        assert fetch(f"{url}readyz") == (200, "ok\n")
        status, told = fetch(f"{url}metrics")
        assert (status, "hubwatch_build_info" in told) == (200, True)
        assert fetch(f"{url}else")[0] == 404
        assert fetch(f"{url}metrics", method="POST")[0] == 405
        with sqlite_database.transaction() as tx:
            tx.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        assert fetch(f"{url}readyz")[0] == 503
    with pytest.raises(httpx.ConnectError):
        fetch(f"{url}healthz")


def fetch(url: str, method: str = "GET") -> tuple[int, str]:
    answer = httpx.request(method, url, timeout=10)
    return answer.status_code, answer.text


def test_our_answers_are_counted_by_what_we_know(sqlite_database: Database) -> None:
    client = site(sqlite_database)
    before = counted("hubwatch_http_requests_total", method="GET", status="404")
    odd = counted("hubwatch_http_requests_total", method="other", status="405")
    client.get("/nothing-here")
    client.request("BREW", "/healthz")
    assert counted("hubwatch_http_requests_total", method="GET", status="404") == before + 1
    assert counted("hubwatch_http_requests_total", method="other", status="405") == odd + 1
