"""Models inside one word of a command: ``pretrained=owner/name,revision=...``, ``{"model": "owner/name"}``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from advisories.audit.find.making import Given
from advisories.audit.find.words import Token, made
from advisories.audit.model import Reference
from advisories.audit.names import Names

_MODEL_ARG_KEYS = frozenset({"pretrained", "peft", "tokenizer", "model", "model_name"})
# Flags whose value describes a model; nothing beside them pins it.
DESCRIBING = frozenset({"--speculative-config", "--speculative_config", "--lora-modules"})
_LONGEST_DESCRIPTION = 4000


def model_args(
    text: str, token: Token, used: tuple[str, ...], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    """``pretrained=owner/name,revision=main``, as evaluation harnesses write it."""
    pairs = dict(part.split("=", 1) for part in text.split(",")[:50] if "=" in part)
    for key in sorted(_MODEL_ARG_KEYS & pairs.keys()):
        spec = names.loaded(pairs[key])
        if spec is not None:
            own = pairs.get("revision") if key != "peft" else None
            yield made(
                spec,
                Given(own, "revision" if own else None),
                Token(token.text, token.line, token.column, token.end_column, used),
                key,
            )


def described(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    """Further models of a server: ``--speculative-config '{"model": ...}'``, ``--lora-modules name=repo``."""
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag not in DESCRIBING:
            continue
        for index in range(place if equals else place + 1, len(words)):
            text = value if index == place else words[index]
            if index != place and text.startswith("-"):
                break
            repo, revision = _description(text)
            spec = names.loaded(repo) if repo else None
            if spec is not None:
                yield made(spec, Given(revision, "revision" if revision else None), tokens[index], flag)


def _description(text: str) -> tuple[str | None, str | None]:
    """Repo and revision in ``{"model": ..., "revision": ...}``, or in ``name=owner/name``."""
    if not text.startswith("{"):
        return text.partition("=")[2] or None, None
    try:
        found = json.loads(text[:_LONGEST_DESCRIPTION])
    except (ValueError, RecursionError):
        return None, None
    given = [found.get(key) for key in ("model", "path", "revision")] if isinstance(found, dict) else []
    texts = [item if isinstance(item, str) else None for item in given] or [None, None, None]
    return texts[0] or texts[1], texts[2]
