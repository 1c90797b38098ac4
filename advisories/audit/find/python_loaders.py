"""The calls that load models from the Hub, and which of their arguments say which one."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """How one call names a model.

    Attributes:
        keywords: Keyword arguments that name the model.
        position: Its place among the positional arguments; None for keyword only.
        revisions: Keyword arguments that pin it.
        more: Further keyword arguments that name a repo, with those that pin it.
        sentence: Old names without an owner belong to sentence-transformers.
        tag: A ``:`` chooses files within the repo.
        strict: An argument that could not be followed is worth telling.
        sources: The modules it must be imported from, where its name alone says too little.

    """

    keywords: tuple[str, ...]
    position: int | None = 0
    revisions: tuple[str, ...] = ("revision",)
    more: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sentence: bool = False
    tag: bool = False
    strict: bool = False
    sources: tuple[str, ...] = ()


_NAMES = ("model_name_or_path", "model_name", "model_id", "model", "repo_id", "model_path")
_TOKENIZER = (("tokenizer", ("tokenizer_revision", "revision")),)
_PRETRAINED = Loader(
    keywords=("pretrained_model_name_or_path", *_NAMES, "pretrained_model_link_or_path", "identifier"),
    strict=True,
)
_HUB = Loader(keywords=("repo_id",), strict=True)
_BY_NAME = Loader(keywords=_NAMES)
_SENTENCE = Loader(keywords=("model_name_or_path", "model_name"), sentence=True, strict=True)
_ENGINE = Loader(keywords=("model", "model_path"), more=_TOKENIZER, strict=True)
_TRAINER = Loader(keywords=("model",), revisions=("revision", "model_revision"))
_LOAD = Loader(
    keywords=("path_or_hf_repo", "path", "model_path", "model"),
    sources=("mlx_lm", "mlx_vlm", "mlx_embeddings", "flair.models", "flair"),
)

LOADERS = {
    "from_pretrained": _PRETRAINED,
    "from_single_file": Loader(keywords=("pretrained_model_link_or_path",)),
    "from_pretrained_keras": _PRETRAINED,
    "from_hparams": Loader(keywords=("source",)),
    "from_model_id": Loader(keywords=("model_id",), strict=True),
    "load_adapter": Loader(keywords=("peft_model_id", "adapter_name_or_path")),
    "load_lora_weights": Loader(keywords=("pretrained_model_name_or_path_or_dict",)),
    "load_ip_adapter": Loader(keywords=("pretrained_model_name_or_path_or_dict",)),
    "load_textual_inversion": Loader(keywords=("pretrained_model_name_or_path",)),
    "pipeline": Loader(
        keywords=("model",),
        position=1,
        more=(
            ("tokenizer", ("revision",)),
            ("feature_extractor", ("revision",)),
            ("image_processor", ("revision",)),
            ("processor", ("revision",)),
        ),
    ),
    "snapshot_download": _HUB,
    "hf_hub_download": _HUB,
    "hf_hub_url": _HUB,
    "cached_file": Loader(keywords=("path_or_repo_id",)),
    "get_safetensors_metadata": _HUB,
    "SentenceTransformer": _SENTENCE,
    "SparseEncoder": _SENTENCE,
    "CrossEncoder": Loader(keywords=("model_name_or_path", "model_name"), strict=True),
    "LLM": _ENGINE,
    "EngineArgs": _ENGINE,
    "AsyncEngineArgs": _ENGINE,
    "Engine": Loader(keywords=("model_path", "model"), position=None, more=_TOKENIZER),
    "Runtime": Loader(keywords=("model_path",), position=None),
    "InferenceClient": Loader(keywords=("model",), tag=True),
    "AsyncInferenceClient": Loader(keywords=("model",), tag=True),
    "FlagModel": _BY_NAME,
    "FlagAutoModel": _BY_NAME,
    "FlagReranker": _BY_NAME,
    "BGEM3FlagModel": _BY_NAME,
    "HuggingFaceEmbeddings": Loader(keywords=("model_name", "model"), sentence=True),
    "HuggingFaceInstructEmbeddings": Loader(keywords=("model_name",)),
    "HuggingFaceBgeEmbeddings": Loader(keywords=("model_name",)),
    "HuggingFaceEmbedding": _BY_NAME,
    "HuggingFaceLocalGenerator": Loader(keywords=("model",)),
    "HuggingFaceLocalChatGenerator": Loader(keywords=("model",)),
    "HuggingFaceEndpoint": Loader(keywords=("repo_id", "model")),
    "HuggingFaceEndpointEmbeddings": Loader(keywords=("repo_id", "model")),
    "HuggingFaceCrossEncoder": Loader(keywords=("model_name",)),
    "HuggingFaceLLM": Loader(keywords=("model_name",), more=(("tokenizer_name", ("revision",)),)),
    "SentenceTransformerEmbeddings": Loader(keywords=("model_name",), sentence=True),
    "SentenceTransformerEmbeddingFunction": Loader(keywords=("model_name",), sentence=True),
    "SentenceTransformersTextEmbedder": Loader(keywords=("model",), sentence=True),
    "SentenceTransformersDocumentEmbedder": Loader(keywords=("model",), sentence=True),
    "SentenceTransformerRerank": Loader(keywords=("model",)),
    "TextEmbedding": Loader(keywords=("model_name",)),
    "TransformersModel": Loader(keywords=("model_id",)),
    "VLLMModel": Loader(keywords=("model_id",)),
    "InferenceClientModel": Loader(keywords=("model_id",), tag=True),
    "KeyBERT": Loader(keywords=("model",), sentence=True),
    "BERTopic": Loader(keywords=("embedding_model",), position=None, sentence=True),
    "WhisperModel": Loader(keywords=("model_size_or_path",)),
    "SFTTrainer": _TRAINER,
    "DPOTrainer": _TRAINER,
    "GRPOTrainer": _TRAINER,
    "RewardTrainer": _TRAINER,
    "load": _LOAD,
}
"""By the last part of the called name."""

ADAPTERS = Loader(keywords=("model_id",), position=1)
"""A second repo in `from_pretrained` of PEFT's classes: the adapter put on a model that is there already."""

OTHER_HUBS = ("modelscope", "paddlenlp", "nemo.core", "openmind")
"""Modules whose loaders read from another hub."""

PASSED_ON = "model_kwargs"
"""The keyword whose dict is handed on to the call that loads, and so may hold the pin."""

REPO_TYPE = "repo_type"
"""The keyword that says that something is no model."""

_NAME_LIKE = re.compile(r"(?:^|_)(?:id|name|path|repo|checkpoint|ckpt|uri)$", re.IGNORECASE)
_OBJECTS = re.compile(
    r"(?:^|_)(?:load|build|create|make|get|init|setup|prepare|wrap|from|quantize|compile|cast|deepcopy|copy)(?:_|$)",
    re.IGNORECASE,
)


def may_be_name(node: ast.expr) -> bool:
    """Whether what is handed to a call that also takes a loaded model looks like a model's name, not the model."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _NAME_LIKE.search(name) is not None
        case ast.Call(func=ast.Name(id=name)):
            return name.islower() and name not in LOADERS and not _OBJECTS.search(name)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in {"getenv", "choice"}
        case ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod()) | ast.Subscript():
            return True
        case _:
            return False
