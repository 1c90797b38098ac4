"""Model references in command lines: serving, downloading, training, converting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from advisories.audit.find.settings_keys import is_model_key, revision_keys, snake, variable_pins
from advisories.audit.model import Place, Reference, is_sha
from advisories.audit.names import Names, Spec

_LLAMA = {
    "-hf": (),
    "-hfr": (),
    "--hf-repo": (),
    "-hfd": (),
    "-hfrd": (),
    "--hf-repo-draft": (),
    "-hfv": (),
    "-hfrv": (),
    "--hf-repo-v": (),
}
_SHORT = {"-m": ("mlx_lm", "mlx_vlm", "optimum-cli", "transformers")}
_REVISION_FLAG = "--revision"
CLONE = "git clone"
_MODEL_ARGS = frozenset({"--model_args", "--model-args"})
_MODEL_ARG_KEYS = frozenset({"pretrained", "peft", "tokenizer", "model", "model_name"})
_DOWNLOAD_SWITCHES = frozenset({"--quiet", "--force-download", "--resume-download", "--dry-run", "--no-quiet"})
_SERVE_SWITCHES = re.compile(r"--(?:enable|disable|no|trust|enforce|async|headless|skip|use|api-server).*")
# Programs whose word before a repo id says that it is loaded.
_SERVERS = (
    ("vllm", "serve"),
    ("vllm", "chat"),
    ("transformers", "serve"),
    ("transformers", "chat"),
    ("sglang", "serve"),
    ("lmdeploy", "serve"),
    ("lmdeploy", "chat"),
    ("mistralrs", "serve"),
    ("ramalama", "serve"),
    ("ramalama", "run"),
    ("ramalama", "pull"),
    ("ollama", "run"),
    ("ollama", "pull"),
)
_IMAGES = re.compile(r"(?:^|/)vllm/vllm-[a-z0-9-]*openai[a-z0-9.-]*(?:[:@].*)?$|^vllm/vllm-openai(?:[:@].*)?$")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a command, unquoted and with known variables put in; ``used`` names these variables."""

    text: str
    line: int
    column: int | None = None
    end_column: int | None = None
    used: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(line=self.line, column=self.column, end_column=self.end_column)


def references(tokens: Sequence[Token], names: Names) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    """The references of one command, each with the variables that its repo came from.

    The place is the flag's; where the repo has no flag, its own.
    """
    if not tokens:
        return
    words = [token.text for token in tokens]
    if _is_dataset(words):
        return
    yield from _downloads(tokens, words, names)
    yield from _served(tokens, words, names)
    yield from _flagged(tokens, words, names)
    yield from _located(tokens, words, names)
    yield from _environment(tokens, words, names)


def flag_value(words: Sequence[str], *flags: str) -> str | None:
    """The value of the first of these flags: ``--flag value`` or ``--flag=value``."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in flags:
            if equals:
                return value
            return words[place + 1] if place + 1 < len(words) else None
    return None


def _is_dataset(words: Sequence[str]) -> bool:
    kind = flag_value(words, "--repo-type", "--repo_type")
    return kind not in {None, "model"}


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _downloads(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    for place in range(len(words) - 1):
        if words[place + 1] == "download" and _program(words[place]) in {"hf", "huggingface-cli"}:
            first = next(_positional(tokens[place + 2 :]), None)
            if first is not None and (spec := names.loaded(first.text)) is not None:
                yield _made(spec, flag_value(words, _REVISION_FLAG), first, "hf download")


def _positional(tokens: Sequence[Token]) -> Iterator[Token]:
    """Arguments that are no flags and no flags' values, for commands whose flags nearly all take values."""
    skip = False
    for token in tokens:
        if skip:
            skip = False
        elif token.text.startswith("-"):
            skip = "=" not in token.text and token.text not in _DOWNLOAD_SWITCHES
        else:
            yield token


def _served(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        start = None
        if (_program(word), following) in _SERVERS:
            start = place + 2
        elif _IMAGES.search(word):
            start = place + 1
        if start is None:
            continue
        via = f"{_program(word)} {following}" if start == place + 2 else "vllm serve"
        for index in range(start, len(tokens)):
            before = words[index - 1]
            valued = index > start and before.startswith("-") and "=" not in before
            if words[index].startswith("-") or (valued and not _SERVE_SWITCHES.fullmatch(before)):
                continue
            spec = names.loaded(words[index], tag=via.startswith(("ollama", "ramalama")))
            if via.startswith("ollama") and not words[index].startswith(("hf.co/", "huggingface.co/")):
                spec = None
            if spec is not None:
                yield _made(spec, flag_value(words, _REVISION_FLAG), tokens[index], via)
                return
        return


def _flagged(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    for place, word in enumerate(words):
        if not word.startswith("-"):
            continue
        flag, equals, value = word.partition("=")
        used = tokens[place].used
        if not equals:
            if place + 1 >= len(words):
                continue
            value, used = words[place + 1], tokens[place + 1].used
        if flag in _MODEL_ARGS:
            yield from _model_args(value, tokens[place], used, names)
        llama = flag in _LLAMA
        short = flag in _SHORT and any(_program(item).startswith(_SHORT[flag]) for item in words[:place])
        if not (llama or short or (flag.startswith("--") and is_model_key(flag.lstrip("-")))):
            continue
        spec = names.loaded(value, tag=llama)
        if spec is not None:
            revision = None if llama else _revision(words, flag)
            yield _made(spec, revision, Token(word, tokens[place].line, *_span(tokens, place, equals), used), flag)


def _span(tokens: Sequence[Token], place: int, equals: str) -> tuple[int | None, int | None]:
    first, last = tokens[place], tokens[place if equals else place + 1]
    return first.column, last.end_column if last.line == first.line else first.end_column


def _revision(words: Sequence[str], flag: str) -> str | None:
    stems = dict.fromkeys(revision_keys(flag.lstrip("-")))
    given: dict[str, str] = {}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.startswith("--") and snake(name).endswith("revision"):
            given.setdefault(snake(name), value if equals else next(iter(words[place + 1 : place + 2]), ""))
    return next((given[stem] for stem in stems if given.get(stem)), None)


def _model_args(
    text: str, token: Token, used: tuple[str, ...], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    """``pretrained=owner/name,revision=main``, as evaluation harnesses write it."""
    pairs = dict(part.split("=", 1) for part in text.split(",")[:50] if "=" in part)
    for key in sorted(_MODEL_ARG_KEYS & pairs.keys()):
        spec = names.loaded(pairs[key])
        if spec is not None:
            own = pairs.get("revision") if key != "peft" else None
            yield _made(spec, own, Token(token.text, token.line, token.column, token.end_column, used), key)


def _located(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    clones = any(_program(word) == "git" for word in words[:2]) and any(
        word in {"clone", "submodule"} for word in words[1:5]
    )
    for token in tokens:
        flag, equals, value = token.text.partition("=")
        text = value if equals and flag.startswith("-") else token.text
        if (spec := names.located(text, page=clones)) is not None:
            made, used = _made(spec, None, token, str(spec.form))
            yield (replace(made, via=CLONE) if clones else made), used


def _environment(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    """``docker run -e MODEL_ID=owner/name`` and ``MODEL_ID=owner/name program``."""
    given = [found for word in words if (found := _ASSIGNMENT.fullmatch(word))]
    pins = variable_pins({found.group(1): found.group(2) for found in given})
    for place, token in enumerate(tokens):
        found = _ASSIGNMENT.fullmatch(token.text)
        before = words[place - 1] if place else ""
        leading = all(_ASSIGNMENT.fullmatch(word) for word in words[: place + 1]) and len(words) > place + 1
        if found is None or not is_model_key(found.group(1)):
            continue
        if not (leading or before in {"-e", "--env", "env", "export"} or words[0] == "env"):
            continue
        spec = names.loaded(found.group(2))
        if spec is not None:
            pin = next((pins[key] for key in revision_keys(found.group(1)) if pins.get(key)), None)
            yield _made(spec, pin, token, found.group(1))


def _made(spec: Spec, revision: str | None, token: Token, via: str) -> tuple[Reference, tuple[str, ...]]:
    pin = spec.revision or revision or None
    lowered = pin.lower() if pin else None
    reference = Reference(
        repo=spec.repo,
        endpoint=spec.endpoint,
        revision=lowered if is_sha(lowered) else pin,
        place=token.place,
        via=via if spec.form in {None, "@"} else str(spec.form),
    )
    return reference, token.used
