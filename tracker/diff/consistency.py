"""Files of one revision held against each other, and values long known to be wrong. Standing, not only on change.

Each check looks at one snapshot and gives what disagrees, or nothing; the change is that it disagrees where it
did not, or in another way. Facet: ``consistency:<check>``. A check that lacks one of its two sides says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from storage.model import Change, DocumentKind, Json, Snapshot, digest
from tracker.diff.config_view import NOT_MODELS
from tracker.diff.known_bad import known_bad
from tracker.diff.values import capped, examples, short
from tracker.snapshot.config import language_part, main_config
from tracker.snapshot.defaults import effective
from tracker.snapshot.tokenizer import ids_of, special_tokens, token_ids

_EMBEDDING = re.compile(
    r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embed_in|shared|token_embedding)\.weight$"
)
_QUANT_LISTS = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules")
_MAX_NAMES = 200_000  # tensor names held against a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """What a check found: where to look, in one line, and the values that do not fit."""

    path: str
    pointer: str | None
    summary: str
    value: Json


Check = Callable[[Snapshot], Disagreement | None]


def eos(snapshot: Snapshot) -> Disagreement | None:
    """The eos ids of config, generation_config and tokenizer: the files that stop generation must agree.

    A generation_config that stops on more than config does is usual. Wrong is one that leaves out what config
    stops on, and a tokenizer whose eos token has an id that neither of the two stops on.
    """
    config = main_config(snapshot)
    generation = snapshot.get("generation_config.json")
    by_config = _config_eos(config.data) if config else ()
    by_generation = ids_of(generation.get("eos_token_id")) if isinstance(generation, Mapping) else ()
    token = special_tokens(snapshot).get("eos")
    by_tokenizer = token_ids(snapshot).get(token) if token is not None else None
    said: dict[str, Json] = {}
    if by_config:
        said["config.json"] = sorted(set(by_config))
    if by_generation:
        said["generation_config.json"] = sorted(set(by_generation))
    if by_tokenizer is not None:
        said["tokenizer"] = {"token": token, "id": by_tokenizer}
    left_out = bool(by_generation) and not set(by_config) <= set(by_generation)
    stops = {*by_config, *by_generation}
    unmet = bool(stops) and by_tokenizer is not None and by_tokenizer not in stops
    if not (left_out or unmet):
        return None
    words = "; ".join(
        f"{name} {short(value['id'] if name == 'tokenizer' else value)}" for name, value in said.items()
    )
    path = "generation_config.json" if by_generation else "config.json"
    return Disagreement(path=path, pointer="/eos_token_id", summary=f"eos ids disagree: {words}", value=said)


def _config_eos(config: Json) -> tuple[int, ...]:
    """The eos ids a config names itself; defaults do not speak here."""
    if not isinstance(config, Mapping):
        return ()
    _, part = language_part(config)
    return ids_of(config.get("eos_token_id")) or ids_of(part.get("eos_token_id"))


def vocabulary_size(snapshot: Snapshot) -> Disagreement | None:
    """The highest token id against the rows of the embedding: from the tensor table, else from config."""
    config = main_config(snapshot)
    tokens = token_ids(snapshot)
    if not tokens:
        return None
    rows, source = _rows(snapshot)
    if rows is None and config is not None:
        rows, source = _declared_rows(config.data)
    if rows is None or rows <= 0:
        return None
    if tokens.most < rows:
        return None
    beyond = [(place, token) for piece in tokens.pieces() for token, place in piece.items() if place >= rows]
    if not beyond:
        return None
    beyond.sort(reverse=True)
    highest = beyond[0][0]
    tokens_word = "1 token" if len(beyond) == 1 else f"{len(beyond)} tokens"
    return Disagreement(
        path="config.json" if config else "tokenizer.json",
        pointer="/vocab_size" if config else None,
        summary=f"{tokens_word} with ids up to {highest}, beyond the {rows} rows of the embedding ({source})",
        value={
            "rows": rows,
            "source": source,
            "highest_id": highest,
            "count": len(beyond),
            "tokens": {token: place for place, token in beyond[:20]},
        },
    )


def _rows(snapshot: Snapshot) -> tuple[int | None, str]:
    for path, file in sorted(snapshot.tensor_files.items()):
        if "/" in path or file.format != "safetensors":
            continue
        for tensor in file.tensors:
            if len(tensor.shape) == 2 and _EMBEDDING.search(tensor.name):
                return tensor.shape[0], tensor.name
    return None, ""


def _declared_rows(config: Json) -> tuple[int | None, str]:
    """``vocab_size``, for a model that has just one vocabulary: others keep rows apart for images or speech.

    A model of code of its own (``auto_map``) may have rows that no key tells of.
    """
    if not isinstance(config, Mapping) or "additional_vocab_size" in config or "auto_map" in config:
        return None, ""
    nested = {key for key, value in config.items() if key.endswith("_config") and isinstance(value, Mapping)}
    value = effective(config, "vocab_size")
    return (value, "vocab_size") if nested <= NOT_MODELS and type(value) is int else (None, "")


def quantization_list(snapshot: Snapshot) -> Disagreement | None:
    """Layers that a quantised model leaves alone, against its tensor names: a list that matches none is void.

    Says so only where tensor names are known and not one entry fits, ``lm_head`` aside (tied heads have no
    tensor).
    """
    config = main_config(snapshot)
    settings = config.data.get("quantization_config") if config and isinstance(config.data, Mapping) else None
    names = _tensor_names(snapshot)
    if not isinstance(settings, Mapping) or not names:
        return None
    parts = "\n".join(f".{name}." for name in names)
    for key in _QUANT_LISTS:
        entries = settings.get(key)
        listed = [item for item in entries if isinstance(item, str)] if isinstance(entries, list) else []
        judged = [entry for entry in listed if "lm_head" not in entry]
        patterns = any(entry.startswith("re:") or "*" in entry for entry in judged)
        if judged and not patterns and not any(f".{entry.strip('.')}." in parts for entry in judged[:500]):
            return Disagreement(
                path="config.json",
                pointer=f"/quantization_config/{key}",
                summary=f"none of the {len(judged)} entries of {key} names a tensor of the checkpoint",
                value={"entries": examples(judged)},
            )
    return None


def _tensor_names(snapshot: Snapshot) -> list[str]:
    names = [tensor.name for file in snapshot.tensor_files.values() for tensor in file.tensors]
    for document in snapshot.by_kind(DocumentKind.WEIGHT_INDEX):
        table = document.data.get("weight_map") if isinstance(document.data, Mapping) else None
        names.extend(table if isinstance(table, Mapping) else ())
    return names[:_MAX_NAMES]


def _bad_values(snapshot: Snapshot) -> Disagreement | None:
    config = main_config(snapshot)
    found = known_bad(config.data, snapshot.get("generation_config.json")) if config else []
    if not found:
        return None
    return Disagreement(
        path=found[0].path,
        pointer=found[0].pointer,
        summary="; ".join(item.words for item in found),
        value=[{"path": item.path, "pointer": item.pointer, "words": item.words} for item in found],
    )


CHECKS: Mapping[str, tuple[str, Check]] = {
    "eos": ("tokens.inconsistent", eos),
    "vocab_size": ("tokenizer.vocab_size", vocabulary_size),
    "quantization_list": ("config.quant", quantization_list),
    "known_bad": ("config.known_bad", _bad_values),
}


class ConsistencyDiffer:
    """Runs the checks on both sides."""

    name = "consistency"

    def diff(self, before: Snapshot, after: Snapshot) -> Iterable[Change]:
        """Disagreements that are new, or are about other values."""
        return _changes(before, after)

    def standing(self, snapshot: Snapshot) -> Iterable[Change]:
        """Every disagreement."""
        return _changes(None, snapshot)

    def observe(self, snapshot: Snapshot, facet: str) -> str | None:
        """The digest of what a check finds; None where it finds nothing."""
        check = CHECKS.get(facet.removeprefix("consistency:"))
        found = snapshot.once(facet, check[1]) if check else None
        return None if found is None else digest(found.value)


def _changes(before: Snapshot | None, after: Snapshot) -> Iterator[Change]:
    if before is not None and before.documents == after.documents and before.tensor_files == after.tensor_files:
        return
    for name, (cls, check) in CHECKS.items():
        now = after.once(f"consistency:{name}", check)
        if now is None:
            continue
        was = before.once(f"consistency:{name}", check) if before is not None else None
        if was is not None and was.value == now.value:
            continue
        yield Change(
            cls=cls,
            path=now.path,
            pointer=now.pointer,
            summary=now.summary,
            before=capped(was.value) if was else None,
            after=capped(now.value),
            facet=f"consistency:{name}",
            before_digest=digest(was.value) if was else None,
            after_digest=digest(now.value),
            facts={"check": name},
        )


DIFFER = ConsistencyDiffer()
