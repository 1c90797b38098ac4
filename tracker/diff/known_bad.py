"""Values that are known to be wrong wherever they stand: a short list, each with a public reason.

Only what breaks or silently falls back belongs here; a matter of taste does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from storage.model import Json
from tracker.snapshot.config import integer, number, parts
from tracker.snapshot.defaults import effective


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """One wrong value: where it stands and what is wrong with it."""

    path: str
    pointer: str
    words: str


Part = Mapping[str, Json]


def _pad(part: Part) -> Iterator[tuple[str, str]]:
    """Torch refuses a padding index outside the embedding."""
    pad, rows = integer(part, "pad_token_id"), integer(part, "vocab_size")
    if pad is not None and pad < 0:
        yield "/pad_token_id", f"pad_token_id {pad} is no token"
    elif pad is not None and rows is not None and pad >= rows > 0:
        yield "/pad_token_id", f"pad_token_id {pad} is beyond vocab_size {rows}"


def _heads(part: Part) -> Iterator[tuple[str, str]]:
    """Query heads are shared out evenly over the key and value heads."""
    heads, shared = integer(part, "num_attention_heads"), integer(part, "num_key_value_heads")
    if heads and shared and shared > 0 and heads % shared:
        yield "/num_key_value_heads", f"{heads} attention heads cannot share {shared} key-value heads evenly"


def _llama_rope(part: Part) -> Iterator[tuple[str, str]]:
    """Llama 3's smoothing divides by the difference of its two frequency factors; converters assert on it."""
    for key in ("rope_scaling", "rope_parameters"):
        rope = part.get(key)
        if not isinstance(rope, Mapping):
            continue
        low, high, factor = (number(rope, name) for name in ("low_freq_factor", "high_freq_factor", "factor"))
        if low is not None and high is not None and low == high:
            yield (
                f"/{key}/high_freq_factor",
                f"high_freq_factor equals low_freq_factor ({high}), by whose difference readers divide",
            )
        if factor is not None and factor <= 0:
            yield f"/{key}/factor", f"rope factor {factor} is not above zero"


def _window(part: Part) -> Iterator[tuple[str, str]]:
    """A layer list of another length than the model: transformers refuses it, others stop short."""
    types, layers = part.get("layer_types"), integer(part, "num_hidden_layers")
    if isinstance(types, list) and layers is not None and len(types) != layers:
        yield "/layer_types", f"layer_types names {len(types)} layers of {layers}"


_CHECKS: tuple[Callable[[Part], Iterator[tuple[str, str]]], ...] = (_pad, _heads, _llama_rope, _window)


def known_bad(config: Json, generation: Json) -> list[Bad]:
    """The wrong values of a config.json, nested parts included, and of its generation_config.json."""
    found = [
        Bad(path="config.json", pointer=pointer + place, words=words)
        for pointer, part in parts(config)
        for check in _CHECKS
        for place, words in check(part)
    ]
    if isinstance(generation, Mapping) and effective(generation, "do_sample") is True:
        temperature = number(generation, "temperature")
        if temperature is not None and temperature <= 0:
            words = f"temperature {temperature} while sampling: transformers raises"
            found.append(Bad(path="generation_config.json", pointer="/temperature", words=words))
    return found
