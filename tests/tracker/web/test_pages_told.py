"""What the pages say of downloads, of deliveries, of estimates beside measured runs; and how large they get."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from storage import blobs, budgets, deliveries, figures, glance, history, subscriptions, watches
from storage.database import Database
from storage.model import (
    Attempt,
    Delivery,
    DeliveryState,
    FileEntry,
    Landing,
    Manifest,
    RepoRef,
    Scope,
    Severity,
    Subscription,
)
from tests.accuracy.rows import results, text
from tests.accuracy.runs import load
from tests.advisories.landing import Kept
from tests.advisories.story import REPO, revision, sha
from tests.tracker.web.conftest import NOW, OTHER, Site, _estimate, _findings
from tests.tracker.web.test_pages import HERE, HTML, LARGEST, get, secret_of, send
from tracker.web.pages.measured import accuracy
from tracker.web.pages.sides import prompt_sides
from tracker.web.pages.told import sections
from tracker.web.pages.warm import warm

# --- downloads -----------------------------------------------------------------------------------


def downloaded(site: Site, number: int | None) -> None:
    with site.database.transaction() as tx:
        watch = watches.add(tx, REPO, now=NOW)
        watches.save(tx, replace(watch, downloads=number))


def test_downloads_are_in_the_headline_and_on_the_card_where_the_hub_told_them(site: Site) -> None:
    assert "downloads in the last" not in get(site, HERE).text
    downloaded(site, 1_234_567)
    assert "1,234,567 downloads in the last month, as the Hub says." in get(site, HERE).text
    assert "| Downloads in a month | 1,234,567 |" in site.client.get(f"{HERE}/card.md").text
    assert "1,234,567" in site.client.get(f"{HERE}/card.svg").text
    with site.database.snapshot() as tx:
        assert glance.downloads(tx, REPO) == 1_234_567
        assert glance.downloads(tx, OTHER) is None


def test_one_download_is_one(site: Site) -> None:
    downloaded(site, 1)
    assert "1 download in the last month" in get(site, HERE).text


# --- deliveries ----------------------------------------------------------------------------------


def subscribed(database: Database, number: int = 0, *, url: str = "https://hooks.example.org/x") -> str:
    made = f"sub_{number:012x}"
    with database.transaction() as tx:
        subscriptions.add(tx, Subscription(id=made, url=url, secret=None, created_at=NOW))
    return made


def message(database: Database, subscription: str, name: str, state: DeliveryState, title: str = "news") -> None:
    body = {"type": "advisories.changed", "data": {"title": title}}
    with database.transaction() as tx:
        deliveries.add(
            tx, subscription, message_id=name, lane=name, body=body, numbers=(), now=NOW - timedelta(hours=1)
        )
        if state is DeliveryState.PENDING:
            return
        kept: Delivery = deliveries.get(tx, name)
        good = state is DeliveryState.DELIVERED
        status, error = (204, None) if good else (500, "the receiver answered 500")
        attempt = Attempt(at=NOW, delivered=good, status=status, error=error, milliseconds=41)
        deliveries.record(tx, kept, attempt, state=state, next_at=NOW)


def states(database: Database, subscription: str) -> dict[str, str]:
    with database.snapshot() as tx:
        return {item.message_id: item.state.value for item in deliveries.log(tx, subscription_id=subscription)}


def test_deliveries_are_shown_with_a_token_the_given_up_ones_first(site: Site) -> None:
    one, other = subscribed(site.database), subscribed(site.database, 1, url="https://second.example.org/")
    message(site.database, one, "msg_dead", DeliveryState.DEAD, title="<b>lost</b>\u202e")
    for number in range(12):
        message(site.database, one, f"msg_{number}", DeliveryState.DELIVERED)
    message(site.database, other, "msg_waiting", DeliveryState.PENDING)
    assert "msg_" not in get(site, "/watches").text
    answer = send(site, action="look", token=secret_of(site, Scope.READ))
    assert answer.status_code == 200, answer.text
    told = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))
    assert "given up 1 500 41 ms &lt;b&gt;lost&lt;/b&gt;\\u{202e} the receiver answered 500 msg_dead" in told
    assert "delivered 1 204 41 ms news msg_11" in told
    assert told.index("msg_dead") < told.index("msg_11")
    assert "msg_0 " not in told  # the latest ten
    assert "to be sent 0 – – news msg_waiting" in told
    assert send(site, action="look", token="hubwatch_no").status_code == 401


def test_messages_are_sent_again_by_a_form(site: Site) -> None:
    one = subscribed(site.database)
    message(site.database, one, "msg_dead", DeliveryState.DEAD)
    message(site.database, one, "msg_sent", DeliveryState.DELIVERED)
    fields = {"action": "replay", "subscription": one}
    for token, status in ((secret_of(site, Scope.READ), 403), ("", 401)):
        assert send(site, **fields, token=token).status_code == status
    assert states(site.database, one) == {"msg_dead": "dead", "msg_sent": "delivered"}
    token = secret_of(site, Scope.WRITE, name="writer")
    assert "1 message of" in send(site, **fields, token=token).text
    assert states(site.database, one) == {"msg_dead": "pending", "msg_sent": "delivered"}
    assert "1 message of" in send(site, **fields, since="2h", token=token).text
    assert states(site.database, one) == {"msg_dead": "pending", "msg_sent": "pending"}
    assert send(site, **fields, since="soon", token=token).status_code == 400
    assert send(site, action="replay", subscription="sub_none", token=token).status_code == 404
    with site.database.transaction() as tx:
        subscriptions.disable(tx, one, reason="gone", now=NOW)
    assert send(site, **fields, token=token).status_code == 400
    assert "is told again" in send(site, action="enable", subscription=one, token=token).text


# --- estimates beside measured runs --------------------------------------------------------------


def test_the_page_on_estimators_has_every_run_and_adds_up(site: Site) -> None:
    page, known = get(site, "/estimators"), accuracy()
    assert page.text.count(" GB right") + page.text.count("– ") >= 1
    for group in known.groups:
        assert f"{group.name} {group.caught} of {group.misfits}" in page.text
    for total, parts in (
        (sum(group.caught for group in known.groups), sum(item.caught for item in known.by_source)),
        (sum(group.misfits for group in known.groups), sum(item.misfits for item in known.by_source)),
        (sum(group.alarms for group in known.groups), sum(item.alarms for item in known.by_source)),
        (sum(group.fits for group in known.groups), sum(item.fits for item in known.by_source)),
        (len(known.runs), sum(item.runs for item in known.by_source)),
    ):
        assert total == parts
    for run in known.runs:
        assert f"{run.model} {run.method} {run.batch} × {run.seq:,}" in page.text
    assert all(run.why for run in known.wrong)
    assert "/estimators" in get(site, HERE).links


@pytest.mark.corpus
def test_what_ships_of_the_measured_runs_is_current(corpus: Path) -> None:
    runs, left = load(corpus)
    shipped = (resources.files("tracker.estimate") / "data" / "accuracy.json").read_text("utf-8")
    assert shipped == text(runs, left), "run python -m tests.accuracy --write"
    assert json.loads(shipped) == results(runs, left)


def test_what_is_spent_of_the_hubs_quotas_is_on_the_health_page(site: Site) -> None:
    assert "Quota" not in get(site, "/health").text
    for name, ends in (("api", NOW + timedelta(minutes=2)), ("resolvers", NOW - timedelta(minutes=2))):
        quota = budgets.Quota(
            scope="payer of secrets", name=name, limit=1000, window_s=300, window_ends=ends, spent=250
        )
        with site.database.transaction() as tx:
            budgets.learn(tx, quota, tolerance=timedelta(seconds=1))
    told = get(site, "/health").text
    assert "api 250 1,000 25% 300 s, until 2026-06-01 00:02 UTC" in told
    assert "resolvers 0 1,000 0% 300 s, over" in told
    assert "payer of secrets" not in told


# --- long histories ------------------------------------------------------------------------------


def land(site: Site, number: int, files: dict[str, FileEntry], **more: Any) -> None:
    landing = Landing(
        repo=more.pop("repo", REPO),
        ref="main",
        revision=more.pop("revision", revision(number)),
        observed_at=NOW,
        backfill=False,
        manifest=Manifest(files=files),
        gaps=(),
        findings=more.pop("findings", ()),
        estimate=more.pop("estimate", None),
        advisories=(),
        events=(),
    )
    with site.database.transaction() as tx:
        history.land(tx, landing)


def test_milestones_are_the_revisions_that_moved_config_or_weights_thinned(site: Site) -> None:
    def weight(name: str, size: int) -> dict[str, FileEntry]:
        return {name: FileEntry(path=name, size=size, blob_id=f"{size:040x}", lfs_sha256=f"{size:064x}")}

    land(site, 0, {}, repo=OTHER)
    land(site, 1, weight("a.safetensors", 10), repo=OTHER)
    land(site, 2, weight("a.safetensors", 10) | weight("b.gguf", 5), repo=OTHER)
    land(site, 3, weight("b.gguf", 7) | weight("notes.txt", 900), repo=OTHER)
    land(site, 4, weight("b.gguf", 7), repo=OTHER)  # the notes alone
    for number in range(5, 30):
        land(site, number, weight("b.gguf", number + 3), repo=OTHER)
    with site.database.snapshot() as tx:
        every = [(item.sha, item.position, item.weight_bytes) for item in figures.milestones(tx, OTHER)]
        few = [(item.sha, item.position, item.weight_bytes) for item in figures.milestones(tx, OTHER, 5)]
        assert figures.milestones(tx, RepoRef(owner="no", name="such")) == []
    assert every[:4] == [(sha(1), 1, 10), (sha(2), 2, 15), (sha(3), 3, 7), (sha(5), 5, 8)]
    assert every[-1] == (sha(29), 29, 32)
    assert len(few) == 5
    assert set(few) < set(every)
    assert (few[0], few[-1]) == (every[0], every[-1])


def test_a_search_by_key_finds_what_the_last_part_of_a_pointer_names(site: Site, monkeypatch: Any) -> None:
    def found(key: str, **more: Any) -> list[str]:
        with site.database.snapshot() as tx:
            return [item.sha for item in glance.changes_of_key(tx, key, limit=20, **more)]

    assert found("rope") == [sha(number) for number in (5, 4, 3, 2, 1)]
    assert found("/rope") == found("config.json") == found("rope")
    assert found("ope") == found("%") == found("") == []
    with site.database.snapshot() as tx:
        newest = tx.scalar(sql("select max(id) from revisions"))
        assert newest >= 6
    monkeypatch.setattr(glance, "SCANNED", 2)
    assert found("rope") == [sha(5), sha(4)]
    with site.database.transaction() as tx:
        watches.save(tx, replace(watches.add(tx, REPO, now=NOW), restricted=True))
    assert found("rope", public_only=True) == []


def test_pages_are_made_before_anybody_asks(site: Site, kept: Kept) -> None:
    warm(site.app)  # with a history, and
    with kept.database.transaction() as tx:
        tx.execute(sql("update repos set restricted = :yes"), {"yes": True})
    warm(site.app)  # with nothing that everybody may see


# --- how large they get --------------------------------------------------------------------------


def test_the_largest_pages_stay_small(site: Site) -> None:
    long = '<&">' * 400
    with site.database.transaction() as tx:
        for number in range(300):
            watch = watches.add(tx, RepoRef(owner=f"owner{number}", name="n" * 90), now=NOW)
            watches.save(tx, replace(watch, last_error=long, errors=3))
    for number in range(70):
        name = subscribed(site.database, number, url=f"https://hooks.example.org/{'x' * 200}")
        for place in range(4):
            message(site.database, name, f"msg_{number}_{place}", DeliveryState.DEAD, title=long)
    token = secret_of(site, Scope.READ)
    for path in ("/watches", "/watches?start=100", "/health", "/"):
        page = site.client.get(path, headers={**HTML, "Authorization": f"Bearer {token}"})
        assert len(page.content) < LARGEST, (path, len(page.content))


def test_a_large_comparison_and_a_deep_model_stay_small(site: Site) -> None:
    nodes = [
        {
            "name": f"model.layers.{n}.{'<' * 80}",
            "type": "Linear",
            "output_shape": "1 x 2048 x 4096",
            "parameters": n,
        }
        for n in range(5000)
    ]
    estimate = replace(_estimate(6), body={**_estimate(6).body, "structure": nodes})
    files: dict[str, FileEntry] = {}
    sides: list[dict[str, FileEntry]] = []
    for side in (0, 1):
        contents = {
            "config.json": json.dumps({f"key{n}_{'<' * 60}": f"{side}{'&' * 900}" for n in range(300)}),
            "tokenizer_config.json": json.dumps({"chat_template": f"{side}{{{{ messages }}}}" + "<&>\n" * 4000}),
            **{f"code{n}.py": "\n".join(f"x{k} = '{side}<&>{'y' * 150}'" for k in range(800)) for n in range(20)},
        }
        files = {}
        with site.database.transaction() as tx:
            for number, (path, content) in enumerate(contents.items()):
                entry = FileEntry(path=path, size=len(content), blob_id=f"{side}{number:039x}")
                blobs.put(tx, entry.content_key, content.encode())
                files[path] = entry
        sides.append(files)
    (finding,) = _findings(1, "B")
    change = replace(finding.change, summary="<&" * 2000, before="<" * 4000, after="&" * 4000)
    many = tuple(replace(finding, change=change, severity=Severity.CRITICAL) for _ in range(120))
    for number in range(6, 50):
        land(site, number, sides[number % 2], findings=many[: 120 if number > 47 else 9], estimate=estimate)
    for path in (HERE, f"{HERE}?node=250", f"{HERE}/changes", "/"):
        get(site, path)
    page = get(site, f"{HERE}/compare/{sha(48)}...{sha(49)}")
    ids = {attrs.get("id") for _, attrs in page.tags}
    assert {"config", "template", "code", "prompts", "files", "texts"} <= ids
    assert "more lines: on the Hub" in page.text
    assert '"capped"' not in page.text


def test_rows_of_a_comparison_share_the_room_the_gravest_first() -> None:
    (finding,) = _findings(1, "B")
    loud = replace(finding.change, summary="<&" * 500, before="<" * 900, after="&" * 900)
    many = [
        replace(finding, change=replace(loud, cls=cls, path=f"{cls}.json"), severity=severity)
        for cls in ("config.rope", "tokenizer.merges", "card.only")
        for severity in (Severity.LOW, Severity.CRITICAL)
        for _ in range(100)
    ]
    made = {name: (rows, total) for name, _, rows, total in sections(many)}
    assert set(made) == {"config", "tokenizer", "other"}
    for rows, total in made.values():
        assert total == 200
        assert 5 < len(rows) < 60
        assert {row.severity for row in rows} == {Severity.CRITICAL}
    assert [len(rows) for _, _, rows, _ in sections([finding])] == [1]


def test_a_prompt_shows_what_differs_also_far_down() -> None:
    same = "".join(f"line {number}\n" for number in range(200))
    before, after = prompt_sides(f"{same}old\nend\n", f"{same}new\nend\n", room=400)
    assert "<del>old" in before
    assert "<ins>new" in after
    assert "194 lines that are the same" in before
    assert "line 2<" in before
    assert "line 3<" not in before
    cut, _ = prompt_sides(" \t" * 5000, "x", room=400)
    assert len(cut) < 1000
    assert "more characters" in cut
