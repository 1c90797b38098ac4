"""From the Hub to the page: what is read with a token is not for everybody."""

from __future__ import annotations

import pytest

from storage import watches
from storage.database import Database
from storage.model import RepoRef, Scope, Watch
from tests.support.models import llama, weights
from tests.tracker.web.conftest import NOW, Site
from tracker.assembly import assemble
from tracker.demo.hub import LoopbackHub
from tracker.settings import Settings

SECRET = RepoRef(owner="acme", name="secret")


def check(database: Database, hub: LoopbackHub, token: str | None) -> Watch:
    settings = Settings(database_url="sqlite:///unused.db", hub={"endpoint": hub.url, "token": token})
    with assemble(settings, database) as services:
        with database.snapshot() as tx:
            watch = watches.require(tx, SECRET)
        services.worker.check(watch)
        with database.snapshot() as tx:
            return watches.require(tx, SECRET)


@pytest.mark.parametrize("how", [{"private": True}, {"gated": "manual"}])
def test_a_private_or_gated_repo_read_with_a_token(
    sqlite_database: Database, upstream: LoopbackHub, how: dict[str, object]
) -> None:
    upstream.tokens = {"hf_good": {SECRET.id}}
    upstream.create(SECRET.id, **how).commit({"config.json": llama(), "model.safetensors": weights()}, title="one")
    with sqlite_database.transaction() as tx:
        watches.add(tx, SECRET, now=NOW)
    assert check(sqlite_database, upstream, "hf_good").restricted
    site = Site(sqlite_database)
    here = f"/api/v1/repos/{SECRET.id}"
    assert site.client.get(here).status_code == 404
    assert site.client.get(here, headers=site.token(Scope.READ)).status_code == 200
    # whoever lost access has not made public what was read
    assert check(sqlite_database, upstream, None).restricted
    upstream.model(SECRET.id).private = upstream.model(SECRET.id).gated = False
    assert not check(sqlite_database, upstream, "hf_good").restricted
    assert site.client.get(here).status_code == 200


def test_a_gated_repo_of_which_nothing_was_read_with_a_token(
    sqlite_database: Database, upstream: LoopbackHub
) -> None:
    repo = upstream.create(SECRET.id)
    repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="one")
    with sqlite_database.transaction() as tx:
        watches.add(tx, SECRET, now=NOW)
    check(sqlite_database, upstream, None)
    upstream.model(SECRET.id).gated = "auto"
    assert not check(sqlite_database, upstream, None).restricted
    found = Site(sqlite_database).get("/api/v1/advisories?class=repo.gated")["advisories"]
    assert len(found) == 1
