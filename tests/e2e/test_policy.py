"""A house's policy, where people and tools meet advisories: in audit and in feeds, never in what is stored."""

from __future__ import annotations

from datetime import UTC, datetime

from advisories.feeds.entries import page_of
from advisories.policy import Action, Policy, PolicyRule
from storage.database import Database
from tests.support.command import Hubwatch
from tests.support.models import llama, weights
from tracker.demo.hub import LoopbackHub

REPO = "acme/tiny"
SILENT = """
[[policy]]
action = "silence"
repo = "acme/*"
class = "weights.*"
owner = "ml"
reason = "our loader reads safetensors only"
expires = 2999-01-01
"""


def test_what_is_silenced_neither_fails_an_audit_nor_stands_in_a_feed(
    hub: LoopbackHub, hubwatch: Hubwatch
) -> None:
    repo = hub.create(REPO)
    repo.commit({"config.json": llama(), "model.safetensors": weights()}, title="Upload")
    repo.commit({"pytorch_model.bin": b"PK\x03\x04"}, title="Add a pickle")
    hubwatch("watch", "add", REPO)
    assert hubwatch("poll").code == 0
    code = hubwatch.home / "code"
    code.mkdir()
    (code / "load.py").write_text(f'model = AutoModel.from_pretrained("{REPO}")\n')
    assert hubwatch("audit", str(code), "--fail-on", "critical").code == 1
    stored = hubwatch.json("advisories", REPO)["advisories"]

    (hubwatch.home / "hubwatch.toml").write_text(SILENT)
    audit = hubwatch("audit", str(code), "--fail-on", "critical", "--json")
    assert audit.code == 0, audit.err
    assert not [finding for finding in audit.json["findings"] if finding["severity"] == "critical"]
    assert hubwatch.json("advisories", REPO)["advisories"] == stored

    (hubwatch.home / "hubwatch.toml").write_text(SILENT.replace("2999", "2001"))
    assert hubwatch("audit", str(code), "--fail-on", "critical").code == 1

    database = Database.open(hubwatch.database_url)
    rule = PolicyRule(
        action=Action.SILENCE,
        cls="weights.*",
        owner="ml",
        reason="so",
        expires=datetime(2999, 1, 1, tzinfo=UTC).date(),
    )
    with database.snapshot() as tx:
        whole, silenced = page_of(tx), page_of(tx, policy=Policy((rule,)))
    database.dispose()
    assert "weights.pickle_added" in {entry.cls for entry in whole.entries}
    assert "weights.pickle_added" not in {entry.cls for entry in silenced.entries}
