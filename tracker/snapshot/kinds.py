"""What a file of a repo is for, by its path alone, and how many bytes of it are read at most."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType

from storage.model import DocumentKind

MIB = 1024 * 1024
LONGEST_PATH = 1024

# How many bytes of a header are asked for. A safetensors header is read whole or not at all; of a GGUF
# file the first bytes are enough for what stands before its vocabulary.
SAFETENSORS_HEADER_LIMIT = 16 * MIB
GGUF_HEADER_LIMIT = 512 * 1024
PICKLE_HEADER_LIMIT = 64 * 1024

_BY_NAME: Mapping[str, DocumentKind] = MappingProxyType(
    {
        "config.json": DocumentKind.CONFIG,
        "generation_config.json": DocumentKind.GENERATION_CONFIG,
        "tokenizer.json": DocumentKind.TOKENIZER,
        "tokenizer_config.json": DocumentKind.TOKENIZER_CONFIG,
        "special_tokens_map.json": DocumentKind.SPECIAL_TOKENS,
        "added_tokens.json": DocumentKind.ADDED_TOKENS,
        "vocab.json": DocumentKind.VOCABULARY,
        "vocab.txt": DocumentKind.VOCABULARY,
        "merges.txt": DocumentKind.MERGES,
        "chat_template.json": DocumentKind.CHAT_TEMPLATE,
        "preprocessor_config.json": DocumentKind.PROCESSOR,
        "processor_config.json": DocumentKind.PROCESSOR,
        "video_preprocessor_config.json": DocumentKind.PROCESSOR,
        "image_processor_config.json": DocumentKind.PROCESSOR,
        "feature_extractor_config.json": DocumentKind.PROCESSOR,
        "audio_processor_config.json": DocumentKind.PROCESSOR,
        "adapter_config.json": DocumentKind.ADAPTER,
        "modules.json": DocumentKind.EMBEDDING,
        "config_sentence_transformers.json": DocumentKind.EMBEDDING,
        "quantize_config.json": DocumentKind.QUANTIZATION,
        "quantization_config.json": DocumentKind.QUANTIZATION,
        "quant_config.json": DocumentKind.QUANTIZATION,
        "hf_quant_config.json": DocumentKind.QUANTIZATION,
        "gptq_config.json": DocumentKind.QUANTIZATION,
        "model_index.json": DocumentKind.COMPONENTS,
        "scheduler_config.json": DocumentKind.COMPONENTS,
        "model.sig": DocumentKind.SIGNATURE,
        "pyproject.toml": DocumentKind.REQUIREMENTS,
        "setup.py": DocumentKind.REQUIREMENTS,
        "setup.cfg": DocumentKind.REQUIREMENTS,
    }
)
_CAPS: Mapping[DocumentKind, int] = MappingProxyType(
    {
        DocumentKind.TOKENIZER: 64 * MIB,
        DocumentKind.VOCABULARY: 32 * MIB,
        DocumentKind.MERGES: 16 * MIB,
        DocumentKind.WEIGHT_INDEX: 32 * MIB,
        DocumentKind.CODE: 2 * MIB,
        DocumentKind.REQUIREMENTS: 2 * MIB,
        DocumentKind.CARD: 2 * MIB,
        DocumentKind.LICENCE: 2 * MIB,
        DocumentKind.CHAT_TEMPLATE: 2 * MIB,
    }
)
_LICENCE = re.compile(r"(?:licen[cs]e|copying)(?:[ ._-].*)?", re.IGNORECASE | re.DOTALL)
_LICENCE_SUFFIX = re.compile(r"|\.(?:txt|md|rst|html?|[0-9]+)", re.IGNORECASE)
_REQUIREMENTS = re.compile(r"(?:requirements?|constraints)(?:[._-].*)?\.txt", re.IGNORECASE | re.DOTALL)
_INDEX = re.compile(r"\.index(?:\.[A-Za-z0-9_-]+)?\.json$")  # model.safetensors.index.fp16.json is one too
_SENTENCE_MODULE = re.compile(r"[0-9]+_[A-Za-z]\w*")  # 1_Pooling, 2_Dense
_SENTENCE_CONFIG = re.compile(r"sentence_\w+_config\.json")

_WEIGHT_SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        ".safetensors": "safetensors",
        ".gguf": "gguf",
        ".ggml": "ggml",
        ".bin": "pytorch",
        ".pt": "pytorch",
        ".pth": "pytorch",
        ".pt2": "pytorch",
        ".ckpt": "checkpoint",
        ".distcp": "pytorch",
        ".pkl": "pickle",
        ".pickle": "pickle",
        ".dill": "pickle",
        ".joblib": "joblib",
        ".skops": "skops",
        ".nemo": "nemo",
        ".mar": "torchserve",
        ".pdparams": "paddle",
        ".pdopt": "paddle",
        ".keras": "keras",
        ".h5": "hdf5",
        ".hdf5": "hdf5",
        ".msgpack": "flax",
        ".npy": "numpy",
        ".npz": "numpy",
        ".onnx": "onnx",
        ".onnx_data": "onnx",
        ".pb": "tensorflow",
        ".tflite": "tflite",
        ".ot": "rust",
        ".mlmodel": "coreml",
        ".engine": "tensorrt",
        ".pte": "executorch",
        ".llamafile": "llamafile",
        ".pdiparams": "paddle-inference",
    }
)
# Formats whose loading runs code: pickles, archives that hold pickles, and Keras archives (Lambda layers).
# NumPy, HDF5 and msgpack readers refuse objects by default and are not counted.
_EXECUTABLE = frozenset({"pytorch", "checkpoint", "pickle", "joblib", "nemo", "torchserve", "paddle", "keras"})
_CODE_SUFFIXES = (".py", ".pyi", ".pyw")


# The same few paths are asked about again with every revision.
@lru_cache(maxsize=2048)
def kind_of(path: str) -> DocumentKind | None:
    """What a file is for; None for a file whose content is not read.

    Files in sub-folders count by their name (``vae/config.json``), but only the README.md at the top is
    the model card, and a config in a sentence-transformers module folder (``1_Pooling``) is EMBEDDING.
    """
    if len(path) > LONGEST_PATH:
        return None
    pure = PurePosixPath(path)
    name = pure.name
    if name == "config.json" and _SENTENCE_MODULE.fullmatch(pure.parent.name):
        return DocumentKind.EMBEDDING
    if name in _BY_NAME:
        return _BY_NAME[name]
    suffix = pure.suffix.lower()
    if suffix == ".jinja":
        return DocumentKind.CHAT_TEMPLATE
    if suffix in _CODE_SUFFIXES:
        return DocumentKind.CODE
    if _INDEX.search(name):
        return DocumentKind.WEIGHT_INDEX
    if _SENTENCE_CONFIG.fullmatch(name):
        return DocumentKind.EMBEDDING
    if path.lower() == "readme.md":
        return DocumentKind.CARD
    if _REQUIREMENTS.fullmatch(name):
        return DocumentKind.REQUIREMENTS
    if _LICENCE.fullmatch(name) and _LICENCE_SUFFIX.fullmatch(pure.suffix):
        return DocumentKind.LICENCE
    if name.lower().endswith((".sigstore", ".sigstore.json")):
        return DocumentKind.SIGNATURE
    return DocumentKind.JSON if suffix == ".json" else None


def cap_of(kind: DocumentKind) -> int:
    """How many bytes a file of this kind may have; a bigger one is a gap (``too_large``)."""
    return _CAPS.get(kind, 8 * MIB)


@lru_cache(maxsize=2048)
def weight_format(path: str) -> str | None:
    """The format of a weight file by its name (``safetensors``, ``gguf``, ``pytorch``, ``onnx``, ...), or None."""
    lowered = path.lower()
    if lowered.endswith(".onnx.data"):
        return "onnx"
    pure = PurePosixPath(lowered)
    if pure.suffix == ".bin":
        # The raw weights of OpenVINO, Core ML and old ggml files share the suffix; no loader unpickles
        # them under these names.
        if pure.name.startswith("openvino_"):
            return "openvino"
        if pure.name.startswith("ggml-"):
            return "ggml"
        if ".mlpackage/" in lowered or ".mlmodelc/" in lowered:
            return "coreml"
    return _WEIGHT_SUFFIXES.get(pure.suffix)


def is_weight(path: str) -> bool:
    """Whether the file holds weights, or another binary that loaders open (optimizer states, pickles)."""
    return weight_format(path) is not None


def is_pickle(path: str) -> bool:
    """Whether loading the file runs code that it holds: pickles, archives of pickles, Keras archives."""
    return weight_format(path) in _EXECUTABLE


def header_limit(path: str) -> int | None:
    """How many header bytes to ask for, None for a file whose header is not read."""
    return {"safetensors": SAFETENSORS_HEADER_LIMIT, "gguf": GGUF_HEADER_LIMIT}.get(weight_format(path) or "")
