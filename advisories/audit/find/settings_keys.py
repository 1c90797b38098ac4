"""Which keys, flags and variables name a model, and which pin its revision."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_SUBJECTS = frozenset(
    [
        "model",
        "models",
        "llm",
        "llms",
        "checkpoint",
        "repo",
        "tokenizer",
        "tokenizers",
        "embedder",
        "embedding",
        "embeddings",
        "reranker",
        "adapter",
        "adapters",
        "lora",
        "processor",
        "encoder",
        "decoder",
        "vae",
        "unet",
        "controlnet",
        "transformer",
        "pretrained",
        "draft",
        "teacher",
        "student",
        "judge",
    ]
)
_ENDINGS = [
    "name_or_path",
    "id",
    "ids",
    "name",
    "names",
    "path",
    "paths",
    "repo",
    "repository",
    "uri",
    "url",
    "checkpoint",
    "ckpt",
    "hf",
    "hf_id",
    "hf_repo",
    "source",
]
_ALONE = frozenset(
    [
        "model",
        "models",
        "llm",
        "llms",
        "tokenizer",
        "tokenizers",
        "embedder",
        "reranker",
        "base_model",
        "model_list",
        "hf_repo",
        "hf_repo_id",
        "repo_id",
        "hf_model",
        "hf_model_id",
        "hf_id",
        "hf_path",
        "pretrained",
        "storage_uri",
        "modeluri",
        "name_or_path",
        "text_encoder",
        "vision_tower",
        "image_encoder",
        "adapter",
        "adapters",
        "lora",
        "processor",
        "feature_extractor",
        "judge_model",
    ]
)
_NOT = frozenset(
    [
        "served_model_name",
        "served_model",
        "model_type",
        "model_class",
        "model_dir",
        "model_directory",
        "output_model",
        "model_file",
        "model_basename",
        "model_format",
        "data_model",
        "view_model",
        "base_url",
        "api_base",
        "model_url",
        "model_provider",
        "hub_model_id",
        "push_to_hub_model_id",
        "license_model",
        "domain_model",
        "user_model",
        "auth_user_model",
    ]
)
_PLAIN = frozenset(
    {"model", "models", "hf", "repo", "pretrained", "base", "id", "name", "path", "llm", "checkpoint"}
)
_REVISIONS = ("revision", "commit", "commit_hash", "commit_sha", "sha", "rev", "ref")


def snake(key: str) -> str:
    """A key in one spelling: ``embeddingModel``, ``EMBEDDING-MODEL`` and ``embedding_model`` are one."""
    return "_".join(word.lower() for word in _WORDS.findall(key[:120]))


def is_model_key(key: str) -> bool:
    """Whether what stands under a key is a model's name."""
    name = snake(key)
    if name in _NOT or not name:
        return False
    if name in _ALONE:
        return True
    if name.endswith(("_model", "_models", "_llm", "_tokenizer", "_reranker", "_embedder")):
        return True
    for ending in _ENDINGS:
        if name.endswith(f"_{ending}"):
            return name.removesuffix(f"_{ending}").rpartition("_")[2] in _SUBJECTS
    return False


def is_list_key(key: str) -> bool:
    """Whether the items under a key are models, by ``id``, ``name`` or ``path``."""
    return snake(key).rpartition("_")[2] in {"model", "models", "llms", "adapters", "loras", "checkpoints"}


def revision_keys(key: str) -> Iterable[str]:
    """The keys beside a model's that may pin it, in one spelling, the likeliest first."""
    name = snake(key)
    stems = [name, *(name.removesuffix(f"_{ending}") for ending in _ENDINGS if name.endswith(f"_{ending}"))]
    stems += [stem.rpartition("_")[0] for stem in list(stems) if stem.endswith(("_model", "_repo"))]
    for stem in dict.fromkeys(stems):
        yield from (f"{stem}_{word}" for word in _REVISIONS if stem)
    # a plain revision beside several models pins the one without a role of its own
    if name.partition("_")[0] in _PLAIN:
        yield "model_revision"
        yield "hf_revision"
        yield from _REVISIONS


def variable_pins(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that may pin a model, in one spelling: those called only ``SHA`` or ``REF`` mean anything."""
    spelled = {snake(name): value for name, value in variables.items()}
    return {name: value for name, value in spelled.items() if name not in _REVISIONS or name == "revision"}
