"""Model references in Python source, by its syntax tree."""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from advisories.audit.find import commands, python_certainty, python_commands
from advisories.audit.find.making import NOTHING, Given, reference
from advisories.audit.find.python_loaders import (
    ADAPTERS,
    LOADERS,
    OTHER_HUBS,
    PASSED_ON,
    REPO_TYPE,
    Loader,
    may_be_name,
)
from advisories.audit.find.python_scopes import Program, Where, index, last_name
from advisories.audit.find.python_values import Values
from advisories.audit.find.settings_keys import is_model_key
from advisories.audit.find.words import Token
from advisories.audit.model import Form, Gap, Place, Reading, Reference, Unreadable
from advisories.audit.names import Names, Spec

_MARKS = ("hf://", "hf-hub:", "hf_hub:", "https://", "http://")
_HUB_MARKS = ("hf://", "hf-hub:", "hf_hub:")
_ENVIRONMENT = frozenset({"HF_MODEL_ID", "MODEL_ID"})
_REVISION_VARIABLES = ("HF_MODEL_REVISION", "MODEL_REVISION", "HF_REVISION", "REVISION")


def find(source: bytes | str, names: Names) -> Reading:
    """The references of a Python file; raises Unreadable when it is not Python.

    Calls are known by name (`advisories.audit.find.python_loaders`); their arguments are followed within the
    file. An argument of a loading call that cannot be followed is a gap.
    """
    tree = parse(source)
    lines = _Lines(source)
    finder = _Finder(index(tree), names, lines)
    found = list(finder.references())
    return Reading(references=tuple(dict.fromkeys(found)), gaps=tuple(dict.fromkeys(finder.gaps)))


def parse(source: bytes | str) -> ast.Module:
    """The syntax tree; raises Unreadable."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes are the file's own matter
            return ast.parse(source)
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        raise Unreadable("syntax", f"{error.msg}{where}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable("syntax", str(error)[:200] or "nested too deeply") from None


class _Lines:
    """Columns as characters: the syntax tree counts bytes."""

    def __init__(self, source: bytes | str) -> None:
        text = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
        self._lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")

    def place(self, node: ast.Call | ast.expr) -> Place:
        """From the called name to the end of the call, or of its first line."""
        name = node.func if isinstance(node, ast.Call) else node
        line = (name.end_lineno if isinstance(node, ast.Call) else name.lineno) or 1
        start = name.col_offset if name.lineno == line else 0
        end = node.end_col_offset if node.end_lineno == line else None
        text = self._lines[line - 1] if line <= len(self._lines) else b""
        column = _characters(text[:start]) + 1
        if name.lineno != line:
            column += len(text) - len(text.lstrip())
        return Place(line=line, column=column, end_column=_characters(text[:end]) + 1)


def _is_path(text: object) -> bool:
    return isinstance(text, str) and text.startswith(_MARKS)


def _characters(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


class _Finder:
    def __init__(self, program: Program, names: Names, lines: _Lines) -> None:
        self._program = program
        self._names = names
        self._values = Values(program)
        self._lines = lines
        self._told: set[int] = set()
        self.gaps: list[Gap] = []

    def references(self) -> Iterator[Reference]:
        """Every reference: those of loading calls, then paths that stand anywhere else."""
        for call, where in self._program.calls:
            yield from self._of_call(call, where)
        # what a call or a longer text is made of was told there already
        for node, where in [*self._program.formatted, *self._program.texts]:
            if id(node) in self._told or (isinstance(node, ast.Constant) and not _is_path(node.value)):
                continue
            for text in self._texts(node, where) or self._begun(node, where):
                spec = self._names.located(text)
                if spec is not None:
                    self._told |= self._values.touched
                    given = Given(unsure=text.endswith("@") and isinstance(node, ast.JoinedStr))
                    yield self._reference(spec, given, node, str(spec.form))

    def _texts(self, node: ast.expr, where: Where) -> list[str]:
        """The texts of an expression, with the nodes they came from kept in ``touched``."""
        self._values.touched = set()
        return self._values.texts(node, where)

    def _begun(self, node: ast.expr, where: Where) -> list[str]:
        """A path whose repo is complete before the part that cannot be followed."""
        text = self._values.beginning(node, where) if isinstance(node, ast.JoinedStr) else ""
        whole = text.startswith(_MARKS) and (text.count("/") >= 4 or text.endswith("@"))
        return [text] if whole else []

    @cached_property
    def _has_paths(self) -> bool:
        """Whether any text of the file could be a path of the Hub: else no argument needs following for it."""
        parts = [part for node, _ in self._program.formatted for part in node.values]
        texts = [node.value for node, _ in self._program.texts]
        texts += [part.value for part in parts if isinstance(part, ast.Constant)]
        marks = (*_HUB_MARKS, *self._names.hosts)
        return any(mark in text for text in texts if isinstance(text, str) for mark in marks)

    def _of_call(self, call: ast.Call, where: Where) -> Iterator[Reference]:
        name = last_name(call.func)
        arguments = call
        if name == "partial" and call.args:
            name = last_name(call.args[0])
            arguments = ast.Call(func=call.args[0], args=call.args[1:], keywords=call.keywords)
        loader = LOADERS.get(name or "")
        source = self._source(arguments.func)
        if loader is None or name is None or (loader.sources and not source.startswith(loader.sources)):
            yield from self._elsewhere(call, where)
            return
        if source.startswith(OTHER_HUBS) or self._other_kind(arguments, where):
            return
        yield from self._loaded(arguments, call, loader, name, where)
        for keyword, revisions in loader.more:
            part = Loader(keywords=(keyword,), position=None, revisions=revisions)
            yield from (_as_part(item, revisions) for item in self._loaded(arguments, call, part, name, where))
        receiver = last_name(arguments.func.value) if isinstance(arguments.func, ast.Attribute) else None
        if name == "from_pretrained" and (receiver or "").startswith("Peft"):
            yield from self._loaded(arguments, call, ADAPTERS, name, where)

    def _loaded(
        self, arguments: ast.Call, call: ast.Call, loader: Loader, name: str, where: Where
    ) -> Iterator[Reference]:
        given = self._argument(arguments, loader.keywords, loader.position, where)
        if given is None:
            if loader.strict and self._is_spread(arguments, where):
                self._unresolved(name, call)
            return
        texts = self._texts(*given)
        touched = self._values.touched
        if (loader.strict or may_be_name(given[0])) and not python_certainty.complete(self._values, *given):
            self._unresolved(name, call)
        revisions, pin = self._pin(arguments, loader.revisions, where)
        for number, text in enumerate(texts):
            spec = self._names.loaded(text, sentence=loader.sentence, tag=loader.tag) or self._names.located(
                text, page=True
            )
            if spec is not None:
                self._told |= touched
                # two names that walk through one literal collection walk together
                paired = revisions[number : number + 1] if len(revisions) == len(texts) else revisions
                one = next(iter(paired)) if len(set(paired)) == 1 else None
                # one of several is not sure enough to call it pinned, nor floating
                unsure = pin.unsure or len(set(paired)) > 1
                yield self._reference(spec, Given(one, pin.name, unsure), call, name)

    def _unresolved(self, name: str, call: ast.Call) -> None:
        line = self._lines.place(call).line
        self.gaps.append(Gap(reason="unresolved", detail=f"{name}: which model is not in the file", line=line))

    def _is_spread(self, call: ast.Call, where: Where) -> bool:
        """Whether arguments come from a collection that cannot be followed."""
        spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
        return any(isinstance(item, ast.Starred) for item in call.args) or not all(
            python_certainty.is_closed(self._values, item, where) for item in spread
        )

    def _pin(self, call: ast.Call, names: Sequence[str], where: Where) -> tuple[list[str], Given]:
        """The revisions that a call may be given, and under which name; whether there may be others."""
        found = self._argument(call, names, None, where)
        passed_on = [keyword.value for keyword in call.keywords if keyword.arg == PASSED_ON]
        for name, given in itertools.product(names, passed_on):
            found = found or self._values.field(given, name, where)
        if found is None:
            spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
            return [], Given(
                unsure=not all(python_certainty.is_closed(self._values, item, where) for item in spread)
            )
        written = next((k.arg for name in names for k in call.keywords if k.arg == name), names[0])
        texts = self._values.texts(*found)
        return texts, Given(name=written, unsure=not texts and not python_certainty.is_none(self._values, *found))

    def _argument(
        self, call: ast.Call, keywords: Sequence[str], position: int | None, where: Where
    ) -> tuple[ast.expr, Where] | None:
        for name in keywords:
            for keyword in call.keywords:
                if keyword.arg == name:
                    return keyword.value, where
        if position is not None and position < len(call.args):
            early = call.args[: position + 1]
            return None if any(isinstance(item, ast.Starred) for item in early) else (early[-1], where)
        for spread in [keyword.value for keyword in call.keywords if keyword.arg is None]:
            for name in keywords:
                if (found := self._values.field(spread, name, where)) is not None:
                    return found
        return None

    def _source(self, function: ast.expr) -> str:
        """The module that a called name was imported from, as far as the file says."""
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        return self._program.imports.get(root.id, "") if isinstance(root, ast.Name) else ""

    def _other_kind(self, call: ast.Call, where: Where) -> bool:
        """Whether `repo_type` says, or may say, that this is no model."""
        kind = self._argument(call, (REPO_TYPE,), None, where)
        if kind is None or (isinstance(kind[0], ast.Constant) and kind[0].value is None):
            return False
        return self._values.texts(*kind) != ["model"]

    def _elsewhere(self, call: ast.Call, where: Where) -> Iterator[Reference]:
        """References in calls of no known name: an ``hf://`` path, a model's default on the command line."""
        for given in [*call.args, *(keyword.value for keyword in call.keywords)] if self._has_paths else ():
            if isinstance(given, ast.Constant | ast.Name | ast.Attribute | ast.JoinedStr | ast.BinOp):
                for text in self._texts(given, where):
                    spec = self._names.located(text) if text.startswith(_MARKS) else None
                    if spec is not None:
                        self._told |= self._values.touched
                        yield self._reference(spec, NOTHING, call, str(spec.form))
        if last_name(call.func) in {"add_argument", "option"}:
            yield from self._option(call, where)
        elif last_name(call.func) in python_commands.RUNNING:
            yield from self._command(call, where)
        elif last_name(call.func) == "dict" or not call.keywords:
            return
        else:
            yield from self._environment(call, where)

    def _command(self, call: ast.Call, where: Where) -> Iterator[Reference]:
        """A command that the program runs."""
        words = python_commands.words(call, lambda node: self._values.texts(node, where))
        place = self._lines.place(call)
        tokens = [Token(word, place.line, place.column, place.end_column) for word in words]
        form = python_commands.form(call)
        for item, _ in commands.references(tokens, self._names, form):
            yield replace(item, place=place)
        self.gaps += commands.unresolved(tokens)

    def _option(self, call: ast.Call, where: Where) -> Iterator[Reference]:
        flags = [str(arg.value) for arg in call.args if isinstance(arg, ast.Constant)]
        if not any(flag.startswith("--") and is_model_key(flag.lstrip("-")) for flag in flags):
            return
        default = self._argument(call, ("default",), None, where)
        for text in self._values.texts(*default) if default else []:
            spec = self._names.loaded(text)
            if spec is not None and not self._used(flags):
                flag = next(flag for flag in flags if flag.startswith("--"))
                yield self._reference(spec, NOTHING, call, flag)

    def _used(self, flags: Sequence[str]) -> bool:
        """Whether the file itself reads an option: then the call that loads it is the reference."""
        names = {flag.lstrip("-").replace("-", "_") for flag in flags}
        for call, _ in self._program.calls:
            if last_name(call.func) in LOADERS:
                for given in [*call.args, *(keyword.value for keyword in call.keywords)]:
                    if last_name(given) in names:
                        return True
        return False

    def _environment(self, call: ast.Call, where: Where) -> Iterator[Reference]:
        for keyword in call.keywords:
            if keyword.arg in {"env", "environment"}:
                for name in sorted(_ENVIRONMENT):
                    found = self._values.field(keyword.value, name, where)
                    for text in self._values.texts(*found) if found else []:
                        if (spec := self._names.loaded(text)) is not None:
                            yield self._reference(spec, self._variable_pin(keyword.value, where), call, name)

    def _variable_pin(self, variables: ast.expr, where: Where) -> Given:
        for name in _REVISION_VARIABLES:
            found = self._values.field(variables, name, where)
            if found is not None:
                texts = self._values.texts(*found)
                return Given(texts[0] if len(set(texts)) == 1 else None, name, unsure=len(set(texts)) != 1)
        return Given(unsure=not python_certainty.is_closed(self._values, variables, where))

    def _reference(self, spec: Spec, given: Given, node: ast.Call | ast.expr, via: str) -> Reference:
        return reference(spec, given, self._lines.place(node), via)


def _as_part(reference: Reference, revisions: Sequence[str]) -> Reference:
    """A reference that stands beside the model in one call, whose ``revision`` is the model's."""
    if revisions[0] == "revision":
        return replace(reference, form=Form.PART)
    return replace(reference, pin_key=revisions[0])
