"""What a chat template must not do, read off its syntax tree.

* **Reach**: attributes or keys that lead out of the data (``__class__``, ``_x``, frames, globals), however
  they are spelled; the ``attr`` filter; names of Python that no template has; import, include, extends.
* **A trigger**: a branch on what a message says (its content compared with a literal) that writes prose. Real
  templates branch on content all the time, to cut out a reasoning block or to open a control token;
  none needs to write a sentence because a user said a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes

from tracker.diff.template_ast import Known, bindings, constant, member, walk
from tracker.diff.template_trigger import triggers

_DUNDER = re.compile(r"__\w+__")
_WALKS = frozenset(
    {"mro", "func_globals", "func_code", "func_closure", "im_class", "im_func", "im_self", "f_globals", "f_locals",
     "f_builtins", "f_back", "f_code", "gi_frame", "gi_code", "gi_yieldfrom", "cr_frame", "cr_code", "cr_await",
     "ag_frame", "ag_code", "tb_frame", "tb_next", "co_consts", "subclasses", "builtins"}
)  # fmt: skip
_OUTSIDE = frozenset(
    {"eval", "exec", "compile", "open", "getattr", "setattr", "delattr", "vars", "globals", "locals", "dir",
     "breakpoint", "input", "type", "object", "super", "os", "sys", "subprocess", "importlib", "builtins",
     "socket", "shutil", "ctypes", "pickle", "config", "request", "g", "url_for", "get_flashed_messages", "self",
     "caller"}
)  # fmt: skip
_HELPERS = frozenset({"lipsum", "cycler", "joiner", "range", "dict", "namespace"})
_HELPER_MEMBERS = frozenset({"next", "current", "reset"})
_BY_ATTRIBUTE = frozenset(
    {"map", "selectattr", "rejectattr", "groupby", "sort", "sum", "min", "max", "unique", "join", "attr"}
)
_ASSEMBLING = (nodes.Add, nodes.Concat, nodes.Mul, nodes.Call, nodes.Filter)
_FORMAT_FIELD = re.compile(r"\{([^{}]*)\}")
_TAGS: tuple[tuple[type[nodes.Node], str], ...] = (
    (nodes.Import, "import"),
    (nodes.FromImport, "from ... import"),
    (nodes.Include, "include"),
    (nodes.Extends, "extends"),
)


def unsafe(tree: nodes.Template) -> tuple[str, ...]:
    """Say what is dangerous, each in a few words; sorted, no repeats, empty for a template that is fine."""
    return tuple(sorted({*_reach(tree), *triggers(tree)}))


def _reach(tree: nodes.Template) -> Iterator[str]:
    own = _own_names(tree)
    known = bindings(tree)
    for node in walk(tree):
        for kind, tag in _TAGS:
            if isinstance(node, kind):
                yield f"tag {tag}"
        if isinstance(node, _ASSEMBLING):
            assembled = (constant(node, known) or "").strip()
            if _DUNDER.fullmatch(assembled):
                yield f"assembles the name {assembled[:40]}"
        match node:
            case nodes.Getattr() | nodes.Getitem():
                yield from _member_reach(node, known)
            case nodes.Filter():
                yield from _filter_reach(node, known)
            case nodes.Call(node=nodes.Getattr(node=inner, attr="format" | "format_map")):
                if (form := constant(inner, known)) and _reaching_format(form):
                    yield f"format string reaches into attributes: {form[:60]}"
            case nodes.Call(node=nodes.Name(name=name)) if name in _OUTSIDE - {"caller"} and name not in own:
                yield f"calls {name}"
            case _:
                pass


def _reaching_format(form: str) -> bool:
    """Whether a field of a format string takes an attribute or item that begins with an underscore."""
    return any("._" in field or "[_" in field for field in _FORMAT_FIELD.findall(form))


def _own_names(tree: nodes.Template) -> frozenset[str]:
    """Names that the template itself gives: set, for, macro, macro arguments."""
    given = {node.name for node in walk(tree) if isinstance(node, nodes.Name) and node.ctx in {"store", "param"}}
    macros = {node.name for node in walk(tree) if isinstance(node, nodes.Macro)}
    return frozenset(given | macros)


def _member_reach(node: nodes.Getattr | nodes.Getitem, known: Known) -> Iterator[str]:
    name = member(node, known)
    if name is None:
        return
    if _is_private(name):
        yield f"reaches {name[:60]}"
        return
    match node.node:
        case nodes.Name(name=base) if base in _HELPERS and name not in _HELPER_MEMBERS:
            yield f"reaches {base}.{name[:60]}"
        case nodes.Name(name="self"):
            yield f"reaches self.{name[:60]}"
        case _:
            pass


def _is_private(name: str) -> bool:
    return name.startswith("_") or name in _WALKS or bool(_DUNDER.search(name))


def _filter_reach(node: nodes.Filter, known: Known) -> Iterator[str]:
    if node.name == "attr":
        yield "filter attr"
    if node.name not in _BY_ATTRIBUTE:
        return
    arguments = [*node.args, *(item.value for item in node.kwargs)]
    for text in (constant(argument, known) for argument in arguments):
        if text and any(_is_private(part) for part in text.split(".")) and re.fullmatch(r"[\w.]+", text):
            yield f"filter {node.name} reaches {text[:60]}"
        if node.name == "map" and text == "attr":
            yield "filter attr, through map"
