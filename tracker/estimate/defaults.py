"""Class defaults and aliases of the config types, as the reader needs them.

`tracker.snapshot.defaults` holds the defaults as they stand after a class has built itself. Some of those
were computed from other values (``num_key_value_heads`` from ``num_attention_heads``):
``data/derived_defaults.json`` names them, so that they are computed again and never taken from the default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final

from storage.model import Json
from tracker.snapshot.defaults import aliases_of, defaults_of, known_types

# Older keys that a config class still reads, and that win over the new name where a file gives both.
LEGACY: Final[Mapping[str, Mapping[str, str]]] = {
    "lfm2": {"tie_word_embeddings": "tie_embedding", "intermediate_size": "block_ff_dim"},
    "lfm2_moe": {"tie_word_embeddings": "tie_embedding"},
    "lfm2_vl": {"tie_word_embeddings": "tie_embedding"},
    "nemotron_h": {
        "n_groups": "mamba_n_groups",
        "conv_kernel": "mamba_d_conv",
        "expand": "mamba_expand",
        "use_conv_bias": "mamba_conv_bias",
    },
    "molmo2": {"image_size": "image_default_input_size", "patch_size": "image_patch_size"},
    "videomae": {"qv_bias": "qkv_bias"},
}
# Classes of a classification head where a config names none; 2 for every other type.
LABELS: Final[Mapping[str, int]] = {"bart": 3, "openai_privacy_filter": 33, "pvt": 1000}


@dataclass(frozen=True, slots=True)
class ClassDefaults:
    """What a config class fills in.

    ``values`` by key, ``aliases`` (canonical key to its own), ``derived`` keys that are computed, ``legacy``
    older keys by new name, ``spellings`` of a key (its own first), ``labels`` of a classification head.
    """

    values: Mapping[str, Json] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    derived: frozenset[str] = frozenset()
    legacy: Mapping[str, str] = field(default_factory=dict)
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: int = 2


UNKNOWN = ClassDefaults()


@cache
def _derived() -> Mapping[str, frozenset[str]]:
    text = (resources.files("tracker.estimate") / "data" / "derived_defaults.json").read_text("utf-8")
    return {name: frozenset(keys) for name, keys in json.loads(text).items()}


def _spellings(aliases: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Every name of a key that has aliases, its own first."""
    names: dict[str, tuple[str, ...]] = {}
    for alias, own in aliases.items():
        names[own] = (*names.get(own, (own,)), alias)
    return names


@cache
def _known(model_type: str) -> ClassDefaults:
    values = defaults_of(model_type)
    aliases = {key: name for key, name in aliases_of(model_type).items() if key not in values}
    return ClassDefaults(
        values,
        aliases,
        _derived().get(model_type, frozenset()),
        LEGACY.get(model_type, {}),
        _spellings(aliases),
        LABELS.get(model_type, 2),
    )


def class_defaults(model_type: str) -> ClassDefaults:
    """The defaults of a config type; empty for a type that is not known."""
    return _known(model_type) if model_type in known_types() else UNKNOWN
