"""Weight files: which class a step is, and which it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage.model import Change, FileEntry, Manifest, Snapshot
from tests.tracker.diff.snapshots import snapshot_of
from tests.tracker.snapshot.make import PICKLE, Tensors, gguf, safetensors
from tracker.diff.registry import compare, observe
from tracker.diff.weights import DIFFER
from tracker.snapshot.build import build, carry

F32: Tensors = {"a.weight": ("F32", (2, 3)), "b.weight": ("F32", (4,))}
BF16: Tensors = {name: ("BF16", shape) for name, (_, shape) in F32.items()}
ONE = "model.safetensors"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def sharded(tensors: Tensors, *, salt: int = 0) -> dict[str, Any]:
    parts = [dict([item]) for item in tensors.items()]
    files: dict[str, Any] = {
        shard: safetensors(part, salt=salt) for shard, part in zip(SHARDS, parts, strict=True)
    }
    names = {name: shard for shard, part in zip(SHARDS, parts, strict=True) for name in part}
    return {**files, f"{ONE}.index.json": {"metadata": {}, "weight_map": names}}


def diff(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    old = snapshot_of(before)
    return list(DIFFER.diff(old, carry(old, snapshot_of(after))))


def classes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [change.cls for change in diff(before, after)]


def test_a_cast_with_another_split_is_dtype_and_resharded_and_no_replacement() -> None:
    changes = diff(sharded(F32), {ONE: safetensors(BF16)})
    assert [change.cls for change in changes] == ["weights.dtype", "weights.resharded"]
    assert changes[0].facts["steps"] == {"F32 -> BF16": 2}
    assert changes[0].before == {"F32": 10}
    assert set(changes[1].facts["paths"]) == {*SHARDS, ONE, f"{ONE}.index.json"}


def test_the_same_tensors_in_other_files() -> None:
    assert classes({ONE: safetensors(F32)}, sharded(F32)) == ["weights.resharded"]
    assert classes({ONE: safetensors(F32)}, {"other.safetensors": safetensors(F32)}) == ["weights.resharded"]


def test_other_bytes_in_the_same_tensors_are_a_replacement() -> None:
    (change,) = diff(sharded(F32), sharded(F32, salt=1))
    assert change.cls == "weights.replaced"
    assert change.facts["files_changed"] == 2
    assert set(change.before) == set(SHARDS)


def test_a_cast_alone_is_no_replacement() -> None:
    assert classes({ONE: safetensors(F32)}, {ONE: safetensors(BF16, salt=1)}) == ["weights.dtype"]


def test_an_upload_in_parts_is_no_change_of_names() -> None:
    whole = sharded(F32)
    part = {path: data for path, data in whole.items() if path != SHARDS[1]}
    (change,) = diff(part, whole)
    assert (change.cls, change.path) == ("weights.format_added", SHARDS[1])
    assert (change.facts["continued"], change.facts["complete"]) == (True, True)


def test_the_index_of_a_variant_belongs_to_it() -> None:
    shard, index = "model.fp16-00001-of-00001.safetensors", "model.safetensors.index.fp16.json"
    files = {shard: safetensors(F32), index: {"weight_map": {"a.weight": shard}}}
    (standing,) = DIFFER.standing(snapshot_of(files))
    assert (standing.path, standing.after["not_in_the_index"]) == (index, ["b.weight"])
    (change,) = diff(files, {**files, shard: safetensors(F32, salt=1)})
    assert change.facts["paths"] == sorted([index, shard])


def test_other_shapes() -> None:
    wide: Tensors = {**F32, "b.weight": ("F32", (8,))}
    (change,) = diff({ONE: safetensors(F32)}, {ONE: safetensors(wide)})
    assert (change.cls, change.before, change.after) == ("weights.shape", {"b.weight": [4]}, {"b.weight": [8]})


def test_renames_are_found_by_shape_and_order() -> None:
    renamed: Tensors = {f"new.{name}": tensor for name, tensor in F32.items()}
    (change,) = diff({ONE: safetensors(F32)}, {ONE: safetensors(renamed)})
    assert change.cls == "weights.keys"
    assert change.facts["renamed"] == [["a.weight", "new.a.weight"], ["b.weight", "new.b.weight"]]
    assert not change.facts["load_succeeds"]


def test_names_that_match_nothing_while_the_class_stays_load_all_the_same() -> None:
    config = {"config.json": {"architectures": ["A"], "model_type": "a"}}
    other: Tensors = {"a.weight": ("F32", (2, 3)), "c.weight": ("F32", (4,))}
    (change,) = diff(config | {ONE: safetensors(F32)}, config | {ONE: safetensors(other)})
    assert change.facts["load_succeeds"]
    buffers: Tensors = {**F32, "rotary.inv_freq": ("F32", (4,))}
    (change,) = diff(config | {ONE: safetensors(buffers)}, config | {ONE: safetensors(F32)})
    assert change.facts["buffers_only"]
    assert not change.facts["load_succeeds"]


def test_names_come_from_the_index_where_there_are_no_headers() -> None:
    def index(*names: str) -> dict[str, Any]:
        return {"weight_map": dict.fromkeys(names, "pytorch_model-00001-of-00001.bin")}

    shard = "pytorch_model-00001-of-00001.bin"
    before = {shard: PICKLE, "pytorch_model.bin.index.json": index("a", "b")}
    after = {shard: PICKLE + b"x", "pytorch_model.bin.index.json": index("a", "c")}
    (change,) = diff(before, after)
    assert (change.cls, change.facts["source"]) == ("weights.keys", "index")
    assert (change.before, change.after) == (["b"], ["c"])


def test_a_pickle_holds_until_it_is_gone() -> None:
    before, after = snapshot_of({ONE: safetensors(F32)}), snapshot_of({ONE: safetensors(F32), "x.bin": PICKLE})
    (change,) = DIFFER.diff(before, after)
    assert change.cls == "weights.pickle_added"
    changed = snapshot_of({ONE: safetensors(F32), "x.bin": PICKLE + b"more"})
    assert observe(changed, change.facet) == change.after_digest
    assert observe(before, change.facet) is None
    assert [item.cls for item in DIFFER.diff(after, changed)] == ["weights.replaced"]
    assert [item.cls for item in DIFFER.diff(after, before)] == ["weights.format_removed"]
    assert [item.facet for item in DIFFER.standing(after)] == [change.facet]


def test_formats_that_come_and_go() -> None:
    (added,) = diff({ONE: safetensors(F32)}, {ONE: safetensors(F32), "onnx/model.onnx": b"x"})
    assert (added.cls, added.path, added.facts["new_format"]) == ("weights.format_added", "onnx/model.onnx", True)
    assert classes({"m.h5": b"x", ONE: b""}, {ONE: b""}) == ["weights.format_removed"]


def test_trainer_state_is_left_to_others_but_for_being_a_pickle() -> None:
    assert classes({}, {"optimizer.pt": PICKLE}) == ["weights.pickle_added"]
    assert classes({"optimizer.pt": PICKLE}, {"optimizer.pt": PICKLE + b"x"}) == []


def test_an_unreadable_header_falls_back_to_the_hash_and_takes_nothing_away() -> None:
    before = snapshot_of({ONE: safetensors(F32)})
    broken = carry(before, snapshot_of({ONE: b"garbage"}))
    assert [change.cls for change in DIFFER.diff(before, broken)] == ["weights.replaced"]
    repaired = snapshot_of({ONE: safetensors(BF16)})
    assert [change.cls for change in DIFFER.diff(broken, repaired)] == ["weights.dtype"]


def test_an_index_that_disagrees_with_its_files_stands_until_mended() -> None:
    good = sharded(F32)
    bad = {path: data for path, data in good.items() if path != SHARDS[1]}
    changes = diff(good, bad)
    assert "weights.index_mismatch" in [change.cls for change in changes]
    (standing,) = DIFFER.standing(snapshot_of(bad))
    assert standing.after["missing_files"] == [SHARDS[1]]
    assert observe(snapshot_of(good), standing.facet) is None
    swapped = good | {SHARDS[0]: good[SHARDS[1]], SHARDS[1]: good[SHARDS[0]]}
    (standing,) = DIFFER.standing(snapshot_of(swapped))
    assert standing.after["not_in_their_file"] == ["a.weight", "b.weight"]


def test_gguf_replaced_and_its_keys() -> None:
    old = {"general.architecture": "llama", "tokenizer.ggml.pre": "default", "tokens": ["a"] * 70}
    new = {**old, "tokenizer.ggml.pre": "llama-bpe"}
    assert classes({"q.gguf": gguf(old)}, {"q.gguf": gguf(old, salt=b"x")}) == ["gguf.replaced"]
    changes = diff({"q.gguf": gguf(old)}, {"q.gguf": gguf(new)})
    assert [change.cls for change in changes] == ["gguf.metadata", "gguf.replaced"]
    assert changes[0].before == {"tokenizer.ggml.pre": "default"}


def lfs(oid: str, size: int) -> Snapshot:
    entry = FileEntry(path="m.gguf", size=size, blob_id=oid[:40], lfs_sha256=oid)
    base = snapshot_of({})
    data = gguf({"general.name": "m", "tokens": ["a"] * 70})[:60]
    return build(base.revision, Manifest(files={"m.gguf": entry}), {}, {entry.content_key: data})


@pytest.mark.corpus
def test_a_replaced_gguf_as_it_happened(corpus: Path) -> None:
    folder = corpus / "cases" / "inputs" / "C17"
    old, new = (json.loads((folder / side / "lfs.json").read_text()) for side in ("old", "new"))
    sides = [lfs(str(item.get("sha256") or item.get("oid")), int(item["size"])) for item in (old, new)]
    assert [change.cls for change in compare(*sides)] == ["gguf.replaced"]


@pytest.mark.corpus
def test_renamed_tensors_as_they_happened(corpus: Path) -> None:
    folder = corpus / "cases" / "inputs" / "C12"

    def side(name: str) -> Snapshot:
        names = json.loads((folder / name / "tensor_names.json").read_text())
        names = names if isinstance(names, list) else list(names)
        config = (folder / name / "config.json").read_bytes()
        return snapshot_of({"config.json": config, ONE: safetensors(dict.fromkeys(names, ("F16", (1,))))})

    changes = [change for change in compare(side("old"), side("new")) if change.cls.startswith("weights.")]
    assert [change.cls for change in changes] == ["weights.keys"]
    assert not changes[0].facts["load_succeeds"]


# --- files whose headers cannot be read ---------------------------------------------------------------

UNREAD = b"\0" * 4_000


def config(dtype: str) -> dict[str, Any]:
    return {"config.json": {"model_type": "llama", "torch_dtype": dtype}}


def weight_classes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    old = snapshot_of(before)
    changes = compare(old, carry(old, snapshot_of(after)), had_model=True)
    return [change.cls for change in changes if change.cls.startswith("weights.")]


def test_another_layout_of_unread_files_is_resharded_and_the_declared_cast_is_inferred() -> None:
    before = config("float32") | {SHARDS[0]: UNREAD, SHARDS[1]: UNREAD[:-8]}
    after = config("bfloat16") | {ONE: UNREAD}
    assert weight_classes(before, after) == ["weights.resharded", "weights.dtype"]
    changes = diff(before, after)
    assert changes[0].facts["headers_unread"]
    assert changes[1].facts["inferred"]
    assert (changes[1].before, changes[1].after) == ("float32", "bfloat16")
    assert observe(snapshot_of(before), changes[1].facet) == changes[1].before_digest


def test_another_layout_whose_size_fits_no_declared_cast_may_be_other_weights() -> None:
    before = config("float32") | {SHARDS[0]: UNREAD, SHARDS[1]: UNREAD}
    for after in (
        config("float32") | {ONE: UNREAD},
        config("bfloat16") | {ONE: UNREAD[:-100]},
        config("bfloat16") | {ONE: UNREAD * 2},
    ):
        assert weight_classes(before, after) == ["weights.resharded", "weights.replaced"]


def test_many_unread_shards_are_one_finding_a_set() -> None:
    shards = {f"model-{n:05d}-of-00163.safetensors": UNREAD + bytes([n]) for n in range(1, 164)}
    before, after = snapshot_of({"config.json": {}}), snapshot_of({"config.json": {}, **shards})
    unread = [change for change in compare(before, after, had_model=True) if change.cls == "document.unreadable"]
    assert len(unread) == 1
    assert unread[0].facts["paths"] == sorted(shards)
    assert observe(after, unread[0].facet) == unread[0].after_digest
    mended = snapshot_of({"config.json": {}, **dict.fromkeys(shards, safetensors({}))})
    assert observe(mended, unread[0].facet) != unread[0].after_digest
    one_more = snapshot_of({"config.json": {}, **shards, "other.safetensors": UNREAD})
    again = [item for item in compare(after, one_more, had_model=True) if item.cls == "document.unreadable"]
    assert [item.path for item in again] == ["other.safetensors"]


# --- pickles, by what they import ---------------------------------------------------------------------

EVIL = b"\x80\x02cos\nsystem\nX\x01\x00\x00\x00x\x85R."


def test_an_added_pickle_says_what_it_imports() -> None:
    (change,) = diff({}, {"x.pkl": EVIL})
    assert change.cls == "weights.pickle_added"
    assert change.facts["dangerous"] == ["os.system"]
    assert "os.system" in change.summary
    (plain,) = diff({}, {"x.pkl": PICKLE})
    assert (plain.facts["dangerous"], plain.facts["container"]) == ([], "pickle")


def test_a_changed_pickle_that_comes_to_import_what_can_do_harm() -> None:
    assert classes({"x.pkl": PICKLE}, {"x.pkl": EVIL}) == ["weights.pickle_added", "weights.replaced"]
    change = diff({"x.pkl": PICKLE}, {"x.pkl": EVIL})[0]
    assert change.facts["dangerous"] == ["os.system"]
    assert observe(snapshot_of({"x.pkl": PICKLE}), change.facet) == change.before_digest
    assert observe(snapshot_of({"x.pkl": EVIL}), change.facet) == change.after_digest
    assert classes({"x.pkl": EVIL}, {"x.pkl": EVIL + b"."}) == ["weights.replaced"]
    assert classes({"x.pkl": EVIL}, {"x.pkl": PICKLE}) == ["weights.replaced"]
    assert classes({"optimizer.pt": PICKLE}, {"optimizer.pt": EVIL}) == ["weights.pickle_added"]


def test_an_array_that_becomes_one_of_objects_is_a_pickle() -> None:
    def array(descr: bytes) -> bytes:
        header = b"{'descr': '" + descr + b"', 'fortran_order': False, 'shape': (1,), }"
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + PICKLE

    assert "weights.pickle_added" not in classes({}, {"x.npy": array(b"<f4")})
    assert "weights.pickle_added" in classes({"x.npy": array(b"<f4")}, {"x.npy": array(b"|O")})


def test_a_pickle_that_becomes_unknown_bytes_is_told_once() -> None:
    broken, other = b"\0\1" * 100, b"\0\2" * 100
    assert classes({"x.bin": PICKLE}, {"x.bin": broken}) == ["weights.pickle_added", "weights.replaced"]
    assert classes({"x.bin": broken}, {"x.bin": other}) == ["weights.replaced"]


def test_a_pickle_by_another_archiver_is_disguised_and_unreadable_too() -> None:
    before = snapshot_of({"config.json": {}})
    after = snapshot_of({"config.json": {}, "pytorch_model.bin": b"7z\xbc\xaf\x27\x1c broken"})
    assert {change.cls for change in compare(before, after, had_model=True)} >= {
        "weights.pickle_added",
        "file.disguised",
        "document.unreadable",
    }


@pytest.mark.parametrize(
    ("path", "data"),
    [(ONE, PICKLE), (ONE, b"\x7fELF" + UNREAD), ("config.json", PICKLE), ("q.gguf", b"lmgg" + UNREAD)],
)
def test_first_bytes_that_belie_a_name(path: str, data: bytes) -> None:
    before = snapshot_of({"README.md": "x", "tokenizer.json": {}})
    after = snapshot_of({"README.md": "x", "tokenizer.json": {}, path: data})
    assert "file.disguised" in {change.cls for change in compare(before, after, had_model=True)}
