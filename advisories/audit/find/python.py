"""Model references in Python source, by its syntax tree."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property

from advisories.audit.find.python_loaders import ADAPTERS, LOADERS, OTHER_HUBS, REPO_TYPE, Loader
from advisories.audit.find.python_scopes import Program, Where, index, last_name
from advisories.audit.find.python_values import Values
from advisories.audit.find.settings_keys import is_model_key
from advisories.audit.model import Gap, Place, Reading, Reference, Unreadable, is_sha
from advisories.audit.names import Names, Spec

_PINNED_IN_TEXT = frozenset({"hf://", "hf-hub:", "url"})
_MARKS = ("hf://", "hf-hub:", "hf_hub:", "https://", "http://")
_HUB_MARKS = ("hf://", "hf-hub:", "hf_hub:")
_ENVIRONMENT = frozenset({"HF_MODEL_ID", "MODEL_ID"})


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


def _characters(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


class _Finder:
    def __init__(self, program: Program, names: Names, lines: _Lines) -> None:
        self._program = program
        self._names = names
        self._values = Values(program)
        self._lines = lines
        self.gaps: list[Gap] = []

    def references(self) -> Iterator[Reference]:
        """Every reference: those of loading calls, then paths that stand anywhere else."""
        told: set[tuple[str, str | None]] = set()
        for call, where in self._program.calls:
            for reference in self._of_call(call, where):
                told.add((reference.repo, reference.revision))
                yield reference
        for node, where in [*self._program.texts, *self._program.formatted]:
            if isinstance(node, ast.Constant) and not str(node.value).startswith(_MARKS):
                continue
            for text in self._values.texts(node, where) or self._begun(node, where):
                spec = self._names.located(text)
                if spec is not None and (spec.repo, spec.revision) not in told:
                    yield self._reference(spec, [], node, str(spec.form))

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
            yield from self._loaded(
                arguments, call, Loader(keywords=(keyword,), position=None, revisions=revisions), name, where
            )
        receiver = last_name(arguments.func.value) if isinstance(arguments.func, ast.Attribute) else None
        if name == "from_pretrained" and (receiver or "").startswith("Peft"):
            yield from self._loaded(arguments, call, ADAPTERS, name, where)

    def _loaded(
        self, arguments: ast.Call, call: ast.Call, loader: Loader, name: str, where: Where
    ) -> Iterator[Reference]:
        given = self._argument(arguments, loader.keywords, loader.position, where)
        if given is None:
            return
        texts = self._values.texts(*given)
        if not texts and loader.strict and not isinstance(given[0], ast.Constant | ast.Call):
            place = self._lines.place(call)
            self.gaps.append(
                Gap(reason="unresolved", detail=f"{name}: which model is not in the file", line=place.line)
            )
        pin = self._argument(arguments, loader.revisions, None, where)
        revisions = self._values.texts(*pin) if pin else []
        for number, text in enumerate(texts):
            spec = self._names.loaded(text, sentence=loader.sentence, tag=loader.tag) or self._names.located(
                text, page=True
            )
            if spec is not None:
                # two names that walk through one literal collection walk together
                paired = revisions[number : number + 1] if len(revisions) == len(texts) else revisions
                yield self._reference(spec, paired, call, name)

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
                for text in self._values.texts(given, where):
                    spec = self._names.located(text) if text.startswith(_MARKS) else None
                    if spec is not None:
                        yield self._reference(spec, [], call, str(spec.form))
        if last_name(call.func) in {"add_argument", "option"}:
            yield from self._option(call, where)
        elif last_name(call.func) == "dict" or not call.keywords:
            return
        else:
            yield from self._environment(call, where)

    def _option(self, call: ast.Call, where: Where) -> Iterator[Reference]:
        flags = [str(arg.value) for arg in call.args if isinstance(arg, ast.Constant)]
        if not any(flag.startswith("--") and is_model_key(flag.lstrip("-")) for flag in flags):
            return
        default = self._argument(call, ("default",), None, where)
        for text in self._values.texts(*default) if default else []:
            spec = self._names.loaded(text)
            if spec is not None and not self._used(flags):
                yield self._reference(spec, [], call, next(flag for flag in flags if flag.startswith("--")))

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
                            yield self._reference(spec, [], call, name)

    def _reference(self, spec: Spec, revisions: Sequence[str], node: ast.Call | ast.expr, via: str) -> Reference:
        revision = spec.revision or next(iter(dict.fromkeys(revisions)), None)
        if len(set(revisions)) > 1:
            revision = None  # one of several: not sure enough to call it pinned
        lowered = revision.lower() if revision else None
        return Reference(
            repo=spec.repo,
            endpoint=spec.endpoint,
            revision=lowered if is_sha(lowered) else revision,
            place=self._lines.place(node),
            via=via if spec.form not in _PINNED_IN_TEXT else str(spec.form),
        )
