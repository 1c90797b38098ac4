"""The recorded exchanges of the live Hub, replayed: what the client makes of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage.model import FileEntry, RepoRef, RepoState
from tests.tracker.hub.scripted import Script, reply
from tracker.demo.wire import Response
from tracker.hub.client import HubClient
from tracker.hub.errors import AccessDenied, Corrupt, RateLimited, RevisionGone, UpstreamFault

pytestmark = pytest.mark.corpus
GPT2 = RepoRef(owner="openai-community", name="gpt2")
HEAD = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
Sample = Callable[[str], Response]


@pytest.fixture
def sample(corpus: Path) -> Sample:
    def load(name: str) -> Response:
        recorded: dict[str, Any] = json.loads((corpus / "reference/hub/samples" / f"{name}.json").read_text())
        body = recorded["body"]
        answer = reply(b"" if body is None else body, recorded["status"])
        answer.headers = {k: v for k, v in recorded["headers"].items() if k != "content-length"}
        return answer

    return load


@pytest.fixture
def client(script: Script) -> HubClient:
    return HubClient(script.url, deadline_s=30)


def test_model_info_expand_is_gated_and_readable(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("model_info_expand")
    head = client.head(RepoRef(owner="meta-llama", name="Llama-3.1-8B"))
    assert (head.state, head.gated, head.private) == (RepoState.OK, "manual", False)
    assert (head.sha, head.hub_id) == ("d04e592bb4f6aa9cfee91e2e20afa771667e1d4b", "66944f1fe0c5c2e493a804f5")
    assert head.last_modified == datetime(2024, 10, 16, 22, 0, 37, tzinfo=UTC)
    assert client.budgets["api"].remaining == 499


def test_model_info_full_is_read_as_well(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("model_info_full")
    head = client.head(GPT2)
    assert (head.sha, head.gated) == (HEAD, None)
    assert head.created_at == datetime(2022, 3, 2, 23, 29, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "token", "state"),
    [
        ("model_info_disabled", None, RepoState.DISABLED),
        ("model_not_found_anonymous", None, RepoState.MISSING),
        ("model_not_found_authenticated", "hf_x", RepoState.MISSING),
        ("bad_token", "hf_x", RepoState.TOKEN_BAD),
        ("disabled_403", "hf_x", RepoState.DISABLED),
        ("commits_gated", None, RepoState.GATED),
    ],
)
def test_states(script: Script, sample: Sample, *, name: str, token: str | None, state: RepoState) -> None:
    script.fallback = sample(name)
    assert HubClient(script.url, token).head(RepoRef(owner="x", name="y")).state is state
    assert len(script.seen) == 1


def test_a_429_holds_for_the_rest_of_the_window(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("rate_limited_429")
    with pytest.raises(RateLimited) as caught:
        client.head(GPT2)
    assert caught.value.seconds == pytest.approx(55, abs=1)


def test_a_renamed_repo_is_asked_at_its_new_name(script: Script, client: HubClient, sample: Sample) -> None:
    script.routes["/api/models/meta-llama/Meta-Llama-3.1-8B"] = sample("redirect_renamed")
    script.fallback = sample("model_info_expand")
    head = client.head(RepoRef(owner="meta-llama", name="Meta-Llama-3.1-8B"))
    assert (head.state, head.canonical) == (RepoState.RENAMED, "meta-llama/Llama-3.1-8B")
    assert len(script.seen) == 2


def test_commits(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("commits")
    walk = client.walk(GPT2, head=HEAD, known=lambda _: False, only_head=True)
    (revision,) = walk.revisions
    assert (revision.author, revision.title) == ("lysandre", "Adds the tokenizer configuration file (#80)")
    assert revision.committed_at == datetime(2024, 2, 19, 10, 57, 45, tzinfo=UTC)
    assert walk.horizon


def test_commits_of_a_gated_repo(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("commits_gated")
    with pytest.raises(AccessDenied) as caught:
        client.walk(GPT2, head=HEAD, known=lambda _: False)
    assert caught.value.state is RepoState.GATED


def test_commits_of_a_bad_revision(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("commits_bad_revision")
    with pytest.raises(RevisionGone):
        client.walk(GPT2, head=HEAD, known=lambda _: False)


def test_tree(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("tree")
    files = client.manifest(GPT2, HEAD).files
    assert sorted(files) == ["README.md", "face_yolov8n.pt"]
    assert (
        files["face_yolov8n.pt"].lfs_sha256 == "70b640f8f60b1cf0dcc72f30caf3da9495eb2fb6509da48c53374ad6806e6a9c"
    )
    assert files["README.md"].content_key == "git:b4911cdb1293dd4418f36b617c39cbea04b6abf9"


def test_refs(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("refs")
    assert client.refs(GPT2) == {"refs/heads/main": HEAD, "refs/tags/v1.0": HEAD, "refs/pr/1": HEAD}


def test_listing(script: Script, client: HubClient, sample: Sample) -> None:
    page = sample("list_models_expand")
    last = reply([])
    script.routes["/api/models"] = lambda request: last if request.first("cursor") else page
    listing = client.listing("openai-community")
    assert [(head.canonical, head.sha) for head in listing] == [(GPT2.id, HEAD)]
    assert len(script.seen) == 2


def test_whoami(script: Script, sample: Sample) -> None:
    script.fallback = sample("whoami")
    assert HubClient(script.url, "hf_x").token_is_good() is True
    script.fallback = sample("bad_token")
    assert HubClient(script.url, "hf_x").token_is_good() is False


def test_a_gated_file(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("resolve_gated_HEAD_401")
    with pytest.raises(AccessDenied) as caught:
        client.content(GPT2, HEAD, FileEntry(path="config.json", size=2, blob_id="a" * 40))
    assert caught.value.state is RepoState.GATED
    assert client.budgets["resolvers"].limit == 3000


def test_a_small_file_by_the_resolve_cache(script: Script, client: HubClient, sample: Sample) -> None:
    repo = RepoRef(owner="Qwen", name="Qwen3-32B")
    sha = "9216db5781bf21249d130ec9da846c4624c16137"
    script.routes[f"/Qwen/Qwen3-32B/resolve/{sha}/config.json"] = sample("resolve_small_HEAD_307")
    script.fallback = reply(b"{}")
    entry = FileEntry(path="config.json", size=2, blob_id="9e26dfeeb6e641a33dae4961196235bdb965b21b")
    assert client.content(repo, sha, entry) == b"{}"
    assert script.paths[1].startswith(f"/api/resolve-cache/models/Qwen/Qwen3-32B/{sha}/config.json?%2FQwen")


def test_weights_of_another_hash_than_the_tree_lists(script: Script, client: HubClient, sample: Sample) -> None:
    script.fallback = sample("resolve_lfs_HEAD_302")
    entry = FileEntry(path="rife47.pth", size=21345678, blob_id="a" * 40, lfs_sha256="b" * 64)
    with pytest.raises(Corrupt, match="another"):
        client.header(RepoRef(owner="marduk191", name="rife"), HEAD, entry, limit=100)


def test_a_plain_file_that_leads_to_the_real_storage_is_not_followed(
    script: Script, client: HubClient, sample: Sample
) -> None:
    script.fallback = sample("resolve_lfs_HEAD_302")
    with pytest.raises(UpstreamFault, match="not followed"):
        client.content(GPT2, HEAD, FileEntry(path="config.json", size=2, blob_id="a" * 40))
