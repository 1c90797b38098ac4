"""What may be forgotten goes, what is needed stays, and following a repo goes on as if nothing had happened."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from storage import blobs, deliveries, disk, history, journal, outbox, retention, subscriptions, watches
from storage.database import Database
from storage.errors import StorageError
from storage.logs import Logs
from storage.model import Attempt, DeliveryState, OutboxItem, RepoRef, Subscription
from storage.tables import blobs as blob_rows
from tests.support.models import TEMPLATE, THINKING, llama, tokenizer_config, weights
from tests.support.site import START, Site, site
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content
from tracker.housekeeping import Housekeeper, Pruned, prune
from tracker.loader import NotKept

DAY = timedelta(days=1)
NOTHING = timedelta(0)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[LoopbackHub]:
    with LoopbackHub(tmp_path / "hub") as running:
        yield running
    assert not running.crashes


STEPS: list[dict[str, Content]] = [
    {"config__json": llama(), "model__safetensors": weights()},
    {"tokenizer_config__json": tokenizer_config()},
    {"tokenizer_config__json": tokenizer_config(THINKING)},
    {"config__json": llama(rope_theta=5.0)},
    {"config__json": "{ not json"},
    {"README__md": "# words\n"},
    {"config__json": llama(rope_theta=5.0, num_hidden_layers=3)},
    {"tokenizer_config__json": tokenizer_config(TEMPLATE)},
    {"config__json": llama()},
    {"model__safetensors": weights(salt="other")},
]


def _steps(hub: LoopbackHub, name: str) -> Iterator[None]:
    repo = hub.create(name)
    for number, step in enumerate(STEPS):
        files = {path.replace("__", "."): content for path, content in step.items()}
        repo.commit(files, title=f"step {number}")
        yield


def _told(at: Site, repo: RepoRef) -> list[object]:
    """All that is known of a repo."""
    with at.database.snapshot() as tx:
        rows = history.revisions(tx, repo)
    return [rows, at.advisories(repo)]


def test_following_goes_on_as_if_nothing_was_forgotten(
    hub: LoopbackHub, database: Database, sqlite_template: Path, tmp_path: Path
) -> None:
    calm_file = tmp_path / "calm.db"
    calm_file.write_bytes(sqlite_template.read_bytes())
    calm_database = Database.open(f"sqlite:///{calm_file}")
    forgotten = 0
    with site(hub, database) as pruned, site(hub, calm_database) as calm:
        for number, _ in enumerate(_steps(hub, "acme/tiny")):
            for at in (pruned, calm):
                if not number:
                    at.watch("acme/tiny")
                at.later(days=1)
                outcome = at.poll(RepoRef.parse("acme/tiny"))
                assert outcome.error is None
            forgotten += prune(database, now=pruned.time, keep=NOTHING).contents.count
        repo = RepoRef.parse("acme/tiny")
        assert _told(pruned, repo) == _told(calm, repo)
        assert len(pruned.advisories(repo)) > 5
    calm_database.dispose()
    assert forgotten >= 3


def _count(database: Database) -> int:
    with database.snapshot() as tx:
        return tx.scalar(select(func.count()).select_from(blob_rows)) or 0


def test_what_an_open_advisory_warns_of_can_still_be_looked_at(hub: LoopbackHub, database: Database) -> None:
    repo = hub.create("acme/tiny")
    with site(hub, database) as at:
        shas = [
            repo.commit({"config.json": llama(), "model.safetensors": weights(), "a.py": "a = 1\n"}),
            repo.commit({"config.json": llama(rope_theta=2.0)}, title="opens an advisory"),
            repo.commit({"a.py": "a = 2\n"}),
            repo.commit({"config.json": llama(rope_theta=2.0, max_position_embeddings=99)}),
            repo.commit({"README.md": "# One\n"}),
            repo.commit({"README.md": "# Two\n"}),
            repo.commit({"README.md": "# Three\n"}),
        ]
        name = at.watch("acme/tiny")
        assert at.poll(name).new_revisions == len(shas)
        at.later(days=500)
        gone = prune(database, now=at.time, keep=400 * DAY)
        assert gone.contents.count == 2  # of the card, whose changes are for the record
        loader = at.services.loader
        introduced = {item.introduced for item in at.advisories(name).values() if item.open and item.severity}
        assert shas[1] in introduced
        for number in range(4):
            loader.stored(name, shas[number])
        with pytest.raises(NotKept, match=r"README\.md"):
            loader.stored(name, shas[4])
        part = loader.stored(name, shas[4], partial=True)
        assert [(gap.path, gap.reason) for gap in part.gaps] == [("README.md", "not_kept")]
        again = loader.stored(name, shas[4], source=name)
        assert again.documents["README.md"].data["body"].strip() == "# One"
        assert loader.stored(name, shas[4]) == again


def test_young_contents_stay_and_old_ones_go(hub: LoopbackHub, database: Database) -> None:
    repo = hub.create("acme/tiny")
    with site(hub, database) as at:
        repo.commit({"README.md": "# 0\n"})
        name = at.watch("acme/tiny")
        at.poll(name)
        for number in range(1, 6):
            at.later(days=10)
            repo.commit({"README.md": f"# {number}\n"})
            at.poll(name)
        at.later(days=1)
        before = _count(database)
        assert prune(database, now=at.time, keep=365 * DAY) == Pruned(orphans=retention.Contents())
        dry = prune(database, now=at.time, keep=25 * DAY, dry_run=True)
        assert _count(database) == before
        done = prune(database, now=at.time, keep=25 * DAY)
        assert done == dry
        # replaced 51-10, 41-10, 31 days ago; those replaced 21, 11 and 1 days ago stay
        assert done.contents.count == 2
        assert prune(database, now=at.time, keep=25 * DAY).contents.count == 0
        assert prune(database, now=at.time, keep=NOTHING).contents.count == 3
        assert _count(database) == 1


def test_a_content_that_another_repo_has_stays(hub: LoopbackHub, database: Database) -> None:
    with site(hub, database) as at:
        for name, texts in {"one": ["# A\n", "# B\n", "# C\n"], "two": ["# A\n"]}.items():
            repo = hub.create(f"acme/{name}")
            for text in texts:
                repo.commit({"README.md": text})
            at.poll(at.watch(f"acme/{name}"))
        at.later(days=1)
        assert prune(database, now=at.time, keep=NOTHING).contents.count == 1
        at.services.loader.stored(RepoRef.parse("acme/two"), hub.repo("acme/two").log("main")[0])
        with database.transaction() as tx:
            watches.remove(tx, RepoRef.parse("acme/two"))
        assert prune(database, now=at.time, keep=NOTHING).contents.count == 0
        assert prune(database, now=at.time, keep=NOTHING, unwatched=True).contents.count == 1
        again = at.watch("acme/two")
        hub.repo("acme/two").commit({"config.json": llama()})
        assert at.services.loader.stored(again, hub.repo("acme/two").log("main")[1], source=again).documents


def test_orphans_go_unless_a_check_is_under_way(hub: LoopbackHub, database: Database) -> None:
    with site(hub, database) as at:
        hub.create("acme/tiny").commit({"README.md": "# A\n"})
        name = at.watch("acme/tiny")
        at.poll(name)
        with database.transaction() as tx:
            blobs.put(tx, "git:" + "ab" * 20, b"read, and never landed")
            watch = watches.require(tx, name)
            assert watches.claim(tx, watch.id, "somebody", at.time, at.time + DAY)
        assert prune(database, now=at.time, keep=NOTHING).orphans is None
        assert _count(database) == 2
        at.later(days=2)
        gone = prune(database, now=at.time, keep=NOTHING).orphans
        assert gone is not None
        assert gone.count == 1
        assert _count(database) == 1


def test_the_oldest_goes_first_until_the_budget_holds(hub: LoopbackHub, database: Database) -> None:
    repo = hub.create("acme/tiny")
    with site(hub, database) as at:
        name = at.watch("acme/tiny")
        shas = []
        for number in range(6):
            text = f"# {random.Random(number).randbytes(60_000).hex()}\n"  # noqa: S311
            shas.append(repo.commit({"README.md": text}))
            at.poll(name)
            at.later(days=1)
        used = disk.usage(database).used
        assert prune(database, now=at.time, keep=None, budget=used * 2).contents.count == 0
        sizes = prune(database, now=at.time, keep=NOTHING, dry_run=True).contents
        assert sizes.count == 5
        keeper = Housekeeper(database, at.now, budget=used - sizes.bytes // 5)
        gone = keeper.run()
        assert gone is not None
        # a tenth of the budget is freed beyond it: of an empty PostgreSQL database that is more than all contents
        assert gone.contents.count == (2 if database.is_sqlite else 5)
        assert gone.orphans is None
        with database.snapshot() as tx:
            kept = [
                not blobs.missing(tx, [entry.content_key])
                for _, entry in history.file_versions(tx, name, "README.md")
                if entry is not None
            ][::-1]
        assert kept == [False] * gone.contents.count + [True] * (6 - gone.contents.count)
        assert keeper.run() is None  # once a day
        at.later(days=1)
        assert keeper.run() == Pruned()
        disk.vacuum(database)
        at.services.loader.stored(name, shas[-1])


def test_a_revision_that_lands_meanwhile_keeps_what_it_names(hub: LoopbackHub, database: Database) -> None:
    repo = hub.create("acme/tiny")
    with site(hub, database) as at:
        name = at.watch("acme/tiny")
        for text in ("# A\n", "# B\n", "# C\n"):
            repo.commit({"README.md": text})
        at.poll(name)
        at.later(days=1)
        known = retention.retired(database)
        back = repo.commit({"README.md": "# A\n"})
        at.poll(name)
        gone = sum((part.count for part in retention.forget(database, known, at.time)), 0)
        assert gone == 1
        at.services.loader.stored(name, back)


def test_old_logs_go_and_what_waits_stays(database: Database) -> None:
    repo = RepoRef.parse("acme/tiny")
    who = Subscription(id="s1", url="https://example.org/", created_at=START)
    with database.transaction() as tx:
        subscriptions.add(tx, who)
        for number in range(3):
            item = OutboxItem(key=f"k{number}", kind="advisory.opened", repo=repo, payload={}, created_at=START)
            outbox.append(tx, [item])
            deliveries.add(tx, "s1", message_id=f"m{number}", lane="", body={}, numbers=[], now=START)
            journal.record(tx, now=START + number * DAY, actor="a", client="c", action="watch.add", target="t")
        new = OutboxItem(key="repo.new:x", kind="repo.new", repo=repo, payload={}, created_at=START)
        outbox.append(tx, [new])
        outbox.mark_done(tx, ["k0", "k1", "repo.new:x"], now=START)
        for sent in deliveries.log(tx)[:2]:
            attempt = Attempt(at=START, delivered=True, status=204, error=None, milliseconds=1)
            deliveries.record(tx, sent, attempt, state=DeliveryState.DELIVERED, next_at=START)
    now = START + 10 * DAY
    dry = prune(database, now=now, keep=9 * DAY, dry_run=True)
    assert dry.logs == Logs(outbox=2, deliveries=2, attempts=2, journal=1)
    assert prune(database, now=now, keep=9 * DAY).logs == dry.logs
    with database.transaction() as tx:
        assert [item.key for item in outbox.pending(tx, 10)] == ["k2"]
        assert [item.message_id for item in deliveries.log(tx)] == ["m0"]
        assert outbox.append(tx, [new]) == 0


def test_a_full_disk_is_said_so_and_leaves_nothing_in_halves(sqlite_database: Database) -> None:
    with sqlite_database.transaction() as tx:
        pages = tx.exec_driver_sql("PRAGMA page_count").scalar_one()
        tx.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")
    before = _count(sqlite_database)

    def write() -> None:
        with sqlite_database.transaction() as tx:
            for number in range(100):
                blobs.put(tx, f"git:{number}", json.dumps([number * n * n for n in range(3000)]).encode())

    with pytest.raises(StorageError, match="disk is full: free some disk space") as caught:
        write()
    assert caught.value.retryable
    assert _count(sqlite_database) == before
