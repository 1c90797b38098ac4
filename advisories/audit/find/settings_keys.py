"""Which keys, flags and variables name a model, and which pin its revision."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from advisories.audit.find.making import NOTHING, Given

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
# What else has repos and revisions.
_ELSEWHERE = frozenset(
    [
        "git",
        "github",
        "gitlab",
        "image",
        "docker",
        "container",
        "chart",
        "helm",
        "dataset",
        "data",
        "space",
        "code",
        "source",
        "src",
        "app",
        "package",
        "registry",
    ]
)
_READS_REVISION = re.compile(r"text-(?:generation|embeddings)-inference")
Beside: TypeAlias = Mapping[str, tuple[str, str]]
"""What stands beside a key: by the key in one spelling, the key as written and its value."""
_REVISIONS = ("revision", "commit", "commit_hash", "commit_sha", "sha", "rev", "ref")


def snake(key: str) -> str:
    """A key in one spelling: ``embeddingModel``, ``EMBEDDING-MODEL`` and ``embedding_model`` are one."""
    return "_".join(word.lower() for word in _WORDS.findall(key[:120]))


def is_model_key(key: str) -> bool:
    """Whether what stands under a key is a model's name."""
    name = snake(key)
    if key == "modelURL":  # of vLLM's production stack: a repo's id
        return True
    if name in _NOT or not name:
        return False
    if name in _ALONE:
        return True
    if name.endswith(("_hf_repo", "_model", "_models", "_llm", "_tokenizer", "_reranker", "_embedder")):
        return True
    for ending in _ENDINGS:
        if name.endswith(f"_{ending}"):
            return name.removesuffix(f"_{ending}").rpartition("_")[2] in _SUBJECTS
    return False


def takes_tag(key: str) -> bool:
    """Whether a ``:`` in the value chooses files within the repo: the variables of llama.cpp."""
    return snake(key).startswith("llama_arg_")


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


def variable_pins(variables: Mapping[str, str]) -> Beside:
    """Variables that may pin a model: those called only ``SHA`` or ``REF`` mean anything."""
    spelled = {snake(name): (name, value) for name, value in variables.items()}
    return {key: pair for key, pair in spelled.items() if key not in _REVISIONS or key == "revision"}


def pin_of(key: str, beside: Beside, default: str | None = None) -> Given:
    """What pins the model under a key, of what stands beside it; ``default`` is the name that would."""
    for name in revision_keys(key):
        if name in beside and beside[name][1]:
            written, value = beside[name]
            return Given(value, written)
    return NOTHING if default is None else Given(name=default)


def reads_revision(image: str) -> bool:
    """Whether what runs in a container image takes its revision from the variable ``REVISION``."""
    return _READS_REVISION.search(image) is not None


def is_model_variable(name: str, beside: Iterable[str]) -> bool:
    """Whether a variable names a model: by its own name, or as ``X_REPO`` with an ``X_REVISION`` beside it.

    ``beside`` are variables in one spelling (`snake`).
    """
    if is_model_key(name):
        return True
    spelled = snake(name)
    for ending in ("_repo", "_repo_id", "_repository"):
        stem = spelled.removesuffix(ending)
        if stem != spelled and f"{stem}_revision" in beside:
            return not _ELSEWHERE & set(stem.split("_"))
    return False
