"""Model references in Dockerfiles: RUN, ENV, ARG, ENTRYPOINT, CMD; and Ollama's Modelfiles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from advisories.audit.find.settings_keys import reads_revision
from advisories.audit.find.shell import Script, without_heredocs
from advisories.audit.find.words import Token
from advisories.audit.model import Form, Place, Reading, Reference
from advisories.audit.names import Names

_INSTRUCTION = re.compile(r"^\s*([A-Za-z]+)\s+(.*)$", re.DOTALL)
_FLAGS = re.compile(r"^(?:--[a-z]+(?:=\S+)?\s+)+")
_OLD_ENV = re.compile(r"^([A-Za-z_]\w*)\s+([^=\s].*)$", re.DOTALL)
_SERVER_IMAGE = re.compile(r"(?:^|/)vllm/vllm-openai(?:[:@].*)?$")


def find(text: str, names: Names) -> Reading:
    """The references of a Dockerfile; variables are followed, a CMD goes on from its ENTRYPOINT."""
    script = Script(names, declares=True)
    text, bodies = without_heredocs(text)
    entrypoint: list[Token] = []
    for line, name, body in _instructions(text):
        if name == "FROM":
            entrypoint = _server(body, line)
            script.default = "REVISION" if reads_revision(body) else None
        elif name in {"ENV", "ARG"}:
            old = _OLD_ENV.match(body)
            script.run(f"{name} {old.group(1)}={old.group(2)}" if old else f"{name} {body}", line, whole=False)
        elif name == "RUN":
            command = _FLAGS.sub("", body)
            if (listed := _exec_form(command, line)) is not None:
                script.keep(listed, Form.WORDS)
            else:
                script.run(command, line, whole=False)
        elif name in {"CMD", "ENTRYPOINT"}:
            listed = _exec_form(body, line)
            tokens = listed if listed is not None else _shell_form(script, body, line)
            if name == "ENTRYPOINT":
                entrypoint = tokens
            form = Form.PLAIN if listed is None else Form.WORDS
            script.keep([*entrypoint, *tokens] if name == "CMD" else tokens, form)
    for line, code in bodies:
        script.python(code, line)
    return script.reading()


def find_modelfile(text: str, names: Names) -> Reading:
    """The references of an Ollama Modelfile: ``FROM hf.co/owner/name:tag``."""
    found: list[Reference] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line[:1000].split()
        if (
            len(words) > 1
            and words[0].upper() in {"FROM", "ADAPTER"}
            and words[1].startswith(("hf.co/", "huggingface.co/"))
        ):
            spec = names.loaded(words[1], tag=True)
            if spec is not None:
                found.append(
                    Reference(repo=spec.repo, revision=spec.revision, place=Place(line=number), via=words[0])
                )
    return Reading(references=tuple(found))


def _server(body: str, line: int) -> list[Token]:
    image = next((word for word in body.split() if not word.startswith("--")), "")
    return [Token("vllm", line), Token("serve", line)] if _SERVER_IMAGE.search(image) else []


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and body of each instruction; continued lines keep their breaks, comments between go."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        first = number
        if lines[number].lstrip().startswith("#") or not lines[number].strip():
            number += 1
            continue
        whole = [lines[number]]
        while whole[-1].rstrip().endswith("\\") and number + 1 < len(lines):
            number += 1
            comment = lines[number].lstrip().startswith("#")
            whole.append("\\" if comment else lines[number].rstrip("\r"))
        number += 1
        found = _INSTRUCTION.match("\n".join(line.rstrip() for line in whole))
        if found:
            yield first + 1, found.group(1).upper(), found.group(2)


def _exec_form(body: str, line: int) -> list[Token] | None:
    """``["program", "argument"]`` as words, each on the line it stands in."""
    text = body.replace("\\\n", " \n")
    if not text.lstrip().startswith("["):
        return None
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(word, str) for word in words):
        return None
    tokens, at = [], 0
    for word in words:
        place = text.find(json.dumps(word), at)
        at = place if place >= 0 else at
        tokens.append(Token(word, line + text.count("\n", 0, at)))
    return tokens


def _shell_form(script: Script, body: str, line: int) -> list[Token]:
    inner = _Collect(script.names, dict(script.variables))
    inner.run(body, line, whole=False)
    script.found += [replace(item) for item in inner.coded]
    return inner.tokens


class _Collect(Script):
    """Keeps the words instead of reading them."""

    tokens: list[Token]
    coded: list[Reference]

    def __init__(self, names: Names, variables: dict[str, str]) -> None:
        super().__init__(names, variables)
        self.tokens = []
        self.coded = []

    def command(self, tokens: list[Token]) -> None:
        """Keep the words."""
        self.tokens += tokens
