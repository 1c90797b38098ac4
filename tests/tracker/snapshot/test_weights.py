"""Headers of weight files: exact ones are read, lying ones refused, cut ones flagged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.model import Tensor
from tests.tracker.snapshot.make import PICKLE, gguf, safetensors
from tracker.snapshot.gguf import parse_gguf_header
from tracker.snapshot.json_reader import Unreadable
from tracker.snapshot.weights import parse_safetensors_header


def raw(header: object, size: int) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_an_exact_header_is_read_in_the_order_of_its_data() -> None:
    data = safetensors({"b": ("BF16", (2, 3)), "a": ("F4", (4,)), "s": ("I64", ())}, metadata={"format": "pt"})
    found = parse_safetensors_header(data, len(data), path="m", content_key="k")
    assert found.tensors == (
        Tensor(name="b", dtype="BF16", shape=(2, 3)),
        Tensor(name="a", dtype="F4", shape=(4,)),
        Tensor(name="s", dtype="I64", shape=()),
    )
    assert found.metadata == {"format": "pt"}
    assert [tensor.elements for tensor in found.tensors] == [6, 4, 1]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 8,
        (2**63).to_bytes(8, "little"),
        raw([], 0),
        raw({"a": 1}, 0),
        raw({"a": entry()}, 7),
        raw({"a": entry()}, 9),
        raw({"a": entry(dtype=7)}, 8),
        raw({"a": entry(dtype="F16")}, 8),
        raw({"a": entry(shape=[-2])}, 8),
        raw({"a": entry(shape=[True, 2])}, 8),
        raw({"a": entry(shape=[1] * 17)}, 8),
        raw({"a": entry(shape=[2**63])}, 8),
        raw({"a": entry(shape="2")}, 8),
        raw({"a": entry(offsets=[8, 0])}, 8),
        raw({"a": entry(offsets=[0])}, 8),
        raw({"a": entry(), "b": entry(offsets=[9, 17])}, 17),
        raw({"a": entry(), "b": entry(offsets=[4, 12])}, 12),
        raw({"__metadata__": [1]}, 0),
        raw(b'{"a": %s, "a": %s}' % ((json.dumps(entry()).encode(),) * 2), 8),
        raw(b"{", 0),
    ],
)
def test_a_lying_header_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        parse_safetensors_header(data, len(data))
    assert caught.value.reason == "header"


def test_another_kind_of_file_is_called_by_its_name() -> None:
    for parse in (parse_safetensors_header, parse_gguf_header):
        with pytest.raises(Unreadable) as caught:
            parse(PICKLE, len(PICKLE))
        assert caught.value.reason == "disguised"
        assert "pickle" in caught.value.detail


def test_a_dtype_newer_than_the_table_is_taken_at_its_word() -> None:
    data = raw({"a": entry(dtype="F9_E5M3")}, 8)
    assert parse_safetensors_header(data, len(data)).tensors[0].dtype == "F9_E5M3"


def test_gguf_keys_and_tensors() -> None:
    vocabulary = [f"token {n}" for n in range(100)]
    data = gguf({"general.architecture": "llama", "n": 3, "tokens": vocabulary, "few": [1, 2]}, {"t": (2, 5)})
    found = parse_gguf_header(data, len(data))
    assert not found.truncated
    assert found.tensors == (Tensor(name="t", dtype="F16", shape=(2, 5)),)
    assert found.metadata["few"] == [1, 2]
    assert found.metadata["tokens"]["count"] == 100
    other = gguf({"tokens": [*vocabulary[:-1], "other"]})
    assert parse_gguf_header(other, len(other)).metadata["tokens"]["digest"] != found.metadata["tokens"]["digest"]


def test_gguf_cut_anywhere_keeps_what_was_read() -> None:
    data = gguf({"a": "one", "tokens": ["x"] * 70, "b": "two"}, {"t": (2,)})
    header = len(data) - 32
    for end in range(24, header):
        found = parse_gguf_header(data[:end], len(data))
        assert found.truncated
        assert found.metadata.get("a", "one") == "one"
    with pytest.raises(Unreadable):
        parse_gguf_header(data[:60], 60)


@given(st.binary(max_size=80))
def test_hostile_gguf_bytes_never_raise_anything_else(tail: bytes) -> None:
    for head in (b"", b"GGUF\x03\0\0\0", b"GGUF\x03\0\0\0" + (1).to_bytes(8, "little") * 2):
        try:
            parse_gguf_header(head + tail, 10**9)
        except Unreadable as error:
            assert error.reason in {"header", "too_many", "disguised"}  # noqa: PT017 - others are read


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_hostile_safetensors_bytes_never_raise_anything_else(header: bytes, tail: bytes) -> None:
    data = len(header).to_bytes(8, "little") + header + tail
    for size in (len(data), 10**9):
        try:
            parse_safetensors_header(data, size)
        except Unreadable as error:
            assert error.reason in {"header", "too_many", "disguised"}  # noqa: PT017 - others are read


@pytest.mark.corpus
def test_real_headers(corpus: Path) -> None:
    data = (corpus / "corpus" / "weights" / "all-MiniLM-L6-v2.safetensors.header").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    end = max(item["data_offsets"][1] for name, item in header.items() if name != "__metadata__")
    found = parse_safetensors_header(data, 8 + length + end)
    assert sum(tensor.elements for tensor in found.tensors if tensor.dtype == "F32") == 22_713_216
    data = (corpus / "corpus" / "weights" / "ggml-vocab-bert-bge.gguf").read_bytes()
    keys = parse_gguf_header(data, len(data)).metadata
    assert keys["tokenizer.ggml.pre"] == "bert-bge"
    assert keys["tokenizer.ggml.tokens"]["count"] == 30_522
