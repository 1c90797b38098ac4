"""Snapshots: what is read, what becomes a gap, what stands in, what is parsed once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from storage.model import DocumentKind, FileEntry, Manifest, Revision, Snapshot
from tests.tracker.diff.snapshots import snapshot_of
from tests.tracker.snapshot.make import PICKLE, gguf, safetensors
from tracker.snapshot.build import Parser, Unread, build, carry, header_key, wanted
from tracker.snapshot.kinds import cap_of, header_limit, is_pickle, is_weight, kind_of, weight_format

REVISION = Revision(sha="a" * 40, committed_at=datetime(2026, 1, 1, tzinfo=UTC), author="ann", title="t")


def entry(path: str, size: int = 2, content: str = "0" * 40) -> FileEntry:
    return FileEntry(path=path, size=size, blob_id=content)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("config.json", DocumentKind.CONFIG),
        ("vae/config.json", DocumentKind.CONFIG),
        ("1_Pooling/config.json", DocumentKind.EMBEDDING),
        ("additional_chat_templates/tool_use.jinja", DocumentKind.CHAT_TEMPLATE),
        ("model.safetensors.index.json", DocumentKind.WEIGHT_INDEX),
        ("README.md", DocumentKind.CARD),
        ("docs/README.md", None),
        ("LICENSE-MIT", DocumentKind.LICENCE),
        ("LICENCE.txt", DocumentKind.LICENCE),
        ("license.pdf", None),
        ("modeling_x.py", DocumentKind.CODE),
        ("setup.py", DocumentKind.REQUIREMENTS),
        ("requirements-dev.txt", DocumentKind.REQUIREMENTS),
        ("sentence_bert_config.json", DocumentKind.EMBEDDING),
        ("scheduler/scheduler_config.json", DocumentKind.COMPONENTS),
        ("anything.json", DocumentKind.JSON),
        ("model.safetensors", None),
        (".gitattributes", None),
        ("x" * 2000 + ".json", None),
    ],
)
def test_kinds(path: str, kind: DocumentKind | None) -> None:
    assert kind_of(path) is kind


def test_weight_formats_and_what_runs_code() -> None:
    pickles = ["pytorch_model.bin", "a.pt", "a.PTH", "a.ckpt", "a.pkl", "a.joblib", "a.nemo", "a.keras"]
    assert all(map(is_pickle, pickles))
    others = [
        "a.safetensors",
        "a.gguf",
        "tf_model.h5",
        "flax_model.msgpack",
        "a.onnx",
        "onnx/model.onnx_data",
        "a.npy",
    ]
    assert all(map(is_weight, others))
    assert not any(map(is_pickle, others))
    assert weight_format("openvino_model.bin") == "openvino"
    assert not is_weight("tokenizer.json")
    assert [header_limit(f"a.{suffix}") is None for suffix in ("gguf", "safetensors", "bin")] == [
        False,
        False,
        True,
    ]


def test_wanted_leaves_out_what_is_over_its_cap_and_build_makes_gaps_of_it() -> None:
    over = cap_of(DocumentKind.CONFIG) + 1
    files = {
        item.path: item
        for item in (
            entry("config.json", over),
            entry("tokenizer.json", over),
            entry("trainer_log.json", over),
            entry("model.safetensors", 10**10),
            entry("pytorch_model.bin", 10**10),
        )
    }
    want = wanted(Manifest(files=files))
    assert [item.path for item in want.contents] == ["tokenizer.json"]
    assert [item.path for item in want.headers] == ["model.safetensors"]
    snapshot = build(REVISION, Manifest(files=files), {}, {})
    assert {gap.path: gap.reason for gap in snapshot.gaps} == {
        "config.json": "too_large",
        "tokenizer.json": "fetch",
        "model.safetensors": "fetch",
    }


def test_documents_by_kind() -> None:
    snapshot = snapshot_of(
        {
            "README.md": "---\nlicense: mit\ndate: 2024-01-02\n---\nHello\n",
            "config.json": '{"a": 1, "a": 2}',
            "chat_template.jinja": "{{ x }}",
            "vocab.txt": "[PAD]\n[UNK]\n",
            "modeling.py": "x = 1\n",
            "model.safetensors": safetensors({"w": ("F32", (2,))}),
            "q.gguf": gguf({"general.name": "x"}),
        }
    )
    assert snapshot.gaps == ()
    assert snapshot.get("README.md") == {"metadata": {"license": "mit", "date": "2024-01-02"}, "body": "Hello\n"}
    assert snapshot.documents["config.json"].flaws == ('duplicate key "a"',)
    assert snapshot.get("chat_template.jinja") == "{{ x }}"
    assert snapshot.tensor_files["model.safetensors"].tensors[0].name == "w"
    assert snapshot.tensor_files["q.gguf"].metadata["general.name"] == "x"


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ("a: [", "parse_error"),
        ("a: " + "[" * 60 + "]" * 60, "too_deep"),
        ("a: &a [1,1]\nb: &b [*a,*a]\n" + "".join(f"x{n}: *b\n" for n in range(200)), "too_many"),
        ("a: &a [x,x,x,x,x,x,x,x,x,x]\n"
         + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(8)),
         "too_many"),
        ("a: &a\n  b: *a", "too_deep"),
        ("d: 2024-99-99", "parse_error"),
        ("a: !!python/object:os.system x", "parse_error"),
        ("a: " + "9" * 5000, "parse_error"),
    ],
)  # fmt: skip
def test_hostile_front_matter_is_a_gap(front: str, reason: str) -> None:
    snapshot = snapshot_of({"README.md": f"---\n{front}\n---\nbody"})
    assert [gap.reason for gap in snapshot.gaps] == [reason]


def test_a_gap_keeps_the_last_readable_version() -> None:
    good = snapshot_of({"config.json": {"a": 1}, "model.safetensors": safetensors({"w": ("F32", (2,))})})
    bad = carry(good, snapshot_of({"config.json": "{", "model.safetensors": PICKLE, "new.json": "{"}))
    assert bad.get("config.json") == {"a": 1}
    assert bad.tensor_files["model.safetensors"].tensors[0].name == "w"
    last = {gap.path: gap.last_readable for gap in bad.gaps}
    assert last == {
        "config.json": good.manifest.files["config.json"].content_key,
        "model.safetensors": good.manifest.files["model.safetensors"].content_key,
        "new.json": None,
    }
    worse = carry(bad, snapshot_of({"config.json": "[", "model.safetensors": b""}))
    assert worse.get("config.json") == {"a": 1}
    gone = carry(worse, snapshot_of({"other.txt": "x"}))
    assert gone.documents == {}


def test_a_file_is_parsed_once_and_the_memory_is_bounded() -> None:
    asked: list[str] = []
    files = {
        "config.json": entry("config.json", content="1" * 40),
        "x/config.json": entry("x/config.json", content="1" * 40),
    }

    def load(key: str) -> bytes | Unread:
        asked.append(key)
        return b'{"a": 1}'

    parser = Parser(budget=1000)
    first = parser.build(REVISION, Manifest(files=files), load=load)
    second = parser.build(REVISION, Manifest(files=files), load=load)
    assert asked == [files["config.json"].content_key]
    assert first.documents == second.documents
    assert first.documents["x/config.json"].path == "x/config.json"
    for number in range(2, 9):
        more = {"config.json": entry("config.json", content=str(number) * 40)}
        parser.build(REVISION, Manifest(files=more), load=load)
    parser.build(REVISION, Manifest(files=files), load=load)
    assert asked.count(files["config.json"].content_key) == 2


def test_what_failed_to_be_fetched_is_not_asked_for_again() -> None:
    def load(key: str) -> bytes | Unread:
        raise AssertionError(key)

    failed = {"config.json": Unread("corrupt", "other bytes"), "m.gguf": Unread("too_large", "a long header")}
    files = {path: entry(path) for path in failed}
    snapshot = Parser().build(REVISION, Manifest(files=files), load=load, failed=failed)
    assert {gap.path: (gap.reason, gap.detail) for gap in snapshot.gaps} == {
        path: (item.reason, item.detail) for path, item in failed.items()
    }


def test_headers_are_kept_apart_from_contents() -> None:
    item = entry("model.safetensors", size=10**9)
    assert header_key(item) == f"header:{item.content_key}"
    seen = build(
        REVISION, Manifest(files={item.path: item}), {}, {item.content_key: Unread("corrupt", "no header")}
    )
    assert [gap.reason for gap in seen.gaps] == ["corrupt"]
    assert isinstance(replace(seen), Snapshot)
