"""Model references in command lines: serving, downloading, training, converting."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisories.audit.find.descriptions import described, model_args
from advisories.audit.find.making import NOTHING, Given, is_open
from advisories.audit.find.settings_keys import (
    is_model_key,
    is_model_variable,
    pin_of,
    reads_revision,
    snake,
    takes_tag,
    variable_pins,
)
from advisories.audit.find.words import Token, flag_value, made
from advisories.audit.model import Form, Gap, Reference
from advisories.audit.names import Names

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
    ("model", "run"),  # docker model
    ("model", "pull"),
)
_IMAGES = re.compile(r"(?:^|/)vllm/vllm-[a-z0-9-]*openai[a-z0-9.-]*(?:[:@].*)?$|^vllm/vllm-openai(?:[:@].*)?$")
_NAMES_IT = frozenset({"--model_name", "--model-name"})
_IDS = frozenset({"--model_id", "--model-id"})
_FARTHEST = 200  # words behind a program within which its first argument stands
_LOADING = frozenset({*_SERVERS, ("hf", "download"), ("huggingface-cli", "download")})
_LOADS = re.compile(
    r"vllm|text-generation|text-embeddings|llama|sglang|lmdeploy|transformers|mlx_|optimum|huggingface|(?:^|/)hf$"
    r"|ollama|ramalama|mistralrs|lm_eval|accelerate|torchrun"
)
_FOLDER = re.compile(r"\$\{?\w*(?:DIR|PATH|HOME|PWD|ROOT|FOLDER|VOLUME)", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def references(
    tokens: Sequence[Token], names: Names, form: Form = Form.PLAIN
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    """The references of one command, each with the variables that its repo came from.

    The place is the flag's; where the repo has no flag, its own. ``form`` is how the words are written.
    """
    if not tokens:
        return
    words = [token.text for token in tokens]
    if _is_dataset(words):
        return
    for find in (_downloads, _served, _flagged, described, _located):
        for item, used in find(tokens, words, names):
            yield replace(item, form=form), used
    yield from _environment(tokens, words, names)


def unresolved(tokens: Sequence[Token]) -> Iterator[Gap]:
    """Models of one command that only its environment knows: ``hf download $MODEL``."""
    words = [token.text for token in tokens]
    if _is_dataset(words) or not any(_LOADS.search(word) for word in words):
        return
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        named = flag in _LLAMA or (flag.startswith("--") and is_model_key(flag.lstrip("-")))
        if named and not equals:
            value = next(iter(words[place + 1 : place + 2]), "")
        if not named and (_program(word), next(iter(words[place + 1 : place + 2]), "")) in _LOADING:
            flag = f"{_program(word)} {words[place + 1]}"
            value = next((token.text for token in _positional(tokens[place + 2 : place + _FARTHEST])), "")
        elif not named:
            continue
        if (gap := unknown_model(flag, value, tokens[place].line)) is not None:
            yield gap


def unknown_model(name: str, value: str, line: int) -> Gap | None:
    """The gap of a flag or variable whose value only its environment knows; None for a path and what is known."""
    if not is_open(value) or value.startswith(("/", ".", "~")) or _FOLDER.search(value):
        return None
    return Gap(reason="unresolved", detail=f"{name}: which model is not in the file", line=line)


def _is_dataset(words: Sequence[str]) -> bool:
    of_hub = any(_program(word) == "hf" for word in words[:4])
    kind = flag_value(words, "--repo-type", "--repo_type", *(["--type"] if of_hub else []))
    return kind not in {None, "model"}


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _downloads(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    for place in range(len(words) - 1):
        if words[place + 1] == "download" and _program(words[place]) in {"hf", "huggingface-cli"}:
            first = next(_positional(tokens[place + 2 : place + _FARTHEST]), None)
            if first is not None and (spec := names.loaded(first.text)) is not None:
                yield made(spec, _flag_pin(words), first, "hf download")


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
            spec = names.loaded(words[index], tag=via.startswith(("ollama", "ramalama", "model ")))
            if via.startswith(("ollama", "model ")) and not words[index].startswith(("hf.co/", "huggingface.co/")):
                spec = None
            if spec is not None:
                yield made(spec, _flag_pin(words), tokens[index], via)
                return
        return


def _flagged(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    has_id = any(word.partition("=")[0] in _IDS for word in words)
    revisions = _revisions(words)
    programs: set[tuple[str, ...]] = set()  # those named so far whose short flags are known
    for place, word in enumerate(words):
        if not word.startswith("-"):
            programs.update(name for name in _SHORT.values() if _program(word).startswith(name))
            continue
        flag, equals, value = word.partition("=")
        used = tokens[place].used
        if not equals:
            if place + 1 >= len(words):
                continue
            value, used = words[place + 1], tokens[place + 1].used
        if flag in _MODEL_ARGS:
            yield from model_args(value, tokens[place], used, names)
        llama = flag in _LLAMA
        short = _SHORT.get(flag) in programs
        if not (llama or short or (flag.startswith("--") and is_model_key(flag.lstrip("-")))):
            continue
        if flag in _NAMES_IT and has_id:
            continue  # beside the model's id this is the name that it is served under
        spec = names.loaded(value, tag=llama)
        if spec is not None:
            pin = NOTHING if llama else pin_of(flag.lstrip("-"), revisions)
            yield made(spec, pin, Token(word, tokens[place].line, *_span(tokens, place, equals), used), flag)


def _span(tokens: Sequence[Token], place: int, equals: str) -> tuple[int | None, int | None]:
    first, last = tokens[place], tokens[place if equals else place + 1]
    return first.column, last.end_column if last.line == first.line else first.end_column


def _flag_pin(words: Sequence[str]) -> Given:
    value = flag_value(words, _REVISION_FLAG)
    return NOTHING if value is None else Given(value, _REVISION_FLAG)


def _revisions(words: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The flags of a command that give revisions, in one spelling: as written, with the value."""
    given: dict[str, tuple[str, str]] = {}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.startswith("--") and snake(name).endswith("revision"):
            value = value if equals else next(iter(words[place + 1 : place + 2]), "")
            given.setdefault(snake(name), (name, value))
    return given


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
            item, used = made(spec, NOTHING, token, str(spec.form))
            yield (replace(item, via=CLONE) if clones else item), used


def _environment(
    tokens: Sequence[Token], words: Sequence[str], names: Names
) -> Iterator[tuple[Reference, tuple[str, ...]]]:
    """``docker run -e MODEL_ID=owner/name`` and ``MODEL_ID=owner/name program``."""
    given = [found for word in words if (found := _ASSIGNMENT.fullmatch(word))]
    leaders = sum(1 for _ in itertools.takewhile(_ASSIGNMENT.fullmatch, words))
    default = "REVISION" if any(reads_revision(word) for word in words) else None
    pins = variable_pins({found.group(1): found.group(2) for found in given})
    for place, token in enumerate(tokens):
        found = _ASSIGNMENT.fullmatch(token.text)
        before = words[place - 1] if place else ""
        leading = place < leaders and len(words) > place + 1
        if found is None or not is_model_variable(found.group(1), pins):
            continue
        if not (leading or before in {"-e", "--env", "env", "export"} or words[0] == "env"):
            continue
        spec = names.loaded(found.group(2), tag=takes_tag(found.group(1)))
        if spec is not None:
            item, used = made(spec, pin_of(found.group(1), pins, default), token, found.group(1))
            yield replace(item, form=Form.ASSIGNMENT), used
