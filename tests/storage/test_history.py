"""Revisions, trees, and histories that are rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import advisories, blobs, changes, estimates, history, meta, outbox, pauses, watches
from storage.database import Database, Transaction
from storage.errors import NotFound, StorageError
from storage.model import (
    AdvisoryAction,
    AdvisoryEvent,
    Estimate,
    EstimateStatus,
    FileEntry,
    Gap,
    OutboxItem,
    RepoRef,
    Span,
)
from storage.tables import metadata
from tests.storage.support import NOW, OTHER, REPO, advisory, finding, landing, revision, sha, tree

on_a_database = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _contents(tx: Transaction) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the database."""
    return {
        table.name: sorted((tuple(row) for row in tx.execute(sa.select(table))), key=repr)
        for table in metadata.sorted_tables
    }


def _shas(found: Sequence[Any]) -> list[str]:
    return [item.revision.sha for item in found]


ESTIMATE = Estimate(
    estimator="exact",
    version="1",
    status=EstimateStatus.EXACT,
    source="closed_form",
    model_type="llama",
    architecture="LlamaForCausalLM",
    body={"parameters": {"total": 2**70}},
)


def _full_landing(label: object) -> Any:
    opened = advisory(1, Span(introduced=sha(label)))
    event = AdvisoryEvent(advisory_id=opened.id, action=AdvisoryAction.OPENED, sha=sha(label))
    item = OutboxItem(key="k1", kind="advisory.opened", repo=REPO, payload={"id": opened.id}, created_at=NOW)
    return landing(
        label,
        {"config.json": "a", "README.md": "b"},
        revision=revision(label, parents=(sha("x"), sha("y"))),
        gaps=(Gap(path="b", reason="too_large", detail="x"), Gap(path="a", reason="fetch", detail="y")),
        findings=(finding("b"), finding("a", pointer=None)),
        estimate=ESTIMATE,
        advisories=(opened,),
        events=(event,),
        outbox=(item,),
    )


def test_a_landing_is_kept_whole(database: Database) -> None:
    given_landing = _full_landing(1)
    with database.transaction() as tx:
        kept = history.land(tx, given_landing)
    with database.snapshot() as tx:
        assert kept == history.get(tx, REPO, sha(1)) == history.head(tx, REPO)
        assert (kept.revision, kept.position) == (given_landing.revision, 0)
        assert (kept.observed_at, kept.backfill) == (NOW, False)
        assert kept.manifest_digest == given_landing.manifest.digest
        assert history.manifest(tx, REPO, sha(1)) == given_landing.manifest
        assert history.gaps(tx, REPO, sha(1)) == given_landing.gaps
        assert changes.of(tx, REPO, sha(1)) == given_landing.findings
        assert estimates.of(tx, REPO, sha(1)) == ESTIMATE
        assert estimates.of(tx, REPO, sha(1), "classic") is None
        assert advisories.of_repo(tx, REPO) == list(given_landing.advisories)
        assert advisories.events(tx, REPO, [sha(1), sha(2)]) == {sha(1): list(given_landing.events), sha(2): []}
        assert outbox.pending(tx, 10) == list(given_landing.outbox)


def test_landing_again_writes_nothing(database: Database) -> None:
    with database.transaction() as tx:
        first = history.land(tx, _full_landing(1))
        history.land(tx, landing(2))
        before = _contents(tx)
    with database.transaction() as tx:
        again = replace(_full_landing(1), observed_at=NOW + timedelta(days=1), backfill=True)
        assert history.land(tx, again) == first
        assert _contents(tx) == before


def test_a_landing_that_fails_leaves_nothing(database: Database) -> None:
    with database.transaction() as tx:
        before = _contents(tx)
    stranger = AdvisoryEvent(advisory_id="unknown", action=AdvisoryAction.OPENED, sha=sha(1))
    with pytest.raises(StorageError), database.transaction() as tx:
        history.land(tx, replace(_full_landing(1), events=(stranger,)))
    with database.transaction() as tx:
        assert _contents(tx) == before


names = st.sampled_from(["config.json", "a/b.py", "README.md", "model.safetensors", "x\x00", "\ud800"])
trees = st.dictionaries(names, st.sampled_from(["one", "two", "three"]), max_size=5)


@given(st.lists(trees, max_size=12))
@on_a_database
def test_every_tree_is_what_was_landed(database: Database, given_trees: list[dict[str, str]]) -> None:
    with database.transaction() as tx:
        history.rewind(tx, REPO, None)
        run = str(tx.scalar(sa.text("SELECT count(*) FROM revisions")))
        for number, files in enumerate(given_trees):
            history.land(tx, landing((run, number), files))
        for number, files in enumerate(given_trees):
            found = history.manifest(tx, REPO, sha((run, number)))
            assert found == tree(files)
            assert found.digest == history.get(tx, REPO, sha((run, number))).manifest_digest
        for path in {path for files in given_trees for path in files}:
            versions = history.file_versions(tx, REPO, path)
            expected: list[tuple[str, FileEntry | None]] = []
            previous = None
            for number, files in enumerate(given_trees):
                entry = tree(files).files.get(path)
                if entry != previous:
                    expected.insert(0, (sha((run, number)), entry))
                previous = entry
            assert [(item.revision.sha, entry) for item, entry in versions] == expected


moves = st.lists(st.tuples(st.sampled_from(["land", "rewind", "return"]), st.integers(0, 7)), max_size=14)


@given(moves)
@on_a_database
def test_a_rewritten_history_keeps_every_tree(database: Database, steps: list[tuple[str, int]]) -> None:
    """Random landings, rewinds and force-pushes back, against a model in Python."""
    chain: list[str] = []
    known: dict[str, dict[str, str]] = {}
    parent: dict[str, str | None] = {}
    with database.transaction() as tx:
        history.land(tx, landing("before"))
        history.rewind(tx, REPO, None)
        run = str(tx.scalar(sa.text("SELECT count(*) FROM revisions")))
        for number, (step, choice) in enumerate(steps):
            if step == "rewind":
                to = chain[choice % len(chain)] if chain and choice < 7 else None
                history.rewind(tx, REPO, sha(to) if to else None)
                chain = chain[: chain.index(to) + 1] if to else []
            elif step == "return":
                tip = chain[-1] if chain else None
                fallen = [label for label in known if label not in chain and parent[label] == tip]
                if not fallen:
                    continue
                label = fallen[choice % len(fallen)]
                history.land(tx, landing(label, known[label], observed_at=NOW + timedelta(days=9)))
                chain.append(label)
            else:
                label = f"{run}-{number}"
                files = {f"f{(number * choice) % 4}": label, f"f{choice % 3}": f"w{choice}"}
                parent[label] = chain[-1] if chain else None
                known[label] = files
                history.land(tx, landing(label, files))
                chain.append(label)
        shas = [sha(label) for label in chain]
        assert _shas(history.revisions(tx, REPO, newest_first=False)) == shas
        assert list(history.chain(tx, REPO).shas) == shas
        assert [item.position for item in history.revisions(tx, REPO, newest_first=False)] == list(
            range(len(shas))
        )
        assert history.count(tx, REPO) == len(shas)
        for label, files in known.items():
            assert history.manifest(tx, REPO, sha(label)) == tree(files)
            assert history.get(tx, REPO, sha(label)).observed_at == NOW


def _land_all(tx: Transaction, *labels: str) -> None:
    for label in labels:
        history.land(tx, landing(label))


def test_lists_by_pages(database: Database) -> None:
    with database.transaction() as tx:
        _land_all(tx, *"abcde")
        newest = history.revisions(tx, REPO, limit=2)
        assert _shas(newest) == [sha("e"), sha("d")]
        assert _shas(history.revisions(tx, REPO, limit=2, before_position=newest[-1].position)) == [
            sha("c"),
            sha("b"),
        ]
        assert _shas(history.revisions(tx, REPO, newest_first=False, limit=1)) == [sha("a")]
        assert history.known_repos(tx) == [REPO]


def test_what_fell_off_is_found_by_sha_only(database: Database) -> None:
    with database.transaction() as tx:
        _land_all(tx, "a", "b", "c")
        assert history.rewind(tx, REPO, sha("a")) == 2
        assert history.rewind(tx, REPO, sha("a")) == 0
        assert history.head(tx, REPO) == history.get(tx, REPO, sha("a"))
        assert history.get(tx, REPO, sha("c")).position == 2
        assert history.resolve(tx, REPO, sha("c")[:12]).revision.sha == sha("c")
        assert history.manifest(tx, REPO, sha("c")) == tree({"config.json": "c"})
        _land_all(tx, "d")
        assert _shas(history.revisions(tx, REPO)) == [sha("d"), sha("a")]
        assert [entry for _, entry in history.file_versions(tx, REPO, "config.json")] == [
            tree({"config.json": label}).files["config.json"] for label in "da"
        ]
        with pytest.raises(NotFound, match="hubwatch history acme/tiny"):
            history.rewind(tx, REPO, sha("b"))


def test_a_returned_revision_says_what_its_new_landing_says(database: Database) -> None:
    with database.transaction() as tx:
        history.land(tx, landing("b", findings=(finding("first"),), backfill=True))
        history.rewind(tx, REPO, None)
        history.land(tx, landing("a"))
        later = NOW + timedelta(days=3)
        kept = history.land(tx, landing("b", findings=(finding("second"),), observed_at=later))
        assert (kept.position, kept.observed_at, kept.backfill) == (1, NOW, True)
        assert [item.change.path for item in changes.of(tx, REPO, sha("b"))] == ["second"]


def test_resolving(database: Database) -> None:
    one, two, three = "abcd1" + "0" * 35, "abcd2" + "0" * 35, "1234" + "f" * 36
    with database.transaction() as tx:
        for full in (one, two, three):
            history.land(tx, landing(full, revision=revision(full, sha=full)))
        for rev in ("main", three, three.upper(), "1234", "1234f"):
            assert history.resolve(tx, REPO, rev).revision.sha == three
        assert history.resolve(tx, REPO, "ABCD1").revision.sha == one
        with pytest.raises(NotFound, match=f"write more of it: {one}, {two}"):
            history.resolve(tx, REPO, "abcd")
        for rev in ("123", "", "9999", "v1.0", "1234%", "\x00", "\ud800", "0" * 40):
            with pytest.raises(NotFound, match="hubwatch history acme/tiny"):
                history.resolve(tx, REPO, rev)
        with pytest.raises(NotFound, match="hubwatch watch add acme/other"):
            history.resolve(tx, OTHER, "main")


def test_refs_are_histories_of_their_own(database: Database) -> None:
    with database.transaction() as tx:
        watches.add(tx, REPO, now=NOW, ref="dev")
        history.land(tx, landing("a", ref="dev", findings=(finding("dev"),)))
        history.land(tx, landing("a", ref="main", findings=(finding("main"),)))
        history.land(tx, landing("b", ref="main"))
        assert _shas(history.revisions(tx, REPO)) == [sha("a")]
        assert _shas(history.revisions(tx, REPO, ref="main")) == [sha("b"), sha("a")]
        assert history.resolve(tx, REPO, "main").revision.sha == sha("b")
        assert history.manifest(tx, REPO, sha("b")) == tree({"config.json": "b"})
        assert [item.change.path for item in changes.of(tx, REPO, sha("a"))] == ["dev"]


def test_the_chain_of_a_ref(database: Database) -> None:
    with database.transaction() as tx:
        for label, author, word in (("a", "ada", "x"), ("b", "bob", "y"), ("c", "eve", "x"), ("d", "dan", "y")):
            history.land(tx, landing(label, {"f": word}, revision=revision(label, author=author)))
        x, y = (tree({"f": word}).digest for word in "xy")
        known = history.chain(tx, REPO)
        assert known.shas == {sha(label): place for place, label in enumerate("abcd", start=1)}
        assert known.authors == {"ada", "bob", "eve", "dan"}
        assert known.trees == {x: sha("c"), y: sha("d")}
        assert (known.tip, known.length) == (sha("d"), 4)
        history.rewind(tx, REPO, sha("a"))
        known = history.chain(tx, REPO)
        assert (known.authors, known.trees, known.tip) == ({"ada"}, {x: sha("a")}, sha("a"))
        history.land(tx, landing("e", {"f": "y"}, revision=revision("e", author="fay")))
        known.add(sha("e"), "fay", y)
        assert known == history.chain(tx, REPO)


class _Undone(Exception):
    """Rolls a transaction back."""


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=8), st.integers(0, 8))
@on_a_database
def test_together_they_land_as_one_by_one(database: Database, steps: list[tuple[int, bool]], already: int) -> None:
    landings = []
    for number, (word, warns) in enumerate(steps):
        opened = advisory(number, Span(introduced=sha(number)))
        event = AdvisoryEvent(advisory_id=opened.id, action=AdvisoryAction.OPENED, sha=sha(number))
        landings.append(
            landing(
                number,
                {f"f{part}": str(word % part) for part in range(1, 2 + word)},
                revision=revision(number),
                gaps=(Gap(path="b", reason="too_large", detail="x"),) * warns,
                findings=(finding("a"),) * warns,
                estimate=ESTIMATE if warns else None,
                advisories=(opened,) * warns,
                events=(event,) * warns,
                outbox=(OutboxItem(key=f"k{number}", kind="x", repo=REPO, payload={}, created_at=NOW),) * warns,
            )
        )
    seen = []
    for together in (False, True):
        with suppress(_Undone), database.transaction() as tx:
            history.land(tx, landing("before", {"f1": "old"}))
            for item in landings[:already]:
                history.land(tx, item)  # another node was quicker
            groups = [landings] if together else [[item] for item in landings]
            kept = [row for group in groups for row in history.land_all(tx, group)]
            shas = [item.revision.sha for item in landings]
            seen.append(
                (
                    kept,
                    [history.manifest(tx, REPO, one) for one in shas],
                    [history.gaps(tx, REPO, one) for one in shas],
                    changes.by_revision(tx, REPO, shas),
                    estimates.by_revision(tx, REPO, shas),
                    advisories.of_repo(tx, REPO),
                    advisories.events(tx, REPO, shas),
                    [item.key for item in outbox.pending(tx, 99)],
                    history.chain(tx, REPO),
                )
            )
            raise _Undone
    assert seen[0] == seen[1]
    assert seen[0][1] == [item.manifest for item in landings]


def test_an_unknown_repo(database: Database) -> None:
    with database.transaction() as tx:
        assert history.head(tx, OTHER) is None
        assert history.chain(tx, OTHER) == history.Chain()
        assert history.rewind(tx, OTHER, None) == 0
        assert changes.by_revision(tx, OTHER, ["a"]) == {"a": ()}
        assert estimates.by_revision(tx, OTHER, ["a"]) == {}
        for question in (history.get, history.manifest, history.gaps):
            with pytest.raises(NotFound, match="hubwatch watch add acme/other"):
                question(tx, OTHER, sha(1))


def test_many_revisions_at_once(database: Database) -> None:
    with database.transaction() as tx:
        for number in range(3):
            history.land(tx, landing(number, findings=(finding(str(number)),), estimate=ESTIMATE))
        asked = [sha(number) for number in range(1200)]
        found = changes.by_revision(tx, REPO, asked)
        assert [item[0].change.path for item in found.values() if item] == ["0", "1", "2"]
        assert len(found) == 1200
        assert set(estimates.by_revision(tx, REPO, asked)) == set(asked[:3])


# --- blobs, outbox, pauses, facts ----------------------------------------------------------------


@given(st.lists(st.binary(max_size=300), unique=True, max_size=5))
@on_a_database
def test_blobs_come_back_as_they_were(database: Database, contents: list[bytes]) -> None:
    keys = {f"git:{sha(data)}": data for data in contents}
    with database.transaction() as tx:
        for key, data in keys.items():
            blobs.put(tx, key, data)
            blobs.put(tx, key, data)
        assert blobs.missing(tx, [*keys, "git:none"]) == {"git:none"}
        assert {key: blobs.get(tx, key) for key in keys} == keys
        assert blobs.get(tx, "git:none") is None


def test_blobs_are_compressed(database: Database) -> None:
    from storage.tables import blobs as table

    with database.transaction() as tx:
        blobs.put(tx, "git:big", b"a" * 1_000_000)
        assert len(tx.execute(sa.select(table.c.data)).scalar_one()) < 2000


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"x\x9c"])
def test_a_damaged_blob_is_told(database: Database, damage: bytes) -> None:
    from storage.tables import blobs as table

    with database.transaction() as tx:
        blobs.put(tx, "git:x", b"abc")
        tx.execute(sa.update(table).values(data=damage))
        with pytest.raises(StorageError, match="git:x is damaged"):
            blobs.get(tx, "git:x")


def test_the_outbox_takes_each_key_once(database: Database) -> None:
    items = [
        OutboxItem(
            key=f"k{number}",
            kind="advisory.opened",
            repo=RepoRef(owner="o", name=f"n{number % 2}"),
            payload={"n": number},
            created_at=NOW,
        )
        for number in range(4)
    ]
    with database.transaction() as tx:
        assert outbox.append(tx, items[:3]) == 3
        assert outbox.append(tx, items) == 1
        assert outbox.pending(tx, 10) == items
        assert outbox.pending(tx, 2) == items[:2]
        outbox.mark_done(tx, ["k0", "k2"], now=NOW)
        assert outbox.pending(tx, 10) == [items[1], items[3]]
        assert outbox.append(tx, items) == 0
        assert outbox.prune(tx, NOW) == 0
        assert outbox.prune(tx, NOW + timedelta(seconds=1)) == 2


def test_of_two_pauses_the_longer_counts(database: Database) -> None:
    with database.transaction() as tx:
        assert pauses.until(tx, "hub") is None
        pauses.put(tx, "hub", NOW, reason="429")
        pauses.put(tx, "hub", NOW - timedelta(minutes=1), reason="shorter")
        assert (pauses.until(tx, "hub"), pauses.reason(tx, "hub")) == (NOW, "429")
        pauses.put(tx, "hub", NOW + timedelta(minutes=1), reason="longer")
        assert (pauses.until(tx, "hub"), pauses.reason(tx, "hub")) == (NOW + timedelta(minutes=1), "longer")
        assert pauses.until(tx, "webhook") is None
        pauses.clear(tx, "hub")
        assert pauses.until(tx, "hub") is None


def test_facts(database: Database) -> None:
    with database.transaction() as tx:
        assert meta.get(tx, "a") is None
        meta.put(tx, "a", {"x": [1]})
        meta.put(tx, "a", {"x": [2]})
        assert meta.get(tx, "a") == {"x": [2]}
