"""Pickles, looked into and never loaded: containers, imports, disguises, bombs."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import pickle
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.model import PickleFile
from tests.tracker.snapshot.make import PICKLE, gguf, safetensors
from tracker.snapshot.json_reader import Unreadable
from tracker.snapshot.opcodes import UNPARSED, read_opcodes
from tracker.snapshot.pickles import inspect, looked_into
from tracker.snapshot.ranges import BLOCK, BUDGET, Recorder, unpacked

STATE = pickle.dumps({"weight": [1.0]}, protocol=2)


def calling(module: str, name: str, *, protocol: int = 4) -> bytes:
    """A pickle that calls module.name("x") when loaded; it is never loaded here."""
    if protocol < 4:
        return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"X\x01\x00\x00\x00x\x85R."
    return (
        b"\x80\x04"
        + b"".join(b"\x8c" + bytes([len(text)]) + text.encode() + b"\x94" for text in (module, name))
        + b"\x93\x94\x8c\x01x\x85\x94R\x94."
    )


def checkpoint(data: bytes, *, method: int = zipfile.ZIP_STORED, filler: int = 0) -> bytes:
    """A zip checkpoint as torch writes it, with so many bytes of tensors."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3")
        if filler:
            archive.writestr(zipfile.ZipInfo("archive/data/0"), bytes(filler))
    return out.getvalue()


def legacy(state: bytes) -> bytes:
    """A checkpoint as torch wrote it before 1.6: five pickles, then raw storages."""
    head = [pickle.dumps(value, protocol=2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    return b"".join([*head, state, pickle.dumps(["0"], protocol=2)]) + b"\x00\xff" * 500


def npy(descr: str, body: bytes) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def look(path: str, data: bytes) -> PickleFile:
    return inspect(path, len(data), lambda start, stop: data[start:stop])


@pytest.mark.parametrize(
    ("path", "data", "container"),
    [
        ("pytorch_model.bin", checkpoint(STATE), "zip archive"),
        ("pytorch_model.bin", checkpoint(STATE, method=zipfile.ZIP_DEFLATED), "zip archive"),
        ("pytorch_model.bin", legacy(STATE), "pickle"),
        ("x.pkl", PICKLE, "pickle"),
        ("x.pkl", pickle.dumps([1, 2], protocol=0), "pickle"),
        ("x.joblib", zlib.compress(PICKLE), "zlib stream"),
        ("x.joblib", gzip.compress(PICKLE), "gzip archive"),
        ("x.pkl", bz2.compress(PICKLE), "bzip2 archive"),
        ("x.pkl", lzma.compress(PICKLE), "xz archive"),
        ("x.npy", npy("'<f4'", b"\0" * 4), "NumPy array"),
        ("ggml.bin", b"lmgg" + b"\0" * 60, "ggml file"),
        ("model.bin", struct.pack("<IH", 6, 16) + b"TransformerSpec\0" + b"\0" * 40, "CTranslate2 model"),
        ("m.h5", b"\x89HDF\r\n\x1a\n" + b"\0" * 60, "HDF5 file"),
        ("m.onnx", b"\x08\x07\x12\x07pytorch", "onnx"),
    ],
)
def test_harmless_files_are_told_by_their_first_bytes(path: str, data: bytes, container: str) -> None:
    found = look(path, data)
    assert (found.container, found.dangerous, found.whole) == (container, (), True)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("nt", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("builtins", "exec"),
        ("builtins", "__import__"),
        ("socket", "socket"),
        ("importlib", "import_module"),
        ("torch.hub", "load"),
        ("torch", "hub.load"),
        ("runpy", "run_path"),
        ("webbrowser", "open"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    "wrap", [lambda data: data, checkpoint, legacy, lambda data: checkpoint(data, method=zipfile.ZIP_DEFLATED)]
)
def test_imports_that_can_do_harm(module: str, name: str, protocol: int, wrap: Callable[[bytes], bytes]) -> None:
    found = look("pytorch_model.bin", wrap(calling(module, name, protocol=protocol)))
    assert found.dangerous == (f"{module}.{name}",)
    assert f"{module}.{name}" in found.imports


def test_a_compressed_pickle_and_an_array_of_objects_are_pickles_too() -> None:
    assert look("x.joblib", zlib.compress(calling("os", "system"))).dangerous == ("os.system",)
    found = look("x.npy", npy("'|O'", calling("os", "system")))
    assert found.dangerous == ("os.system",)
    assert "numpy.ndarray of objects" in found.imports
    assert look("x.npy", npy("[('a', '<i4'), ('b', '|O')]", PICKLE)).imports


def test_what_torch_writes_is_not_dangerous() -> None:
    state = b"\x80\x02ccollections\nOrderedDict\n)Rctorch._utils\n_rebuild_tensor_v2\nctorch\nFloatStorage\n0000."
    found = look("pytorch_model.bin", checkpoint(state))
    assert found.imports == ("collections.OrderedDict", "torch.FloatStorage", "torch._utils._rebuild_tensor_v2")
    assert found.dangerous == ()


def test_an_import_before_a_broken_end_counts() -> None:
    found = look("pytorch_model.bin", calling("os", "system", protocol=2)[:-1] + b"\xff broken")
    assert (found.dangerous, found.whole) == (("os.system",), False)
    hidden = look("x.pkl", b"\x80\x04\x93\x93.")
    assert hidden.dangerous


def test_a_name_built_to_be_unreadable_is_shown_safely() -> None:
    (name,) = read_opcodes(b"\x80\x02cos\x1b[31m\nsys\x07\n.").imports
    assert name.isprintable()


def test_opcodes_that_end_early_count_as_dangerous_unless_the_cap_cut_them() -> None:
    cut = pickle.dumps({"a": [1] * 100})[:-20]
    assert read_opcodes(cut).dangerous == (UNPARSED,)
    assert read_opcodes(cut, complete=False).dangerous == ()
    assert read_opcodes(b"\x80\x02\xff", complete=False).dangerous == (UNPARSED,)
    assert look("pytorch_model.bin", checkpoint(cut)).dangerous == (UNPARSED,)
    array = b"\x80\x02cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81\xff\xff"
    assert look("x.joblib", array).dangerous == ()


def test_keras_layers_that_hold_code() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("config.json", '{"layers": [{"class_name": "Lambda"}]}')
        archive.writestr("model.weights.h5", b"x")
    assert look("m.keras", out.getvalue()).dangerous == ("keras.layers.Lambda",)
    assert look("m.h5", b"\x89HDF\r\n\x1a\n" + b'{"class_name": "Lambda"}').dangerous


@pytest.mark.parametrize(
    ("path", "data", "what"),
    [
        ("pytorch_model.bin", b"7z\xbc\xaf\x27\x1c" + b"\0" * 90, "7z archive"),
        ("pytorch_model.bin", b"\x7fELF" + b"\0" * 90, "ELF program"),
        ("pytorch_model.bin", b"MZ\x90" + b"\0" * 90, "Windows program"),
        ("x.pkl", b"Rar!\x1a\x07" + b"\0" * 90, "rar archive"),
        ("x.npy", PICKLE, "pickle"),
        ("m.h5", checkpoint(STATE), "zip archive"),
        ("m.onnx", PICKLE, "pickle"),
        ("m.msgpack", checkpoint(STATE), "zip archive"),
    ],
)
def test_first_bytes_that_belie_the_suffix(path: str, data: bytes, what: str) -> None:
    with pytest.raises(Unreadable) as caught:
        look(path, data)
    assert caught.value.reason == "disguised"
    assert what in caught.value.detail


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 100,
        b"PK\x03\x04" + b"\0" * 100,
        checkpoint(STATE)[:-30],
        b"\x12\x34" * 100,
        b"",
        safetensors({"a": ("F32", (2,))}),
        checkpoint(STATE, method=zipfile.ZIP_BZIP2),
    ],
)
def test_what_cannot_be_taken_apart_fails_closed(data: bytes) -> None:
    found = look("pytorch_model.bin", data)
    assert (len(found.dangerous), found.whole) == (1, False)
    # The same whatever the bytes, so that other broken bytes are no other danger.
    assert look("pytorch_model.bin", data).dangerous == look("pytorch_model.bin", data + b"\0").dangerous
    assert look("x.h5", b"\0" * 100).dangerous == ()


def test_a_large_checkpoint_is_read_by_few_ranges_and_again_without_the_file() -> None:
    data = checkpoint(calling("os", "system"), filler=20_000_000)
    asked: list[tuple[int, int]] = []

    def read(start: int, stop: int) -> bytes:
        asked.append((start, stop))
        return data[start:stop]

    recorder = Recorder(read)
    first = inspect("a.bin", len(data), recorder)
    assert first.dangerous == ("os.system",)
    assert len(asked) == 2
    assert sum(stop - start for start, stop in asked) <= 2 * BLOCK
    kept = recorder.packed()
    assert inspect("a.bin", len(data), unpacked(kept)) == first
    assert len(asked) == 2
    with pytest.raises(Unreadable, match="fetch"):
        inspect("a.bin", len(data) + 1, unpacked(kept))


@pytest.mark.parametrize(
    "bomb",
    [
        checkpoint(b"\x80\x04" + b"N0" * 40_000_000 + b".", method=zipfile.ZIP_DEFLATED),
        zlib.compress(b"\x80\x04" + b"\x00" * 200_000_000),
        b"\x80\x04" + b"]\x94" * 400_000,
        b"\x80\x02" + b"(" * 500_000,
        b"." * 500_000,
        b"\x80\x04\x8e" + (2**60).to_bytes(8, "little") + b"x" * 1000,
        b"\x80\x02\x8b" + (200_000).to_bytes(4, "little") + b"\x7f" * 200_000 + b"q\x00h\x00h\x00\x93.",
        b"(I" + b"9" * 60_000 + b"\nc",
    ],
)
def test_a_bomb_costs_little(bomb: bytes) -> None:
    read = 0

    def counted(start: int, stop: int) -> bytes:
        nonlocal read
        read += stop - start
        return bomb[start:stop]

    tracemalloc.start()
    with contextlib.suppress(Unreadable):
        inspect("x.joblib", len(bomb), counted)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read <= BUDGET
    assert peak < 200_000_000


def test_an_archive_of_many_members_is_not_followed_beyond_its_budget() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(20_000):
            archive.writestr(f"archive/data/{number:060d}", b"")
        archive.writestr("archive/data.pkl", STATE)
    assert not look("pytorch_model.bin", out.getvalue()).whole


@settings(max_examples=150)
@given(st.binary(max_size=400), st.sampled_from(["", "\x80\x04", "PK\x03\x04", "\x93NUMPY\x01\x00", "c"]))
def test_no_bytes_raise_anything_else(data: bytes, start: str) -> None:
    for path in ("a.bin", "a.pkl", "a.joblib", "a.npy", "a.keras", "a.h5", "a.nemo", "a.onnx", "a.pdparams"):
        with contextlib.suppress(Unreadable):
            assert look(path, start.encode("latin-1") + data).container


def test_which_files_are_looked_into() -> None:
    assert all(
        map(looked_into, ("a.bin", "a.pt", "a.pth", "a.ckpt", "a.pkl", "a.npy", "a.joblib", "a.keras", "a.h5"))
    )
    assert not any(map(looked_into, ("a.safetensors", "a.gguf", "a.json", "openvino_model.bin", "a.onnx_data")))
    assert gguf({})[:4] == b"GGUF"
