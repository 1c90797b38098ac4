"""A re-upload or conversion held against the model that its card names as its base. Pure.

What a fine-tune is expected to change is no divergence, so that little is compared unless the repo says, or
its weights show, that it means to be the same model.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from storage.model import DocumentKind, Json, Manifest, Snapshot
from tracker.diff.values import same
from tracker.snapshot.card import base_models, metadata
from tracker.snapshot.kinds import is_weight
from tracker.snapshot.template import templates
from tracker.snapshot.tokenizer import ids_of, special_tokens

PATHS: Final = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
"""The files of a base that are compared."""

_SHAPE: Final = (
    "model_type",
    "architectures",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
)
_POSITION: Final = ("rope_theta", "rope_scaling", "rope_parameters", "max_position_embeddings", "sliding_window")
_ROLES: Final = ("bos", "eos", "pad")
# What trainers write into the cards of the models they make.
_TRAINED: Final = frozenset(
    {"axolotl", "dpo", "finetune", "finetuned", "fine-tuned", "generated_from_trainer", "grpo", "instruct-tuned"}
    | {"kto", "lora", "merge", "mergekit", "orpo", "peft", "qlora", "rlhf", "sft", "trl", "llama-factory"}
)


class Relation(enum.StrEnum):
    """What a repo is to the base that its card names."""

    SAME = "same"  # a re-upload or another format: it says so, or its weights are the base's
    QUANTIZED = "quantized"
    UNSTATED = "unstated"
    DERIVED = "derived"  # trained further, merged, an adapter: expected to differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One setting that the base has otherwise."""

    path: str
    key: str
    base: Json
    here: Json


def relation_of(snapshot: Snapshot) -> Relation:
    """What the repo says of itself: ``base_model_relation``, else what its card and files speak for."""
    front = metadata(snapshot)
    match front.get("base_model_relation"):
        case "quantized":
            return Relation.QUANTIZED
        case str():
            return Relation.DERIVED
    tags = front.get("tags")
    words = {tag.lower() for tag in tags if isinstance(tag, str)} if isinstance(tags, list) else set()
    trained = bool(words & _TRAINED) or bool(front.get("datasets")) or front.get("library_name") == "peft"
    if trained or len(base_models(snapshot)) > 1 or snapshot.by_kind(DocumentKind.ADAPTER):
        return Relation.DERIVED
    config = snapshot.get("config.json")
    quantized = isinstance(config, dict) and isinstance(config.get("quantization_config"), dict)
    return Relation.QUANTIZED if quantized else Relation.UNSTATED


def shares_weights(base: Manifest, here: Manifest) -> bool:
    """Whether any weight file is the base's own, byte for byte."""
    contents = {entry.content_key for path, entry in base.files.items() if is_weight(path)}
    return any(entry.content_key in contents for path, entry in here.files.items() if is_weight(path))


def differences(base: Snapshot, here: Snapshot, relation: Relation) -> tuple[Difference, ...]:
    """What differs though it should not; empty for another architecture, another size, or a derived model."""
    old, new = _config(base), _config(here)
    if relation is Relation.DERIVED or not old or not new or not _same_shape(old, new):
        return ()
    found = [*_ids(base, here), *_tokens(base, here), *_template(base, here)]
    if relation in {Relation.SAME, Relation.QUANTIZED}:
        found += _position(old, new)
    return tuple(found)


def _config(snapshot: Snapshot) -> Mapping[str, Json]:
    value = snapshot.get("config.json")
    return value if isinstance(value, dict) else {}


def _same_shape(old: Mapping[str, Json], new: Mapping[str, Json]) -> bool:
    return all(same(old[key], new[key]) for key in _SHAPE if key in old and key in new)


def _ids(base: Snapshot, here: Snapshot) -> Iterator[Difference]:
    """Special token ids, file by file: each is read by itself by some loader."""
    for path in ("config.json", "generation_config.json"):
        old, new = base.get(path), here.get(path)
        if not isinstance(old, dict) or not isinstance(new, dict):
            continue
        for role in _ROLES:
            key = f"{role}_token_id"
            before, after = old.get(key), new.get(key)
            # A side that leaves it out says nothing; only an end token is missed.
            if set(ids_of(before)) != set(ids_of(after)) and (role == "eos" or (ids_of(before) and ids_of(after))):
                yield Difference(path=path, key=key, base=before, here=after)


def _tokens(base: Snapshot, here: Snapshot) -> Iterator[Difference]:
    old, new = special_tokens(base), special_tokens(here)
    for role in _ROLES:
        if role in old and role in new and old[role] != new[role]:
            yield Difference(path="tokenizer_config.json", key=f"{role}_token", base=old[role], here=new[role])


def _template(base: Snapshot, here: Snapshot) -> Iterator[Difference]:
    old, new = templates(base).get("default"), templates(here).get("default")
    if old is not None and new is not None and old.text.strip() != new.text.strip():
        yield Difference(path=new.path, key="chat_template", base=old.text[:4_000], here=new.text[:4_000])


def _position(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Difference]:
    for key in _POSITION:
        if key in old and key in new and not same(old[key], new[key]):
            yield Difference(path="config.json", key=key, base=old[key], here=new[key])
