"""Whatever a repo says comes back as it was said, from both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from storage import changes, history, meta
from storage.columns import Size, escape, unescape
from storage.database import Database
from storage.model import FileEntry, Gap, Manifest, canonical_json
from tests.storage.support import NOW, REPO, finding, landing, revision, sha

any_text = st.text(st.characters(codec=None, categories=None), max_size=60)
hostile = st.one_of(
    any_text,
    st.sampled_from(
        ["\x00", "\ud800", "\ud83d\ude00", "\U0001f600", "\\u0000", "\\", "\\\\u0000", "é", "e\u0301", ""]
    ),
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**300), 10**300) | st.floats() | hostile,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3),
    max_leaves=10,
)
times = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]))

on_a_database = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(hostile)
def test_escaping_is_undone_and_leaves_only_storable_text(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert "\x00" not in escaped
    escaped.encode("utf-8")


@given(hostile, hostile)
def test_escaped_texts_are_equal_when_the_texts_are(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(path=hostile.filter(bool), words=hostile, moment=times)
@on_a_database
def test_a_landing_survives_any_text_and_time(database: Database, path: str, words: str, moment: datetime) -> None:
    label = (path, words, moment)
    commit = revision(repr(label), author=words, title=path, committed_at=moment)
    entry = FileEntry(path=path, size=3, blob_id=sha("x"), lfs_sha256=words)
    gap = Gap(path=path, reason="parse_error", detail=words, last_readable=words)
    judged = finding(path, summary=words, before=words, after=path, facts={path: words})
    given_landing = landing(
        0,
        revision=commit,
        manifest=Manifest(files={path: entry}),
        gaps=(gap,),
        findings=(judged,),
        observed_at=moment,
    )
    with database.transaction() as tx:
        history.rewind(tx, REPO, None)
        assert history.land(tx, given_landing).revision == commit
        kept = history.get(tx, REPO, commit.sha)
        assert (kept.revision, kept.observed_at) == (commit, history.head(tx, REPO).observed_at)  # type: ignore[union-attr]
        assert history.manifest(tx, REPO, commit.sha).files == {path: entry}
        assert history.gaps(tx, REPO, commit.sha) == (gap,)
        assert [found for _, found in history.file_versions(tx, REPO, path)] == [entry]
        (found,) = changes.of(tx, REPO, commit.sha)
        assert (found.change.path, found.change.summary, found.severity) == (path, words, judged.severity)
        assert canonical_json(found.change.before) == canonical_json(words)
        assert history.chain(tx, REPO).authors == {words}


@given(json_values)
@on_a_database
def test_any_json_survives(database: Database, value: Any) -> None:
    # A parser joins two surrogates that stand side by side into one character: as values they cannot be met.
    value = json.loads(json.dumps(value))
    with database.transaction() as tx:
        meta.put(tx, "value", value)
        assert canonical_json(meta.get(tx, "value")) == canonical_json(value)


@given(times, times)
@on_a_database
def test_times_compare_in_the_database_as_in_python(database: Database, one: datetime, other: datetime) -> None:
    from storage.tables import pauses

    assume(one != other)
    with database.transaction() as tx:
        tx.execute(sa.delete(pauses))
        tx.execute(sa.insert(pauses), [{"scope": str(at), "until": at, "reason": ""} for at in (one, other)])
        assert list(tx.scalars(sa.select(pauses.c.until).order_by(pauses.c.until))) == sorted((one, other))
        assert tx.scalar(sa.select(pauses.c.until).where(pauses.c.until > min(one, other))) == max(one, other)


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    from storage import pauses
    from storage.errors import StorageError

    with pytest.raises(StorageError, match="without a timezone"), database.transaction() as tx:
        pauses.put(tx, "hub", NOW.replace(tzinfo=None))


def test_an_impossible_size_is_kept_as_the_largest(database: Database) -> None:
    huge = FileEntry(path="model.safetensors", size=10**40, blob_id=sha("x"))
    with database.transaction() as tx:
        history.land(tx, landing(1, manifest=Manifest(files={huge.path: huge})))
        assert history.manifest(tx, REPO, sha(1)).files[huge.path].size == 2**63 - 1
    assert Size().process_bind_param(-(10**40), None) == 1 - 2**63  # type: ignore[arg-type]


def test_a_path_longer_than_an_index_entry(database: Database) -> None:
    import random

    noise = random.Random(1)  # noqa: S311 - compressible text would fit
    path = "/".join("".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(200)) for _ in range(40))
    entry = FileEntry(path=path, size=1, blob_id=sha("x"))
    with database.transaction() as tx:
        history.land(tx, landing(1, manifest=Manifest(files={path: entry})))
        history.land(tx, landing(2, {}))
        assert history.manifest(tx, REPO, sha(1)).files == {path: entry}
        assert [found for _, found in history.file_versions(tx, REPO, path)] == [None, entry]
