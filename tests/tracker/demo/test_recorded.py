"""The loopback hub answers as the Hub was recorded to answer: status, header names, keys of the body."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracker.demo.conftest import Reply
from tracker.demo.files import LargeFile, safetensors
from tracker.demo.hub import LoopbackHub
from tracker.demo.repos import json_file

pytestmark = pytest.mark.corpus

# Recorded sample -> the path asked here ("" for the recorded one) and the token sent.
TOKEN = "hf_good"
ASKED: dict[str, tuple[str, str | None]] = {
    "bad_token": ("", "hf_bad"),
    "commits": ("", None),
    "commits_bad_revision": ("", None),
    "commits_gated": ("", None),
    "disabled_403": ("/api/models/old/disabled", TOKEN),
    "list_models_expand": ("", None),
    "model_info_blobs": ("/api/models/openai-community/gpt2/revision/{gpt2}?blobs=true", None),
    "model_info_disabled": ("", None),
    "model_info_expand": ("", None),
    "model_info_full": ("", None),
    "model_not_found_anonymous": ("", None),
    "model_not_found_authenticated": ("", TOKEN),
    "paths_info": ("", None),
    "rate_limited_429": ("", None),
    "redirect_renamed": ("", None),
    "refs": ("", None),
    "resolve_cache_HEAD_200": ("/api/resolve-cache/models/Qwen/Qwen3-32B/{qwen}/config.json", None),
    "resolve_gated_HEAD_401": ("/meta-llama/Llama-3.1-8B/resolve/main/config.json", None),
    "resolve_lfs_HEAD_302": ("", None),
    "resolve_small_HEAD_307": ("", None),
    "safetensors_metadata": ("/api/models/Qwen/Qwen3-32B/safetensors-metadata/model.safetensors.index.json", None),
    "tree": ("", None),
    "tree_expand": ("", None),
    "whoami": ("", TOKEN),
    "xet_read_token": ("/api/models/openai-community/gpt2/xet-read-token/{gpt2}", None),
}
# Sent to us by the Hub, or part of an account's settings: nothing that this hub answers.
NOT_ANSWERED = {"webhook_payload_move", "webhook_payload_repo_content", "webhooks_list", "wire_requests"}


@pytest.fixture
def recorded(hub: LoopbackHub) -> LoopbackHub:
    """A hub that holds what the recordings speak of."""
    hub.tokens = {TOKEN: set()}
    info = {"transformersInfo": {"auto_model": "A", "pipeline_tag": "p", "processor": "AutoTokenizer"}}
    gpt2 = hub.create("openai-community/gpt2", **info)
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
    gpt2.commit({".gitattributes": "*.bin lfs\n"}, title="initial commit")
    gpt2.commit(
        {
            "README.md": "---\nlicense: mit\nlanguage: en\npipeline_tag: text-generation\n---\n",
            "config.json": json_file(config),
            "model.safetensors": safetensors({"w": ("F32", [10])}),
            "onnx/model.onnx": LargeFile(b"", 10**9),
        },
        title="files",
        body="\n\n- Adds files\n\n",
    )
    gpt2.tag("v1.0")
    gpt2.pull_request(1)
    gpt2.reset("refs/convert/parquet", "main")
    hub.create("openai-community/b").commit({"a": "1"})
    hub.create("openai-community/c").commit({"a": "1"})
    hub.create("meta-llama/Llama-3.1-8B", gated="manual").commit({"config.json": "{}"})
    hub.redirect("meta-llama/Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B")
    hub.create("ykilcher/gpt-4chan", gated="auto", disabled=True).commit({"a": "1"})
    hub.create("old/disabled", disabled="old").commit({"a": "1"})
    weight_map = {name: f"model-0000{at}-of-00002.safetensors" for at, name in enumerate("ab", 1)}
    index = {"metadata": {"total_size": 128}, "weight_map": weight_map}
    hub.create("Qwen/Qwen3-32B").commit(
        {
            "config.json": "{}",
            "model.safetensors.index.json": json_file(index),
            "model-00001-of-00002.safetensors": safetensors({"a": ("F32", [4, 4])}, metadata={"format": "pt"}),
            "model-00002-of-00002.safetensors": safetensors({"b": ("F32", [4, 4])}),
        }
    )
    hub.create("marduk191/rife").commit({"rife47.pth": LargeFile(b"PK", 21345678)})
    hub.create("Bingsu/adetailer").commit(
        {
            "README.md": "hello",
            "checkpoints/a": "1",
            "face_yolov8n.pt": LargeFile(b"PK", 6230011),
        }
    )
    return hub


def shape(value: Any) -> Any:
    """The names of a JSON value's keys and the kinds of its values; a list is the shapes that occur in it."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(shape(item), sort_keys=True) for item in value})
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


# Keys that are names of things rather than of fields, and fields that need not be alike.
FREE = {"parameters", "headers", "cardData", "tags", "spaces", "config"}
# The recording was cut down to what mattered.
TRIMMED = {"model_info_blobs"}


def assert_alike(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert set(ours) == set(theirs)
        for key in set(theirs) - FREE:
            assert_alike(ours[key], theirs[key])
    elif isinstance(theirs, list):
        assert isinstance(ours, list)
        kinds = {json.dumps(shape(row), sort_keys=True) for row in theirs}
        assert kinds <= {json.dumps(shape(row), sort_keys=True) for row in ours}
    elif theirs is not None:
        assert shape(ours) == shape(theirs)


def test_every_recording_is_asked_for(corpus: Path) -> None:
    names = {path.stem for path in (corpus / "reference" / "hub" / "samples").glob("*.json")}
    assert names == set(ASKED) | NOT_ANSWERED


@pytest.mark.parametrize("name", sorted(ASKED))
def test_the_answer_is_as_recorded(
    recorded: LoopbackHub, corpus: Path, ask: Callable[..., Reply], name: str
) -> None:
    sample = json.loads((corpus / "reference" / "hub" / "samples" / f"{name}.json").read_bytes())
    path, token = ASKED[name]
    shas = {"gpt2": recorded.repo("openai-community/gpt2").resolve("main")}
    shas["qwen"] = recorded.repo("Qwen/Qwen3-32B").resolve("main")
    url = recorded.url + (path.format(**shas) or sample["request"]["path"])
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = None
    if sample["request"]["method"] == "POST":
        body, headers["Content_Type"] = (
            b"paths=config.json&paths=onnx&expand=false",
            "application/x-www-form-urlencoded",
        )
    if name == "rate_limited_429":
        recorded.limits.quota["api"] = 0
    reply = ask(url, sample["request"]["method"], body, **headers)
    assert reply.status == sample["status"]
    assert set(sample["headers"]) <= set(reply.headers)
    if sample["body"] is not None:
        answer = json.loads(reply.body)
        if name in TRIMMED:
            answer = {key: answer[key] for key in sample["body"]}
        assert_alike(answer, sample["body"])
    error = sample["headers"].get("x-error-message")
    if error:
        assert reply.headers.get("x-error-code") == sample["headers"].get("x-error-code")
        asked = {"meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B"}
        for theirs, ours in asked.items():
            error = error.replace(theirs, ours)
        assert reply.headers["x-error-message"] == error
    if name == "redirect_renamed":
        assert reply.headers["location"] == sample["headers"]["location"]


def test_webhook_bodies_are_as_recorded(recorded: LoopbackHub, corpus: Path) -> None:
    samples = corpus / "reference" / "hub" / "samples"
    head = recorded.repo("openai-community/b").resolve("main")
    push = recorded.push_event("openai-community/b", None, head)
    assert_alike(push, json.loads((samples / "webhook_payload_repo_content.json").read_bytes())["body"] | {
        "updatedRefs": push["updatedRefs"]
    })  # fmt: skip
    assert push["updatedRefs"] == [{"ref": "refs/heads/main", "oldSha": None, "newSha": head}]
    move = recorded.move_event("openai-community/b", "a/new")
    assert_alike(move, json.loads((samples / "webhook_payload_move.json").read_bytes())["body"])
