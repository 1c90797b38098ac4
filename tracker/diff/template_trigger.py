"""Branches on what a message says that write prose.

A small data-flow reading: names that hold message content, names that hold the answer of a comparison
of content with a literal, macros that write prose. Sets and loops are followed by name until nothing
new is learned; that errs towards following.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jinja2 import nodes

from tracker.diff.template_ast import MAX_CONSTANT, Unexamined, bindings, constant, member, walk

MAX_VISITS = 200_000  # of syntax nodes, all rounds and branches together; the largest template seen takes 6,000

_ROUNDS = 4  # of following names; each round learns at least one name or ends
# A word with an underscore begins where a word begins, or after an escape sequence; looked for at every letter,
# a long word would cost the square of its length.
_CONTROL = re.compile(
    r"(?:(?<!\w)|(?<=\\[nrt]))\w*_\w*|<[^<>]{0,80}>|\[[^\[\]\s]{1,60}\]|\{[^{}]{0,40}\}|```\w*|\\[nrt]"
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_PROSE_WORDS = 3
_PROSE_SIGNS = 6  # of scripts that put no spaces between words
_ASKING = frozenset(
    {"startswith", "endswith", "find", "rfind", "index", "count", "match", "search", "__contains__"}
)
_CONTENT = frozenset({"content", "text"})


def is_prose(text: str) -> bool:
    """Whether a literal says something to a reader: several words that are no control tokens."""
    plain = _CONTROL.sub(" ", text)
    return len(_WORD.findall(plain)) >= _PROSE_WORDS or len(_UNSPACED.findall(plain)) >= _PROSE_SIGNS


def triggers(tree: nodes.Template) -> tuple[str, ...]:
    """Return what each such branch waits for and writes, in a few words.

    Raises Unexamined where branches inside branches would take too long to follow.
    """
    return tuple(_Reader(tree).found())


class _Reader:
    """What is known of a template's names."""

    def __init__(self, tree: nodes.Template) -> None:
        self._visits = 0
        self._said: dict[str, bool] = {}  # whether a literal is prose
        self._nodes = list(walk(tree))
        self._macros = {node.name: node for node in self._nodes if isinstance(node, nodes.Macro)}
        self._known = bindings(tree)
        self._messages = {"messages"}
        self._content: set[str] = set()
        # a name that holds a comparison's answer -> the literal, and whether it holds yes when it is there
        self._asked: dict[str, tuple[str, bool | None]] = {}
        for _ in range(_ROUNDS):
            if not self._learn():
                break

    def found(self) -> Iterator[str]:
        for node in self._nodes:
            match node:
                case nodes.If(test=test) | nodes.CondExpr(test=test) | nodes.For(test=nodes.Node() as test):
                    literal = self._waits_for(test)
                    if literal is not None and (said := self._written(node)):
                        yield f"writes {said[:80]!r} when a message says {literal[:60]!r}"
                case nodes.For():
                    literal = self._selects(node.iter)
                    if literal is not None and (said := self._prose(node.body)):
                        yield f"writes {said[:80]!r} when a message says {literal[:60]!r}"
                case nodes.Getitem(node=nodes.Dict() as table, arg=key) if self._holds_content(key):
                    if said := self._prose([table]):
                        yield f"writes {said[:80]!r} by what a message says"
                case nodes.Call(node=nodes.Getattr(node=nodes.Dict() as table, attr="get"), args=[key, *_]):
                    if self._holds_content(key) and (said := self._prose([table])):
                        yield f"writes {said[:80]!r} by what a message says"
                case _:
                    pass

    def _walk(self, root: nodes.Node) -> Iterator[nodes.Node]:
        for node in walk(root):
            self._visit()
            yield node

    def _visit(self) -> None:
        self._visits += 1
        if self._visits > MAX_VISITS:
            raise Unexamined(f"its branches take more than {MAX_VISITS} steps to follow")

    def _learn(self) -> bool:
        known = len(self._content) + len(self._asked) + len(self._messages)
        for node in self._nodes:
            match node:
                case nodes.Assign():
                    self._learn_assignment(node.target, node.node)
                case nodes.AssignBlock():
                    if any(self._holds_content(part) for part in node.body):
                        self._content.update(self._names(node.target))
                case nodes.For():
                    if self._holds_content(node.iter):
                        self._content.update(self._names(node.target))
                    elif self._is_messages(node.iter):
                        self._messages.update(self._names(node.target))
                case nodes.If() if (literal := self._waits_for(node.test)) is not None:
                    self._learn_flags(node, literal)
                case nodes.Call(node=nodes.Name(name=name)) if name in self._macros:
                    parameters = self._macros[name].args
                    for parameter, argument in zip(parameters, node.args, strict=False):
                        if self._holds_content(argument):
                            self._content.update(self._names(parameter))
                case _:
                    pass
        return len(self._content) + len(self._asked) + len(self._messages) > known

    def _names(self, target: nodes.Node) -> list[str]:
        return [name for node in self._walk(target) if (name := _name(node))]

    def _assignments(self, body: Iterable[nodes.Node]) -> Iterator[nodes.Assign]:
        for part in body:
            yield from (node for node in self._walk(part) if isinstance(node, nodes.Assign))

    def _learn_assignment(self, target: nodes.Node, value: nodes.Node) -> None:
        if (literal := self._waits_for(value)) is not None:
            self._ask(target, literal, self._sense(value))
        elif self._holds_content(value):
            self._content.update(self._names(target))
            match value:
                case nodes.Call(
                    node=nodes.Getattr(attr="split" | "partition" | "rsplit" | "rpartition"), args=[cut, *_]
                ):
                    if (text := self._literal([cut])) is not None:
                        self._ask(target, text, None)
                case _:
                    pass
        elif self._is_messages(value):
            self._messages.update(self._names(target))

    def _learn_flags(self, node: nodes.If, literal: str) -> None:
        """Names set inside a branch carry its answer on: a plain yes or no, or prose to be written later."""
        sense = self._sense(node.test)
        own = {id(part) for part in node.body}  # nodes compare by all that is in them
        for inner in self._assignments([*node.body, *node.else_]):
            match inner.node:
                case nodes.Const(value=bool() | int() as value):
                    there = sense if id(inner) in own and value else None
                    self._ask(inner.target, literal, there)
                case _ if self._is_prose(constant(inner.node, self._known) or ""):
                    self._ask(inner.target, literal, None)
                case _:
                    pass

    def _ask(self, target: nodes.Node, literal: str, sense: bool | None) -> None:
        for name in self._names(target):
            self._asked.setdefault(name, (literal, sense))

    def _literal(self, parts: Iterable[nodes.Node]) -> str | None:
        """The first literal with something in it, also inside a list of literals or under a name."""
        for part in parts:
            options = part.items if isinstance(part, nodes.List | nodes.Tuple) else [part]
            for option in options:
                if (name := _name(option)) and name in self._content:
                    continue
                text = constant(option, self._known)
                if text and text.strip():
                    return text
        return None

    def _selects(self, node: nodes.Node) -> str | None:
        """The literal by which a filter picks messages by their content."""
        for part in self._walk(node):
            match part:
                case nodes.Filter(name="selectattr" | "rejectattr", args=[attribute, _, *wanted]) if wanted:
                    if constant(attribute, self._known) in _CONTENT:
                        return self._literal(wanted)
                case nodes.Filter(name="select" | "reject", args=[_, *wanted]) if wanted:
                    if part.node is not None and self._holds_content(part.node):
                        return self._literal(wanted)
                case _:
                    pass
        return None

    def _is_messages(self, node: nodes.Node | None) -> bool:
        """Whether an expression is the conversation, a part of it or one message, and not a value of a message."""
        match node:
            case nodes.Name(name=name):
                return name in self._messages
            case nodes.Getitem(arg=nodes.Slice()):
                return self._is_messages(node.node)
            case nodes.Getitem(node=inner, arg=nodes.Const(value=int()) | nodes.Neg() | nodes.Name()):
                return self._is_messages(inner)
            case nodes.Filter(
                name="last" | "first" | "list" | "reverse" | "selectattr" | "rejectattr", node=nodes.Node()
            ):
                return self._is_messages(node.node)
            case _:
                return False

    def _sense(self, test: nodes.Node) -> bool | None:
        """Whether a test is met when the literal is there: True, False, or None where it cannot be told."""
        match test:
            case nodes.Not():
                inner = self._sense(test.node)
                return None if inner is None else not inner
            case nodes.Compare(ops=[nodes.Operand(op=op)]):
                return {"in": True, "eq": True, "notin": False, "ne": False}.get(op)
            case nodes.And() | nodes.Or():
                asking = [side for side in (test.left, test.right) if self._waits_for(side) is not None]
                senses = {self._sense(side) for side in asking}
                return senses.pop() if len(senses) == 1 else None
            case nodes.Call(node=nodes.Getattr(attr="startswith" | "endswith")):
                return True
            case nodes.Test(name="in" | "eq" | "equalto" | "=="):
                return True
            case _:
                return self._asked.get(_name(test) or "", ("", None))[1]

    def _holds_content(self, root: nodes.Node) -> bool:
        """Whether an expression's value is made from message content (and is no mere answer about it)."""
        for node in self._walk(root):
            if member(node, self._known) in _CONTENT or _name(node) in self._content:
                return True
            match node:
                case nodes.Call(node=nodes.Getattr(attr="get"), args=[key, *_]) if (
                    constant(key, self._known) in _CONTENT
                ):
                    return True
                case nodes.Filter(name="map" | "selectattr" | "join" | "groupby"):
                    options = [*node.args, *(item.value for item in node.kwargs)]
                    if any(constant(option, self._known) in _CONTENT for option in options):
                        return True
                case nodes.Filter(name="string" | "tojson" | "join" | "items" | "dictsort" | "list"):
                    if node.node is not None and self._is_messages(node.node):
                        return True
                case nodes.Call(node=nodes.Getattr(node=inner, attr="values" | "items")) if self._is_messages(
                    inner
                ):
                    return True
                case _:
                    pass
        return False

    def _waits_for(self, test: nodes.Node) -> str | None:
        """The literal that a test looks for in content; None where it asks nothing of the kind."""
        for node in self._walk(test):
            match node:
                case nodes.Compare():
                    sides = [node.expr, *(operand.expr for operand in node.ops)]
                    literal = self._literal(sides)
                    if literal and any(
                        self._holds_content(side) for side in sides if self._literal([side]) is None
                    ):
                        return literal
                case nodes.Call(node=nodes.Getattr(attr=attr, node=subject)) if attr in _ASKING:
                    literal = self._literal(node.args)
                    if literal and self._holds_content(subject):
                        return literal
                case nodes.Test() if node.args:
                    sides = [node.node, *node.args]
                    literal = self._literal(sides)
                    if literal and any(self._holds_content(side) for side in sides):
                        return literal
                case nodes.Filter(name="select" | "reject" | "selectattr" | "rejectattr"):
                    if (literal := self._selects(node)) is not None:
                        return literal
                case _:
                    if (name := _name(node)) and name in self._asked:
                        return self._asked[name][0]
        return None

    def _written(self, node: nodes.If | nodes.CondExpr | nodes.For) -> str | None:
        """The first prose that a branch writes when the literal is there, also through a name or a macro.

        What is written when it is not there shows in every plain prompt, so it is no trigger's.
        """
        if isinstance(node, nodes.For):
            return self._prose(node.body)
        if isinstance(node, nodes.CondExpr):
            met: list[nodes.Node] = [node.expr1]
            unmet: list[nodes.Node] = [node.expr2] if node.expr2 is not None else []
        else:
            met, unmet = [*node.body], [*node.else_, *node.elif_]
        sense = self._sense(node.test)
        sides = {True: met, False: unmet, None: [*met, *unmet]}[sense]
        return self._prose(sides)

    def _prose(self, parts: Iterable[nodes.Node]) -> str | None:
        """The first prose that these parts write."""
        for part in parts:
            for text in self._emitted(part):
                if self._is_prose(text):
                    return " ".join(text.split())
        return None

    def _is_prose(self, text: str) -> bool:
        if text not in self._said:
            self._said[text] = is_prose(text)
        return self._said[text]

    def _emitted(self, root: nodes.Node) -> Iterator[str]:
        """Literals that reach the output: refusals and what is only compared are not among them."""
        stack = [root]
        entered: set[str] = set()
        while stack:
            node = stack.pop()
            self._visit()
            if (text := constant(node, self._known)) is not None:
                yield text
                continue
            match node:
                case nodes.Const(value=str() as long) | nodes.TemplateData(data=long):
                    yield long[:MAX_CONSTANT]
                case nodes.Call(node=nodes.Name(name="raise_exception")):
                    pass
                case nodes.Call(node=nodes.Name(name=name)) if name in self._macros:
                    if name not in entered:
                        stack.extend(self._macros[name].body)
                    entered.add(name)
                    stack.extend(node.args)
                case nodes.If():
                    stack.extend([*node.body, *node.elif_, *node.else_])
                case nodes.CondExpr():
                    stack.extend(side for side in (node.expr1, node.expr2) if side is not None)
                case nodes.Compare() | nodes.Test() | nodes.Getitem():
                    pass
                case _:
                    stack.extend(reversed([*node.iter_child_nodes()]))


def _name(node: nodes.Node) -> str | None:
    match node:
        case nodes.Name():
            return node.name
        case nodes.NSRef():
            return f"{node.name}.{node.attr}"
        case nodes.Getattr(node=nodes.Name(name=base)):
            return f"{base}.{node.attr}"
        case _:
            return None
