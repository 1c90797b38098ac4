"""What a config.json leaves unsaid: class defaults and key aliases of the model types that transformers knows.

The table ``data/config_defaults.jsonl`` holds one config type a line, as transformers 5.24.0 has them:

* ``t`` model type, ``c`` config class, ``a`` attribute map (alias to the stored key; left out when empty);
* ``d`` the defaults that differ from `COMMON`. A nested config that equals another type's defaults is
  ``{"$": type}``, with the differing keys beside it.

Keys that say nothing of the model (names, versions, label names) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from storage.model import Json

# Defaults that every config type shares unless its line says otherwise.
COMMON: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "chunk_size_feed_forward": 0,
        "dtype": None,
        "is_encoder_decoder": False,
        "output_attentions": False,
        "output_hidden_states": False,
        "problem_type": None,
        "return_dict": True,
    }
)
# Keys that were renamed for all types, older name first.
RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {"torch_dtype": "dtype", "rope_scaling": "rope_parameters", "layers_block_type": "layer_types"}
)
# Names under which different model types keep the same thing. For telling a rename from a change of value
# where the model type itself was renamed; within one type `aliases_of` is the truth.
SAME_MEANING: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("n_embd", "d_model", "n_embed", "dim", "model_dim", "embed_dim"), "hidden_size"),
        **dict.fromkeys(("n_layer", "n_layers", "num_layers", "num_blocks"), "num_hidden_layers"),
        **dict.fromkeys(("n_head", "n_heads", "num_heads", "heads"), "num_attention_heads"),
        **dict.fromkeys(
            ("n_head_kv", "num_kv_heads", "n_kv_heads", "multi_query_group_num", "kv_n_heads"),
            "num_key_value_heads",
        ),
        **dict.fromkeys(("n_inner", "ffn_hidden_size", "d_ff", "ffn_dim", "hidden_dim"), "intermediate_size"),
        **dict.fromkeys(("n_positions", "n_ctx", "max_seq_len", "seq_length"), "max_position_embeddings"),
        **dict.fromkeys(("padded_vocab_size", "n_vocab", "n_words"), "vocab_size"),
        **dict.fromkeys(("n_routed_experts", "num_local_experts", "moe_num_experts"), "num_experts"),
        **dict.fromkeys(("layer_norm_epsilon", "layernorm_epsilon", "norm_eps"), "layer_norm_eps"),
        **dict.fromkeys(("activation_function", "hidden_activation"), "hidden_act"),
        "attn_pdrop": "attention_dropout",
        "resid_pdrop": "hidden_dropout",
        "rotary_emb_base": "rope_theta",
        "rope_ratio": "rope_theta",
        **RENAMED,
    }
)
_MISSING: Final = object()


@cache
def _table() -> Mapping[str, dict[str, Any]]:
    """The lines by model type, parsed on first use."""
    text = files("tracker.snapshot").joinpath("data/config_defaults.jsonl").read_text(encoding="utf-8")
    rows = (json.loads(line) for line in text.splitlines())
    return {row["t"]: row for row in rows}


def known_types() -> frozenset[str]:
    """The model types of the table."""
    return frozenset(_table())


def config_class(model_type: str) -> str | None:
    """The class transformers makes of a config of this type (``LlamaConfig``)."""
    row = _table().get(model_type)
    return row["c"] if row else None


@cache
def aliases_of(model_type: str) -> Mapping[str, str]:
    """Alias to stored key: the type's attribute map and the renames all types share."""
    row = _table().get(model_type)
    return MappingProxyType({**RENAMED, **(row.get("a", {}) if row else {})})


def defaults_of(model_type: str) -> Mapping[str, Json]:
    """The class defaults by stored key, nested configs included; empty for an unknown type."""
    return _defaults(model_type) if model_type in _table() else MappingProxyType({})


@cache
def _defaults(model_type: str) -> Mapping[str, Json]:
    own = _table()[model_type]["d"]
    return MappingProxyType({**COMMON, **{key: _expanded(value) for key, value in own.items()}})


def _expanded(value: Json) -> Json:
    """A nested default with its ``$`` reference followed."""
    if not isinstance(value, dict) or "$" not in value:
        return value
    other = _table()[value["$"]]["d"]
    merged = {**COMMON, **other, **{key: child for key, child in value.items() if key != "$"}}
    return {key: _expanded(child) for key, child in merged.items()}


def stored_key(model_type: str | None, key: str) -> str:
    """The key that a name means for a model type: ``hidden_size`` is ``n_embd`` for gpt2."""
    return aliases_of(model_type).get(key, key) if model_type else RENAMED.get(key, key)


def spellings(model_type: str | None, key: str) -> tuple[str, ...]:
    """Every name under which a config of the type may give the same value, the stored key first."""
    stored = stored_key(model_type, key)
    table = aliases_of(model_type) if model_type else RENAMED
    return (stored, *(alias for alias, target in table.items() if target == stored and alias != stored))


def effective(config: Json, key: str, default: Json = None) -> Json:
    """The value a config gives for a key: its own under any alias, else its class's default.

    ``rope_theta`` is looked for inside ``rope_parameters`` and ``rope_scaling`` as well. A key that neither
    the config nor the class knows gives ``default``.
    """
    if not isinstance(config, Mapping):
        return default
    model_type = config.get("model_type")
    model_type = model_type if isinstance(model_type, str) else None
    names = spellings(model_type, key)
    sources: list[Mapping[str, Json]] = [config]
    if model_type:
        sources.append(defaults_of(model_type))
    for source in sources:
        for name in names:
            if name in source:
                return source[name]
        if key in ("rope_theta", "rope_type", "partial_rotary_factor"):
            value = _in_rope(source, key)
            if value is not _MISSING:
                return value
    return default


def is_default(model_type: str | None, key: str, value: Json) -> bool:
    """Whether a value equals the class default of a key (also under its aliases); False where none is known."""
    if not model_type:
        return False
    known = defaults_of(model_type).get(stored_key(model_type, key), _MISSING)
    return known is not _MISSING and type(known) is type(value) and bool(known == value)


def rope_of(config: Json) -> dict[str, Json]:
    """The rotary settings in one form: ``rope_parameters`` with ``rope_type`` and ``rope_theta`` inside.

    Joins the older ``rope_scaling`` (``type``) and the keys that stood beside it. Per-layer-type settings
    stay nested. Without any of them the class's default, if known; else empty.
    """
    if not isinstance(config, Mapping):
        return {}
    found: dict[str, Json] = {}
    for key in ("rope_scaling", "rope_parameters"):
        value = config.get(key)
        if isinstance(value, Mapping):
            found.update(value)
    if "type" in found:
        found.setdefault("rope_type", found["type"])
        del found["type"]
    for key in ("rope_theta", "partial_rotary_factor"):
        if config.get(key) is not None:
            found.setdefault(key, config[key])
    model_type = config.get("model_type")
    default = defaults_of(model_type).get("rope_parameters") if isinstance(model_type, str) else None
    nested = any(isinstance(value, Mapping) for value in found.values())
    if isinstance(default, Mapping) and not nested:
        for key, value in default.items():
            if not isinstance(value, Mapping):
                found.setdefault(key, value)
    if found and not nested:
        found.setdefault("rope_type", "default")
    return found


def _in_rope(source: Mapping[str, Json], key: str) -> Any:
    for name in ("rope_parameters", "rope_scaling"):
        value = source.get(name)
        if isinstance(value, Mapping) and key in value:
            return value[key]
    return _MISSING
