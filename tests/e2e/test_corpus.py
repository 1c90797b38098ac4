"""Real histories, replayed commit by commit as repos and read by the real command line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Hubwatch
from tests.support.replay import Replay, replay
from tracker.demo.hub import LoopbackHub

pytestmark = pytest.mark.corpus

GRANITE = "jeremieconte__granite-3.1-1b-a400m-instruct"


@pytest.fixture
def read(corpus: Path, hub: LoopbackHub, hubwatch: Hubwatch, tmp_path: Path) -> Any:
    """Replays a history and reads it; gives its rows by the commit's recorded sha."""

    def run(name: str, headers: Mapping[str, bytes] | None = None) -> tuple[Replay, dict[str, Any]]:
        made = replay(corpus, name, tmp_path / f"{name}.git", headers=headers)
        repo = name.replace("__", "/", 1)
        hub.add(repo, made.repo)
        assert hubwatch("watch", "add", repo).code == 0
        assert hubwatch.json("poll", repo)["repos"][0]["status"] == "ok"
        rows = {row["sha"]: row for row in hubwatch.json("history", repo)["revisions"]}
        assert list(rows)[::-1] == list(made.shas.values())
        return made, {recorded: rows[sha] for recorded, sha in made.shas.items()}

    return run


def classes(row: dict[str, Any]) -> set[str]:
    return {change["class"] for change in row["changes"]}


def titled(rows: dict[str, Any], title: str) -> Iterator[dict[str, Any]]:
    return (row for row in rows.values() if row["title"].startswith(title))


def test_a_config_that_was_broken_and_mended_makes_no_storm(read: Any, hubwatch: Hubwatch) -> None:
    _, rows = read("ourml__clip-vit-large-patch14")
    broken = rows["eb96ff977a370947ab00087870f497de35ec49ee"]
    mended = rows["e45c02554b24d4c70b955be461d78a18e91d579c"]
    assert classes(broken) == {"document.unreadable"}
    # The mended file differs from the last readable one in two keys, and in nothing else.
    assert {change["pointer"] for change in mended["changes"]} == {
        "/text_config_dict/projection_dim",
        "/vision_config_dict/projection_dim",
    }
    (gap,) = hubwatch.json("advisories", "ourml/clip-vit-large-patch14", "--class", "document.unreadable")[
        "advisories"
    ]
    assert gap["affected"][0]["ranges"][0]["events"] == [{"introduced": broken["sha"]}, {"fixed": mended["sha"]}]
    assert gap["affected"][0]["versions"] == [broken["sha"]]
    shown = hubwatch.json("show", f"ourml/clip-vit-large-patch14@{broken['sha']}")
    assert [item["path"] for item in shown["gaps"]] == ["config.json"]


def test_a_setting_that_was_turned_off_and_on_opens_and_closes(read: Any, hubwatch: Hubwatch) -> None:
    _, rows = read("itounagi0116__DeepSeek-R1")
    off = rows["7bae4bacd0f64d020364cc43d9560588893e94cc"]
    on = rows["cb48aa8cb28c160ec8d853707278e0402c9ad01a"]
    (change,) = [change for change in off["changes"] if change["class"] == "tokenizer.settings"]
    assert (change["pointer"], change["before"], change["after"]) == ("/add_bos_token", True, False)
    (document,) = [
        document
        for document in hubwatch.json("advisories", "itounagi0116/DeepSeek-R1", "--class", "tokenizer.settings")[
            "advisories"
        ]
        if document["affected"][0]["ranges"][0]["events"][0]["introduced"] == off["sha"]
    ]
    assert document["affected"][0]["ranges"][0]["events"] == [{"introduced": off["sha"]}, {"fixed": on["sha"]}]
    assert on["advisories"] == [document["id"], *on["advisories"][1:]]
    assert "history.revert" in classes(on)


def test_shards_that_became_one_file_of_another_dtype(corpus: Path, read: Any) -> None:
    _, rows = read(GRANITE, headers_of_real_size(corpus))
    changed = rows["8290d32ffc403c6d628249af989beb7800c70d77"]
    found = classes(changed)
    assert {"config.dtype", "weights.dtype", "weights.resharded"} <= found
    assert not {"weights.replaced", "weights.keys", "weights.shape", "weights.format_removed"} & found
    (dtype,) = [change for change in changed["changes"] if change["class"] == "weights.dtype"]
    assert "F32" in dtype["summary"]
    assert "BF16" in dtype["summary"]


def headers_of_real_size(corpus: Path) -> dict[str, bytes]:
    """As published: one matrix fills each file, in F32 by two shards and then in BF16 by one file."""
    manifest = json.loads((corpus / "corpus" / "histories" / GRANITE / "_manifests.json").read_text())
    sizes = {
        entry["path"]: entry["size"]
        for commit in manifest["commits"]
        for entry in commit["changed"]
        if entry["path"].endswith(".safetensors")
    }
    room = 4096

    def header(tensors: dict[str, tuple[str, int, int]], size: int) -> bytes:
        table: dict[str, Any] = {}
        end = 0
        for name, (dtype, elements, width) in tensors.items():
            table[name] = {"dtype": dtype, "shape": [elements], "data_offsets": [end, end + elements * width]}
            end += elements * width
        length = size - end - 8
        return length.to_bytes(8, "little") + json.dumps(table).encode().ljust(length)

    first, second = (sizes[f"model-0000{n}-of-00002.safetensors"] - 8 - room for n in (1, 2))
    one, two = first // 4, second // 4
    whole = sizes["model.safetensors"] - 8 - room
    # The one file has room for all but a few elements of both matrices in half the width.
    assert whole // 2 >= one + two - 20_000
    two = min(two, whole // 2 - one)
    return {
        "model-00001-of-00002.safetensors": header(
            {"a.weight": ("F32", one, 4)}, sizes["model-00001-of-00002.safetensors"]
        ),
        "model-00002-of-00002.safetensors": header(
            {"b.weight": ("F32", two, 4)}, sizes["model-00002-of-00002.safetensors"]
        ),
        "model.safetensors": header(
            {"a.weight": ("BF16", one, 2), "b.weight": ("BF16", two, 2)}, sizes["model.safetensors"]
        ),
    }


def test_without_readable_headers_the_layout_and_the_declared_dtype_are_still_told(
    corpus: Path, read: Any
) -> None:
    empty = dict.fromkeys(headers_of_real_size(corpus), b"")
    _, rows = read(GRANITE, empty)
    found = classes(rows["8290d32ffc403c6d628249af989beb7800c70d77"])
    assert {"config.dtype", "weights.resharded"} <= found
    assert "weights.format_removed" not in found


def test_a_change_of_layout_alone_is_info(corpus: Path, hub: LoopbackHub, hubwatch: Hubwatch) -> None:
    repo = hub.create("acme/laid-out")
    folder = corpus / "corpus" / "configs" / "Qwen__Qwen3-0.6B"
    config = json.loads((folder / "config.json").read_text())
    repo.commit({"config.json": json.dumps(config)}, title="one line")
    for text in (
        json.dumps(config, indent=4),
        json.dumps(dict(reversed(config.items())), indent=2),
        json.dumps(config) + "\n",
    ):
        repo.commit({"config.json": text}, title="laid out anew")
    hubwatch("watch", "add", "acme/laid-out")
    assert hubwatch("poll").code == 0
    for row in hubwatch.json("history", "acme/laid-out")["revisions"][:-1]:
        assert [(change["class"], change["severity"]) for change in row["changes"]] == [
            ("file.formatting", "info")
        ]
