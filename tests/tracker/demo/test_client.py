"""The real client is content with the loopback hub."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import HfApi, set_client_factory
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils._http import default_client_factory

from tracker.demo.files import LargeFile, LfsFile, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import Content, GitRepo, json_file


@pytest.fixture(autouse=True)
def _stock_client() -> None:
    """The library's own HTTP client, whatever another test of this process has put in its place."""
    set_client_factory(default_client_factory)


@pytest.fixture
def tiny(hub: LoopbackHub) -> GitRepo:
    repo = hub.create("acme/tiny", downloads=7)
    for number in range(60):
        repo.commit({"config.json": json_file({"model_type": "gpt2", "n": number})}, title=f"number {number}")
    card = "---\nlicense: mit\npipeline_tag: text-generation\n---\n# Tiny\n"
    weights = safetensors({"w": ("F32", [1000, 100]), "b": ("BF16", [8])}, metadata={"format": "pt"})
    files: dict[str, Content] = {
        "README.md": card,
        "model.safetensors": weights,
        "tokenizer.json": LfsFile(b"{}"),
        "a b/ü.txt": "x",
    }
    repo.commit(files, title="weights", body="all of them", author="bob")
    repo.tag("v1")
    repo.pull_request(1)
    return repo


def test_model_info(tiny: GitRepo, api: HfApi) -> None:
    info = api.model_info("acme/tiny", files_metadata=True)
    assert info.sha == tiny.resolve("main")
    assert (info.downloads, info.private, info.gated, info.disabled) == (7, False, False, False)
    assert (info.pipeline_tag, info.library_name) == ("text-generation", "transformers")
    assert info.card_data is not None
    assert info.card_data.license == "mit"
    assert info.safetensors is not None
    assert info.safetensors.total == 100_008
    assert info.created_at == tiny.commit_info(tiny.log("main")[-1]).date
    assert info.last_modified == tiny.commit_info(tiny.log("main")[0]).date
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    lfs = siblings["tokenizer.json"].lfs
    assert lfs is not None
    assert (lfs.sha256, lfs.size) == (LfsFile(b"{}").sha256, 2)
    assert siblings["config.json"].blob_id == tiny.find("main", "config.json").sha  # type: ignore[union-attr]
    old = api.model_info("acme/tiny", revision=tiny.log("main")[5], expand=["sha", "lastModified"])
    assert (old.sha, old.siblings) == (tiny.log("main")[5], None)


def test_commits_come_in_pages_and_in_order(tiny: GitRepo, api: HfApi, hub: LoopbackHub) -> None:
    commits = api.list_repo_commits("acme/tiny", formatted=True)
    assert [commit.commit_id for commit in commits] == list(tiny.log("main"))
    assert (commits[0].authors, commits[0].title) == (["bob"], "weights")
    assert commits[0].message == "\nall of them"
    assert len(hub.asked("api", path="/commits/")) == 2
    hub.pages.commits = 7
    assert len(api.list_repo_commits("acme/tiny", revision="v1")) == 61


def test_trees(tiny: GitRepo, api: HfApi, hub: LoopbackHub) -> None:
    tree = {entry.path: entry for entry in api.list_repo_tree("acme/tiny", recursive=True)}
    assert set(tree) == {"a b", "a b/ü.txt", "README.md", "config.json", "model.safetensors", "tokenizer.json"}
    hub.pages.tree = hub.pages.tree_expanded = 2
    assert [e.path for e in api.list_repo_tree("acme/tiny", recursive=True)] == list(tree)
    expanded = {entry.path: entry for entry in api.list_repo_tree("acme/tiny", expand=True, revision="refs/pr/1")}
    last = expanded["config.json"].last_commit
    assert last is not None
    assert last.title == "number 59"
    assert [e.path for e in api.list_repo_tree("acme/tiny", "a b")] == ["a b/ü.txt"]
    assert [e.path for e in api.get_paths_info("acme/tiny", ["a b/ü.txt", "no"])] == ["a b/ü.txt"]
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree("acme/tiny", "no"))


def test_refs(tiny: GitRepo, api: HfApi) -> None:
    refs = api.list_repo_refs("acme/tiny", include_pull_requests=True)
    head = tiny.resolve("main")
    assert [(ref.name, ref.target_commit) for ref in refs.branches] == [("main", head)]
    assert [(ref.name, ref.target_commit) for ref in refs.tags] == [("v1", head)]
    assert [ref.ref for ref in refs.pull_requests or ()] == ["refs/pr/1"]


def test_files(tiny: GitRepo, api: HfApi, hub: LoopbackHub, tmp_path: Path) -> None:
    small = api.get_hf_file_metadata(url=f"{hub.url}/acme/tiny/resolve/main/config.json")
    item = tiny.find("main", "config.json")
    assert item is not None
    assert (small.commit_hash, small.etag) == (tiny.resolve("main"), item.sha)
    large = api.get_hf_file_metadata(url=f"{hub.url}/acme/tiny/resolve/refs%2Fpr%2F1/model.safetensors")
    pointer = tiny.pointer(tiny.find("main", "model.safetensors").sha)  # type: ignore[union-attr]
    assert pointer is not None
    assert (large.etag, large.size) == (pointer.sha256, pointer.size)
    assert large.location.startswith(hub.storage_url)
    for path in ("config.json", "a b/ü.txt", "tokenizer.json"):
        got = api.hf_hub_download("acme/tiny", path, cache_dir=tmp_path / "cache")
        assert Path(got).read_bytes() == tiny.content("main", path)
    with pytest.raises(EntryNotFoundError):
        api.hf_hub_download("acme/tiny", "no.json", cache_dir=tmp_path / "cache")
    with pytest.raises(RevisionNotFoundError):
        api.hf_hub_download("acme/tiny", "config.json", revision="no", cache_dir=tmp_path / "cache")


def test_safetensors_headers_come_by_range(tiny: GitRepo, api: HfApi, hub: LoopbackHub) -> None:
    metadata = api.get_safetensors_metadata("acme/tiny")
    assert metadata.parameter_count == {"F32": 100_000, "BF16": 8}
    (ranged,) = [record for record in hub.asked("storage") if record.range]
    assert (ranged.range, ranged.status, ranged.authorization) == ("bytes=0-100000", 206, False)
    assert ranged.bytes_sent == 100_001


def test_sharded_headers_come_in_one_request(api: HfApi, hub: LoopbackHub) -> None:
    repo = hub.create("acme/sharded")
    weight_map = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    repo.commit(
        {
            "model.safetensors.index.json": json_file({"metadata": {"total_size": 128}, "weight_map": weight_map}),
            "model-1.safetensors": safetensors({"a": ("F32", [4, 4])}),
            "model-2.safetensors": safetensors({"b": ("F32", [4, 4])}),
        }
    )
    metadata = api.get_safetensors_metadata("acme/sharded")
    assert metadata.sharded
    assert metadata.weight_map == weight_map


def test_a_terabyte_is_served_by_range(hub: LoopbackHub, api: HfApi, ask) -> None:  # type: ignore[no-untyped-def]
    hub.create("acme/huge").commit({"huge.bin": LargeFile(b"head", 1 << 40)})
    metadata = api.get_hf_file_metadata(url=f"{hub.url}/acme/huge/resolve/main/huge.bin")
    assert metadata.size == 1 << 40
    assert ask(metadata.location, Range="bytes=0-9").body == b"head" + b"\0" * 6
    end = ask(metadata.location, Range="bytes=-3")
    assert end.headers["content-range"] == f"bytes {(1 << 40) - 3}-{(1 << 40) - 1}/{1 << 40}"
    assert ask(metadata.location, Range=f"bytes={1 << 40}-").status == 416


def test_listings(tiny: GitRepo, api: HfApi, hub: LoopbackHub) -> None:
    for number in range(5):
        hub.create(f"acme/m{number}").commit({"a": "1"})
    hub.create("other/m").commit({"a": "1"})
    hub.create("acme/secret", private=True).commit({"a": "1"})
    hub.pages.models = 2
    models = list(api.list_models(author="acme", sort="last_modified", expand=["sha", "lastModified"]))
    assert [model.id for model in models] == ["acme/tiny", *(f"acme/m{number}" for number in range(5))]
    assert models[0].sha == tiny.resolve("main")
    hub.tokens = {"hf_good": {"acme/secret"}}
    assert len(list(HfApi(endpoint=hub.url, token="hf_good").list_models(author="acme"))) == 7


def test_states(tiny: GitRepo, api: HfApi, hub: LoopbackHub) -> None:
    hub.tokens = {"hf_member": {"acme/tiny"}, "hf_stranger": set()}
    member, stranger = (HfApi(endpoint=hub.url, token=token) for token in hub.tokens)
    model = hub.model("acme/tiny")

    model.gated = "manual"
    assert api.model_info("acme/tiny").gated == "manual"
    for client in (api, stranger):
        with pytest.raises(GatedRepoError):
            client.list_repo_commits("acme/tiny")
    assert len(member.list_repo_commits("acme/tiny")) == 61

    model.gated, model.private = False, True
    assert member.model_info("acme/tiny").private
    with pytest.raises(RepositoryNotFoundError):
        stranger.model_info("acme/tiny")
    with pytest.raises(HfHubHTTPError) as anonymous:
        api.model_info("acme/tiny")
    assert anonymous.value.response.status_code == 401

    model.private, model.disabled = False, True
    assert api.model_info("acme/tiny", expand=["disabled"]).disabled
    with pytest.raises(HfHubHTTPError) as refused:
        member.list_repo_commits("acme/tiny")
    assert refused.value.response.status_code == 403
    model.disabled = "old"
    with pytest.raises(HfHubHTTPError):
        api.model_info("acme/tiny")

    with pytest.raises(HfHubHTTPError) as bad:
        HfApi(endpoint=hub.url, token="hf_bad").model_info("acme/tiny")
    assert bad.value.response.headers["x-error-message"] == "Invalid credentials in Authorization header"
    assert member.whoami()["auth"]["accessToken"]["role"] == "read"


def test_a_renamed_repo_is_found_under_its_old_name(tiny: GitRepo, api: HfApi, hub: LoopbackHub) -> None:
    identity = hub.model("acme/tiny").hub_id
    hub.rename("acme/tiny", "acme/big")
    assert api.model_info("acme/tiny").id == "acme/big"
    assert len(api.list_repo_commits("acme/tiny")) == 61
    hops = [(record.path, record.status) for record in hub.asked(path="commits")]
    assert hops[0] == ("/api/models/acme/tiny/commits/main", 307)
    assert hops[1] == ("/api/models/acme/big/commits/main", 200)

    hub.create("acme/tiny").commit({"a": "a stranger's"})
    assert api.model_info("acme/tiny").id == "acme/tiny"
    assert hub.model("acme/tiny").hub_id != identity
    before = hub.model("acme/big").created_at
    assert hub.replace_identity("acme/big").created_at > before
    assert hub.model("acme/big").hub_id != identity
    gone = hub.remove("acme/tiny")
    hub.store.renames.clear()
    with pytest.raises(HfHubHTTPError):
        api.model_info("acme/tiny")
    hub.restore(gone)
    assert api.model_info("acme/tiny").sha == gone.repo.resolve("main")
