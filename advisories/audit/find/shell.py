"""Model references in shell scripts: commands word by word, variables followed within the file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisories.audit.find import python
from advisories.audit.find.commands import references, unknown_model, unresolved
from advisories.audit.find.making import reference
from advisories.audit.find.settings_keys import is_model_variable, pin_of, takes_tag, variable_pins
from advisories.audit.find.words import Token
from advisories.audit.model import Form, Gap, Place, Reading, Reference, Unreadable
from advisories.audit.names import Names

_MOST_TOKENS = 200_000
_LONGEST_WORD = 20_000
_OPERATORS = frozenset(";|&()\n")
_VARIABLE = re.compile(
    r"\$(?:\{([A-Za-z_]\w*|\d)(?::?[-=]([^{}$]*))?\}|\(([A-Za-z_]\w*)\)|([A-Za-z_]\w*))|\$\$?\{\{[^}]*\}\}"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_MAKE = re.compile(r"^([A-Za-z_]\w*)[ \t]*(?::=|\?=|::=|=)[ \t]*([^\n#]*)", re.MULTILINE)
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_]\w*)\1")
_KEYWORDS = frozenset({"then", "do", "else", "!", "{", "exec", "time", "sudo", "if", "while", "nohup", "@", "-"})


@dataclass(slots=True)
class Script:
    """What was read so far: variables with their lines, references, and which variables these came from."""

    names: Names
    variables: dict[str, str] = field(default_factory=dict)
    exported: dict[str, Token] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    found: list[Reference] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    default: str | None = None
    """The variable that the image of a Dockerfile reads a revision from, where that is known."""
    declares: bool = False
    """Whether variables are for others to read: one that only the environment knows is then a gap."""

    def run(self, text: str, first_line: int = 1, *, whole: bool = True) -> None:
        """Read commands; ``whole`` files have columns."""
        for command in _commands(text, self.variables, first_line, columns=whole):
            self.command(command)

    def command(self, tokens: list[Token]) -> None:
        """Read one command."""
        while tokens and tokens[0].text in _KEYWORDS:
            tokens = tokens[1:]
        if not tokens:
            return
        exporting = tokens[0].text in {"export", "ENV", "ARG", "readonly", "declare", "local"}
        assigned = tokens[1:] if exporting else tokens
        if assigned and all(_ASSIGNMENT.fullmatch(token.text) or token.text.startswith("-") for token in assigned):
            for token in assigned:
                if pair := _ASSIGNMENT.fullmatch(token.text):
                    self.assign(pair.group(1), pair.group(2), token)
            return
        for token in tokens:
            if not (pair := _ASSIGNMENT.fullmatch(token.text)):
                break
            self.variables[pair.group(1)] = pair.group(2)
        self._code(tokens)
        self.keep(tokens)

    def keep(self, tokens: list[Token], form: Form = Form.PLAIN) -> None:
        """Keep what one command refers to; ``form`` is how its words are written."""
        for made, used in references(tokens, self.names, form):
            self.used.update(used)
            self.found.append(made)
        self.gaps += unresolved(tokens)

    def assign(self, name: str, value: str, token: Token) -> None:
        """Remember a variable; one that names a model counts by itself unless a command uses it."""
        self.variables[name] = value
        self.used.update(token.used)
        self.exported[name] = token

    def _code(self, tokens: list[Token]) -> None:
        """``python -c '...'``."""
        if not tokens[0].text.rpartition("/")[2].startswith(("python", "uv", "poetry", "pipenv", "RUN")):
            return
        for before, token in itertools.pairwise(tokens):
            if before.text == "-c":
                self.python(token.text, token.line)

    def python(self, code: str, first_line: int) -> None:
        """Read Python that stands in a script."""
        try:
            reading = python.find(code, self.names)
        except Unreadable:
            return
        for item in reading.references:
            self.found.append(replace(item, place=Place(line=first_line + item.line - 1)))
        self.gaps += [replace(gap, line=first_line + gap.line - 1) for gap in reading.gaps if gap.line]

    def reading(self) -> Reading:
        """All references: of commands, and of variables that no command in the file uses."""
        pins = variable_pins(self.variables)
        listed = list(self.found)
        gaps = list(self.gaps)
        for name, token in self.exported.items():
            if name in self.used or not is_model_variable(name, pins):
                continue
            value = self.variables[name]
            spec = self.names.loaded(value, tag=takes_tag(name))
            if self.declares and (gap := unknown_model(name, value, token.line)) is not None:
                gaps.append(gap)
            if spec is not None:
                listed.append(
                    reference(spec, pin_of(name, pins, self.default), token.place, name, Form.ASSIGNMENT)
                )
        return Reading(references=tuple(dict.fromkeys(listed)), gaps=tuple(dict.fromkeys(gaps)))


def find(text: str, names: Names, *, make: bool = False) -> Reading:
    """The references of a shell script; with ``make`` of a Makefile's recipes and variables."""
    script = Script(names)
    if make:
        for found in _MAKE.finditer(text):
            script.variables.setdefault(found.group(1), found.group(2).strip())
        text = re.sub(r"^\t[@-]*", "\t", text, flags=re.MULTILINE)
    text, bodies = without_heredocs(text)
    script.run(text)
    for line, body in bodies:
        script.python(body, line)
    return script.reading()


def without_heredocs(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The text with every here-document blanked, and those given to Python as (first line, code)."""
    if "<<" not in text:
        return text, []
    kept: list[str] = []
    bodies: list[tuple[int, str]] = []
    end: str | None = None
    code: list[str] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if end is not None:
            if line.strip() == end:
                if code is not None:
                    bodies[-1] = (bodies[-1][0], "\n".join(code))
                end = code = None
            elif code is not None:
                code.append(line)
            kept.append("")
            continue
        kept.append(line)
        found = None if line.lstrip().startswith("#") else _HEREDOC.search(line)
        if found:
            end = found.group(2)
            if re.search(r"\bpython[\d.]*\b", line):
                bodies.append((number + 1, ""))
                code = []
    return "\n".join(kept), bodies


def expand(text: str, variables: dict[str, str], used: list[str] | None = None) -> str:
    """Put known variables and defaults in; unknown ones stay as they are, so that the text names nothing."""

    def put(found: re.Match[str]) -> str:
        name = found.group(1) or found.group(3) or found.group(4)
        value = variables.get(name) if name else None
        if value is None and found.group(2) is not None:
            value = found.group(2)
        elif value is not None and used is not None and name:
            used.append(name)
        return found.group() if value is None else value[:_LONGEST_WORD]

    return _VARIABLE.sub(put, text[:_LONGEST_WORD])[:_LONGEST_WORD] if "$" in text else text


def _commands(text: str, variables: dict[str, str], line: int, *, columns: bool) -> Iterator[list[Token]]:
    """Commands as lists of words. Variables are put in as they stand when a command begins."""
    reader = _Reader(text, line)
    command: list[Token] = []
    for count, item in enumerate(reader.words()):
        if count > _MOST_TOKENS:
            raise Unreadable("too_large", f"more than {_MOST_TOKENS} words")
        if item is None:
            if command:
                yield command
            command = []
            continue
        word, quoted, start_line, start, end = item
        used: list[str] = []
        shown = word if quoted else expand(word, variables, used)
        if columns:
            command.append(Token(shown, start_line, start, end, tuple(used)))
        else:
            command.append(Token(shown, start_line, used=tuple(used)))
    if command:
        yield command


class _Reader:
    """Splits text into words and command ends (None), by the shell's rules for quotes, escapes, comments."""

    def __init__(self, text: str, line: int) -> None:
        self.text = text.replace("\r\n", " \n")
        self.line = line

    def words(self) -> Iterator[tuple[str, bool, int, int, int] | None]:
        text, size = self.text, len(self.text)
        at, begin = 0, 0  # begin: where the line starts
        while at < size:
            char = text[at]
            if char == "\\" and text[at + 1 : at + 2] == "\n":
                at += 2
                self.line, begin = self.line + 1, at
            elif char in " \t\r":
                at += 1
            elif char == "#":
                end = text.find("\n", at)
                at = size if end < 0 else end
            elif char in _OPERATORS:
                yield None
                at += 1
                if char == "\n":
                    self.line, begin = self.line + 1, at
            elif char == "`":
                yield None
                at += 1
            else:
                start, start_line, start_begin = at, self.line, begin
                word, single, at, begin = self._word(at, begin)
                end = at - begin + 1 if begin == start_begin else start - start_begin + 2
                yield word, single, start_line, start - start_begin + 1, end

    def _word(self, at: int, begin: int) -> tuple[str, bool, int, int]:
        text, size = self.text, len(self.text)
        parts: list[str] = []
        single = False
        while at < size:
            char = text[at]
            if char in " \t\r\n;|&)`" or (char == "(" and not (parts and parts[-1].endswith("$"))):
                break
            if char == "\\":
                if text[at + 1 : at + 2] == "\n":
                    self.line, begin = self.line + 1, at + 2
                else:
                    parts.append(text[at + 1 : at + 2])
                at += 2
            elif char in "'\"":
                end = self._closing(at, char)
                body = text[at + 1 : end]
                if char == "'":
                    single = True
                else:
                    body = re.sub(r"\\([\"\\$`])", r"\1", body).replace("\\\n", "")
                parts.append(body)
                breaks = text.count("\n", at, end)
                if breaks:
                    self.line, begin = self.line + breaks, text.rfind("\n", at, end) + 1
                at = end + 1
            elif char == "(":  # $(NAME) of make; a substitution otherwise
                end = text.find(")", at, at + 80)
                if end < 0 or not text[at + 1 : end].isidentifier():
                    parts.pop()
                    break
                parts.append(text[at : end + 1])
                at = end + 1
            elif char == "$" and text[at + 1 : at + 2] == "{":
                end = text.find("}", at, at + 500)
                end = at + 1 if end < 0 else end
                parts.append(text[at : end + 1])
                at = end + 1
            else:
                parts.append(char)
                at += 1
        return "".join(parts)[:_LONGEST_WORD], single, at, begin

    def _closing(self, at: int, quote: str) -> int:
        text, size = self.text, len(self.text)
        place = at + 1
        while place < size:
            if text[place] == quote:
                return place
            place += 2 if text[place] == "\\" and quote == '"' else 1
        # never closed: to the end of the line, so that one stray quote does not hide the rest
        end = text.find("\n", at)
        return size if end < 0 else end
