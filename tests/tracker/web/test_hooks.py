"""The Hub's web hooks: a hint to look now, from whoever knows the secret."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storage import watches
from storage.database import Database
from storage.model import RepoRef, Urgency, Watch
from tests.tracker.web.conftest import NOW, Site

REPO = RepoRef(owner="acme", name="tiny")
SECRET = "s3cret-of-the-hook"
HEADERS = {"X-Webhook-Secret": SECRET}


def hook(**changes: Any) -> dict[str, Any]:
    return {
        "event": {"action": "update", "scope": "repo.content"},
        "repo": {"type": "model", "name": REPO.id, "id": "6366c000a2abcdf2fd69a080", "headSha": "c" * 40},
        "webhook": {"id": "65d9f396bbebdd1f43d027fe", "version": 3},
        "updatedRefs": [{"ref": "refs/heads/main", "oldSha": "a" * 40, "newSha": "c" * 40}],
    } | changes


@pytest.fixture
def site(database: Database) -> Site:
    with database.transaction() as tx:
        watch = watches.add(tx, REPO, now=NOW - timedelta(days=1))
        checked = NOW - timedelta(hours=2)
        later = NOW + timedelta(hours=9)
        watches.save(tx, replace(watch, urgency=Urgency.QUIET, checked_at=checked, next_check_at=later))
    return Site(database, hub={"webhook_secret": SECRET})


def watch(site: Site) -> Watch:
    with site.database.snapshot() as tx:
        return watches.require(tx, REPO)


def post(site: Site, body: Any, headers: dict[str, str] = HEADERS) -> int:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return site.client.post("/hooks/huggingface", content=content, headers=headers).status_code


def test_a_hint_makes_the_watch_due_now_and_first(site: Site) -> None:
    assert post(site, hook()) == 202
    assert (watch(site).urgency, watch(site).next_check_at) == (Urgency.HINTED, NOW)
    assert post(site, hook()) == 202  # and a second one changes nothing
    assert watch(site).next_check_at == NOW


def test_a_repo_that_was_just_looked_at_waits_a_little(site: Site) -> None:
    with site.database.transaction() as tx:
        watches.save(tx, replace(watch(site), checked_at=NOW - timedelta(seconds=10)))
    assert post(site, hook()) == 202
    assert watch(site).next_check_at == NOW + timedelta(seconds=20)


@pytest.mark.parametrize(
    "body",
    [
        hook(repo={"type": "dataset", "name": REPO.id}),
        hook(repo={"type": "model", "name": "../../etc"}),
        hook(repo={"type": "model", "name": "acme/unwatched"}),
        hook(event={"action": "create", "scope": "discussion.comment"}),
        hook(updatedRefs=[{"ref": "refs/pr/7", "oldSha": None, "newSha": "c" * 40}]),
        hook(updatedRefs=[]),
    ],
)
def test_what_cannot_have_moved_the_watch_is_taken_and_forgotten(site: Site, body: dict[str, Any]) -> None:
    before = watch(site)
    assert post(site, body) == 202
    assert watch(site) == before


@pytest.mark.parametrize(
    "body",
    [
        hook(updatedRefs=None),
        hook(event={"action": "update", "scope": "repo.something.narrower"}),
        hook(event={"action": "move", "scope": "repo"}, updatedRefs=None, movedTo={"name": "acme/new"}),
    ],
)
def test_an_unknown_scope_counts_as_the_broader_one(site: Site, body: dict[str, Any]) -> None:
    assert post(site, body) == 202
    assert watch(site).urgency is Urgency.HINTED


@pytest.mark.parametrize("headers", [{}, {"X-Webhook-Secret": "wrong"}, {"X-Webhook-Secret": SECRET + "x"}])
def test_without_the_secret_nothing_is_taken(site: Site, headers: dict[str, str]) -> None:
    assert post(site, hook(), headers) == 401
    assert watch(site).urgency is Urgency.QUIET


def test_guessing_the_secret_is_slowed_down(site: Site) -> None:
    codes = {post(site, hook(), {"X-Webhook-Secret": str(number)}) for number in range(70)}
    assert codes == {401, 429}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 400),
        (b"not json", 400),
        (b"[]", 400),
        (b'{"event": 1, "repo": {}}', 400),
        (b"[" * 100_000, 400),
        (b"\xff\xfe", 400),
        (b" " * (2 << 20), 413),
        (b'{"event": {"scope": {}}, "repo": {"type": "model", "name": ["x"]}}', 202),
        (json.dumps(hook(updatedRefs=[1, None, {"ref": []}])).encode(), 202),
    ],
)
def test_bad_bodies_are_refused_or_forgotten(site: Site, body: bytes, code: int) -> None:
    assert post(site, body) == code
    assert watch(site).urgency is Urgency.QUIET


def test_a_paused_watch_stays_paused(site: Site) -> None:
    with site.database.transaction() as tx:
        watches.pause(tx, REPO)
    assert post(site, hook()) == 202
    assert watch(site).paused
    assert watch(site).urgency is Urgency.QUIET


def test_without_a_secret_there_are_no_hooks(database: Database) -> None:
    assert post(Site(database), hook(), {"X-Webhook-Secret": ""}) == 404


@pytest.mark.corpus
def test_the_recorded_hooks(database: Database, corpus: Path) -> None:
    samples = corpus / "reference" / "hub" / "samples"
    site = Site(database, hub={"webhook_secret": SECRET})
    for name, repo in (("move", "a/old"), ("repo_content", "some-user/some-repo")):
        body = json.loads((samples / f"webhook_payload_{name}.json").read_text(encoding="utf-8"))["body"]
        with database.transaction() as tx:
            watched = watches.add(tx, RepoRef.parse(repo), now=NOW)
            watches.save(tx, replace(watched, urgency=Urgency.QUIET, next_check_at=NOW + timedelta(hours=1)))
        assert post(site, body) == 202
        with database.snapshot() as tx:
            assert watches.require(tx, RepoRef.parse(repo)).urgency is Urgency.HINTED
