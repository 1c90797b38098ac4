"""What the fuzzed parsers are given: mutated seeds, the words of a format put together at random, plain bytes."""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.tracker.snapshot.make import gguf, safetensors

SEEDS = Path(__file__).with_name("seeds")
Bytes = SearchStrategy[bytes]


def named(text: str) -> list[str]:
    """Words divided by white space."""
    return text.split()


def seed(name: str) -> bytes:
    """A file of the seed folder."""
    return (SEEDS / name).read_bytes()


# What formats have trouble with, spliced into any of them.
_HOSTILE = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\r\n", b"\n", b" ", b"\t"),
    *(b"1e999", b"-1", b"9" * 30, b"1" * 5000, b"NaN", b"0x", b"null", b"true", b'""', b"''", b"[]", b"{}", b"[[[["),
    *(b"[" * 200, b'{"a":' * 60, b"{{", b"}}", b"{%", b"%}", b"(" * 150, b"<", b">", b";", b",", b":", b"---\n"),
    *(b"&a ", b"*a", b"<<: ", b"!!int ", b"? ", b"$(", b"${", b"`", b"#", b"\xe2\x80\xae", b"\xe2\x80\x8b"),
    *(struct.pack("<Q", 2**64 - 1), struct.pack("<Q", 2**63), struct.pack("<I", 2**32 - 1), b"\x00" * 8),
)  # fmt: skip


@st.composite
def mutants(draw: DrawFn, *seeds: bytes) -> bytes:
    """A seed with up to four edits: bytes cut out, doubled, overwritten, spliced in, or cut off."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.sampled_from([0, 1, 1, 2, 4, 8, 40])))
        piece = draw(st.sampled_from(_HOSTILE) | st.binary(max_size=4))
        match draw(st.sampled_from(["cut", "double", "replace", "insert", "end", "flip"])):
            case "cut":
                data = data[:start] + data[stop:]
            case "double":
                data = data[:stop] + data[start:stop] * draw(st.integers(1, 30)) + data[stop:]
            case "replace":
                data = data[:start] + piece + data[stop:]
            case "insert":
                data = data[:start] + piece + data[start:]
            case "end":
                data = data[:start]
            case _:
                mask = draw(st.integers(1, 255))
                data = data[:start] + bytes(byte ^ mask for byte in data[start : start + 1]) + data[start + 1 :]
    return data


def around(*names: str) -> Bytes:
    """Seeds by name, mutated, and a few plain bytes."""
    return mutants(*(seed(name) for name in names)) | st.binary(max_size=64)


def pieces(*words: str) -> Bytes:
    """Words of a format, divided by ``|``, in any order."""
    each = [word for text in words for word in text.split("|")]
    return st.lists(st.sampled_from(each) | st.text(max_size=3), max_size=40).map(
        lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
    )


# --- JSON ---------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    "model vocab merges added_tokens content id special chat_template template name tokens eos_token_id bos_token "
    "eos_token model_type architectures vocab_size hidden_size num_hidden_layers rope_scaling rope_theta factor "
    "auto_map custom_pipelines trust_remote_code quantization_config ignore text_config weight_map metadata "
    "total_size added_tokens_decoder torch_dtype dtype sliding_window layer_types _class_name type path "
    "base_model license tags peft_type target_modules a/b~c \ud800 \u0000 __class__".split(" ")
)
LEAVES: SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.sampled_from([10**30, -(10**4000), 2**63, 2**53 + 1, 1e308, 0.5, -0.0])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["llama", "BPE", "a b", "acme/x--m.Net", "{{ messages }}", "model.safetensors", "bfloat16"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=5),
    max_leaves=12,
)


def written(value: Any) -> bytes:
    """A value as JSON text, NaN and all."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


JSON = VALUES.map(written) | st.dictionaries(KEYS, VALUES, max_size=8).map(written)
DOCUMENTS = JSON | around("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json")

# --- templates, cards, code ---------------------------------------------------------------------------

TEMPLATES = around("template.jinja") | pieces(
    "{{|}}|{%|%}|{#|#}| if | for m in messages |endfor|endif| else | elif |set a = |macro f(x) |endmacro|call f(1)|"
    "endcall|generation|endgeneration|filter upper|endfilter|raw|endraw|block b |endblock|autoescape 9**9|break|"
    "messages|m.content|'a b c d'|'x'|\"\\u200b\"|a|a.b|a['c']|[|]|(|)|{|}|,|:|~|+|*9|**9|==|!=| in | not | is |"
    "defined|none| and | or | if | else |upper|lower|reverse|join('')|replace('a','aa')|attr('__class__')|[::-1]|"
    "default('x')|tojson|selectattr('content','in','x')|loop.index|namespace(b=1)|strftime_now('%d')|-|\n|"
    "January 1, 2024|\u200b|\u202e|\u0430dmin|\u200f|\u05d0|self|caller()|import 'x' as y|include 'x'|"
    "2024-01-01"
)
CARDS = around("README.md") | pieces(
    "---\n|license: mit\n|tags: |- a\n|  |: |? |&a |*a|<<: |!!int |!!binary |!!set |!!omap |!!timestamp |!!float |"
    "{|}|[|]|, |1:2:3|0b1|0o7|0x1F|1_000|.inf|.nan|~|2024-01-31|2024-13-41T99:99:99Z|'|\"|\\x41|#|>|\\|%YAML 9.9\n|"
    "=|a|base_model: x/y\n|model-index: |@|`|\r\n|\ud800|\u0000|\u2028"
)
SOURCES = around("model_source.txt") | pieces(
    "import os\n|from os import system as s\n|def f(|a=1|*|**k|)|: |\n|    |class A(B):\n|exec(|os.system(|'x'|"
    "f'{a!r:>{b}}'|lambda |async |await |yield |[|]|for x in y|=|:=|.|return |\t|\\\n|#|\"\"\"|b'\\x|0x|1j|match a:\n|"
    "case _:\n|type X[T] = int\n|@|getattr(os, 'system')()|__import__('os')|from x import *\n|-|(|\u0000|\x0c"
)

# --- weights and pickles ------------------------------------------------------------------------------

SAFETENSORS_SEED = safetensors({"a.weight": ("F32", (2, 3)), "b": ("BF16", (2,))}, metadata={"format": "pt"})
GGUF_SEED = gguf(
    {
        "general.architecture": "llama",
        "tokenizer.chat_template": "{{ messages }}",
        "tokenizer.ggml.tokens": ["a"] * 70,
        "llama.block_count": 2,
        "f": 0.5,
        "g": [1, 2],
    },
    {"blk.0.attn_q.weight": (4, 2)},
)


def _header(entries: Any, size: int, tail: bytes) -> bytes:
    body = written(entries)
    return max(0, len(body) + size).to_bytes(8, "little") + body + tail


_TENSOR = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "F4", "U8", "X99", "", "f32"]) | LEAVES,
        "shape": st.lists(st.integers(-1, 4) | st.sampled_from([2**62, 2**64]), max_size=4) | LEAVES,
        "data_offsets": st.lists(st.integers(-1, 32), min_size=2, max_size=2) | VALUES,
    }
)
SAFETENSORS = (
    mutants(SAFETENSORS_SEED)
    | st.builds(
        _header,
        st.dictionaries(st.text(max_size=5) | st.just("__metadata__"), _TENSOR | VALUES, max_size=4),
        st.sampled_from([0, 0, 0, 1, -1, 2**40]),
        st.binary(max_size=24),
    )
    | st.binary(max_size=64)
)
GGUF = (
    mutants(GGUF_SEED, GGUF_SEED[:4] + b"\x00\x00\x00\x03" + b"\x00" * 16)
    | st.binary(max_size=80).map(lambda tail: GGUF_SEED[:24] + tail)
    | st.binary(max_size=64)
)


@st.composite
def opcodes(draw: DrawFn) -> bytes:
    """A row of pickle opcodes with arguments that look right, or nearly."""
    parts = [draw(st.sampled_from([b"", b"\x80\x02", b"\x80\x04\x95\xff\x00\x00\x00\x00\x00\x00\x00"]))]
    names = st.sampled_from(
        [b"os\nsystem\n", b"torch._utils\n_rebuild_tensor_v2\n", b"__builtin__\neval\n", b"\n\n"]
    )
    for _ in range(draw(st.integers(0, 12))):
        opcode = draw(st.sampled_from(pickletools.opcodes))
        parts.append(opcode.code.encode("latin-1"))
        if opcode.arg is not None:
            match opcode.arg.n:
                case pickletools.UP_TO_NEWLINE:
                    parts.append(draw(names if opcode.arg.name.endswith("pair") else st.just(b"'a'\n") | names))
                case pickletools.TAKEN_FROM_ARGUMENT1:
                    parts.append(draw(st.sampled_from([b"\x02os", b"\x06system", b"\xff", b""])))
                case pickletools.TAKEN_FROM_ARGUMENT4 | pickletools.TAKEN_FROM_ARGUMENT4U:
                    parts.append(draw(st.sampled_from([b"\x02\x00\x00\x00os", b"\xff\xff\xff\xff", b""])))
                case size:
                    parts.append(draw(st.binary(min_size=max(size, 0), max_size=max(size, 0))))
    return b"".join([*parts, draw(st.sampled_from([b".", b".", b""]))])


def zipped(members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive, the same bytes every time."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return target.getvalue()


PICKLE_SEED = pickle.dumps({"weight": [1.0, 2.0], "f": print}, protocol=2)
ZIP_SEED = zipped({"archive/data.pkl": PICKLE_SEED, "archive/version": b"3\n", "config.json": b"{}"})
NUMPY_SEED = (
    b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(118)
    + PICKLE_SEED
)
PICKLES = (
    mutants(PICKLE_SEED, ZIP_SEED, NUMPY_SEED, zlib.compress(PICKLE_SEED), b"\x89HDF\r\n\x1a\n")
    | opcodes()
    | st.dictionaries(
        st.sampled_from(["a/data.pkl", "b.PKL", "../x.pkl", "config.json", "x" * 300, "a\ud7ff.pkl"]),
        opcodes() | st.binary(max_size=20),
        max_size=4,
    ).map(zipped)
    | st.binary(max_size=64)
)
PICKLE_PATHS = st.sampled_from(
    "pytorch_model.bin a.pt a.ckpt a.pkl a.joblib a.npy a.npz a.keras a.h5 a.nemo a.skops a.onnx a.pb a.msgpack "
    "a.mar a.pdparams a.tflite a.llamafile a.distcp".split()
)

# --- whole trees --------------------------------------------------------------------------------------

_LINES = pieces("torch|==1|\n|#|-r x|a b\n|MIT License|#version: 0.2\n|\ud800|<s>\n")
FILES: dict[str, Bytes] = {
    **dict.fromkeys(
        "config.json text/config.json generation_config.json tokenizer.json tokenizer_config.json vocab.json "
        "special_tokens_map.json added_tokens.json processor_config.json adapter_config.json modules.json "
        "quantize_config.json model_index.json chat_template.json 1_Pooling/config.json other.json model.sig "
        "config_sentence_transformers.json model.safetensors.index.json pytorch_model.bin.index.json".split(),
        DOCUMENTS,
    ),
    **dict.fromkeys(["chat_template.jinja", "additional_chat_templates/rag.jinja", "x/y.jinja"], TEMPLATES),
    **dict.fromkeys(["modeling.py", "setup.py", "sub/m.py"], SOURCES),
    **dict.fromkeys(["requirements.txt", "vocab.txt", "merges.txt", "LICENSE", "pyproject.toml"], _LINES),
    "README.md": CARDS,
    **dict.fromkeys(["model.safetensors", "model-00001-of-00002.safetensors", "b.safetensors"], SAFETENSORS),
    **dict.fromkeys(["q4.gguf", "q8.gguf"], GGUF),
    **dict.fromkeys(["pytorch_model.bin", "pytorch_model-00001-of-00001.bin", "optimizer.pt", "a.npy"], PICKLES),
    **dict.fromkeys(
        [".gitattributes", "run.exe", "notes.txt", "a\nb\u202e.bin", "x" * 1100], st.binary(max_size=6)
    ),
}
_START: dict[str, bytes] = {
    "config.json": seed("config.json"),
    "tokenizer.json": seed("tokenizer.json"),
    "tokenizer_config.json": seed("tokenizer_config.json"),
    "chat_template.jinja": seed("template.jinja"),
    "README.md": seed("README.md"),
    "modeling.py": seed("model_source.txt"),
    "requirements.txt": seed("requirements.txt"),
    "model.safetensors": SAFETENSORS_SEED,
    "model.safetensors.index.json": seed("model.safetensors.index.json"),
    "q4.gguf": GGUF_SEED,
    "pytorch_model.bin": ZIP_SEED,
}
Tree = dict[str, bytes]


@st.composite
def trees(draw: DrawFn, base: Tree | None = None) -> Tree:
    """A small repo: some files of a real-looking one (or of ``base``), some of them replaced, added, gone."""
    tree = dict(_START if base is None else base)
    for path in draw(st.lists(st.sampled_from(sorted(tree)), max_size=8, unique=True)) if tree else ():
        del tree[path]
    for path in draw(st.lists(st.sampled_from(sorted(FILES)), max_size=5, unique=True)):
        tree[path] = draw(FILES[path])
    return tree


@st.composite
def histories(draw: DrawFn, *, most: int = 3) -> list[Tree]:
    """Two or three revisions, each made from the one before; the last may be the first again."""
    first = draw(trees())
    found = [first, draw(trees(first))]
    if draw(st.booleans()) and most > 2:
        found.append(draw(st.just(first) | trees(found[-1])))
    return found
