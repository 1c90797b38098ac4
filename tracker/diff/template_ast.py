"""A chat template as its syntax tree: what it reads, what it writes, what its parts are worth.

Only parsed, never run: no filter is applied and no constant folded by jinja2. Code is looked for in the
tree, never in the text, for prose may say ``requests.`` or ``os`` without meaning any harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import jinja2
from jinja2 import nodes
from jinja2.compiler import Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.lexer import Token, TokenStream
from jinja2.meta import TrackingCodeGenerator
from jinja2.parser import Parser

MAX_TEMPLATE = 256 * 1024  # characters that are parsed; a longer template is not read
MAX_TOKENS = 20_000  # some eight times the largest template seen; what has more is not parsed to its end
MAX_NODES = 10_000  # some eight times the largest template seen
MAX_DEPTH = 100
MAX_ASSEMBLED = 1_000_000  # characters of all constants that one template assembles from pieces
MAX_CONSTANT = 10_000  # characters of one constant
_ROUNDS = 4  # of following names from one to the next
GLOBALS = frozenset({"range", "namespace", "dict", "lipsum", "cycler", "joiner", "loop", "raise_exception"})
# What every caller gives: the conversation, tools, documents, the special tokens, the clock.
CALLER_VARIABLES = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "unk_token", "sep_token",
     "pad_token", "cls_token", "mask_token", "additional_special_tokens", "strftime_now"}
)  # fmt: skip


class Unparsable(Exception):
    """A template that jinja2 cannot parse, or that is larger than we read; the message says which."""


class Unexamined(Unparsable):
    """A template that others may render, but that is larger than we follow: nothing can be ruled out."""


class _Generation(Extension):
    """Reads the ``generation`` block of training templates as its body, and no more than so many tokens."""

    tags = {"generation"}  # noqa: RUF012 - the name jinja2 gives it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the body in place of the block."""
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Count the tokens as they are read: the parser takes some 50 microseconds for each."""
        for number, token in enumerate(stream):
            if number >= MAX_TOKENS:
                raise Unexamined(f"more than {MAX_TOKENS} tokens")
            yield token


_ENVIRONMENT = jinja2.Environment(  # noqa: S701 - nothing is rendered
    trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], cache_size=0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a template takes from its caller.

    ``variables`` are free variables; ``fields`` the keys it reads with a default of its own
    (``message.name | default('x')``), which callers may leave out.
    """

    variables: tuple[str, ...]
    fields: tuple[str, ...]


def parse(text: str) -> nodes.Template:
    """Parse a template; raises Unparsable for any text that is none."""
    parsed = _parsed(text)
    if isinstance(parsed, Unparsable):
        raise type(parsed)(*parsed.args)
    return parsed


@lru_cache(maxsize=32)
def _parsed(text: str) -> nodes.Template | Unparsable:
    """The tree, or why there is none: to find that out takes as long, and is asked as often."""
    try:
        return _tree(text)
    except Unparsable as error:
        return error.with_traceback(None)


def _tree(text: str) -> nodes.Template:
    if len(text) > MAX_TEMPLATE:
        raise Unexamined(f"{len(text)} characters, more than the {MAX_TEMPLATE} that are read")
    try:
        tree = _ENVIRONMENT.parse(text)
    except jinja2.TemplateSyntaxError as error:
        raise Unparsable(f"line {error.lineno}: {error.message}"[:300]) from None
    except RecursionError:
        raise Unparsable("it nests too deeply") from None
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise Unparsable(f"{type(error).__name__}: {error}"[:300]) from None
    _check_size(tree)
    return tree


def _check_size(tree: nodes.Template) -> None:
    """Refuse a tree that following names through it would take too long or too deep; real ones are far below."""
    stack: list[tuple[nodes.Node, int]] = [(tree, 0)]
    count = 0
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise Unexamined(f"more than {MAX_NODES} syntax nodes or {MAX_DEPTH} levels of them")
        stack.extend((child, depth + 1) for child in node.iter_child_nodes())


def inputs(tree: nodes.Template) -> Inputs:
    """Return what the template takes from its caller, sorted."""
    names = [node for node in walk(tree) if isinstance(node, nodes.Name)]
    try:
        free = _undeclared(tree)
    except (jinja2.TemplateError, RecursionError):
        # A filter or test that jinja2 does not know stops its own walk: take the loaded names then.
        free = {node.name for node in names if node.ctx == "load"}
    # A name that is set in one branch and read after it counts as free for jinja2. It is an input only
    # where the template also asks whether it was given.
    own = {node.name for node in names if node.ctx != "load"} - _asked_for(tree) - CALLER_VARIABLES
    free = free - GLOBALS - own
    fields = {
        name
        for node in walk(tree)
        if isinstance(node, nodes.Filter) and node.name in {"default", "d"} and (name := member(node.node))
    }
    return Inputs(variables=tuple(sorted(free)), fields=tuple(sorted(fields)))


class _Tracker(TrackingCodeGenerator):
    """Jinja's own search for free variables, without working anything out.

    As it comes it is a compiler: it would fold ``'x' * 10**9`` or a tower of powers into a constant here.
    """

    def __init__(self) -> None:
        super().__init__(_ENVIRONMENT)
        self.optimizer = None

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: object) -> str:
        del node, frame, finalize
        raise nodes.Impossible

    def visit_EvalContextModifier(  # noqa: N802 - the name jinja2 calls it by
        self, node: nodes.EvalContextModifier, frame: Frame
    ) -> None:
        """Leave the options of an ``autoescape`` block unread: they would be worked out, too."""

    def visit_ScopedEvalContextModifier(  # noqa: N802 - the name jinja2 calls it by
        self, node: nodes.ScopedEvalContextModifier, frame: Frame
    ) -> None:
        """Look into the body alone."""
        for child in node.body:
            self.visit(child, frame)


def _undeclared(tree: nodes.Template) -> set[str]:
    tracker = _Tracker()
    tracker.visit(tree)
    return tracker.undeclared_identifiers


def _asked_for(tree: nodes.Template) -> set[str]:
    """Names that are tested with ``is defined`` or have a default: what a caller may leave out."""
    asked = set()
    for node in walk(tree):
        match node:
            case nodes.Test(name="defined" | "undefined" | "none", node=nodes.Name(name=name)):
                asked.add(name)
            case nodes.Filter(name="default" | "d", node=nodes.Name(name=name)):
                asked.add(name)
            case _:
                pass
    return asked


def walk(root: nodes.Node) -> Iterator[nodes.Node]:
    """Every node below and with ``root``, without recursion, in document order."""
    stack: list[nodes.Node] = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(list(node.iter_child_nodes())))


def texts(root: nodes.Node) -> Iterator[str]:
    """Every literal text below a node: plain template text and string constants."""
    for node in walk(root):
        match node:
            case nodes.TemplateData():
                yield node.data
            case nodes.Const(value=str() as value):
                yield value
            case _:
                pass


class Known(dict[str, str]):
    """Names with a known string, and what has been found out with them about one tree's expressions.

    An expression is worked out once, so that a chain of filters costs its length and not the square of it.
    All that is assembled counts: a template that goes beyond `MAX_ASSEMBLED` raises Unexamined.
    """

    def __init__(self) -> None:
        super().__init__()
        self._worth: dict[int, str | None] = {}  # by the node's id: nodes compare, slowly, by their content
        self._assembled = 0

    def forget(self) -> None:
        """Work everything out anew: more names are known now."""
        self._worth.clear()

    def worth(self, node: nodes.Node | None) -> str | None:
        """See `constant`."""
        match node:
            case nodes.Const(value=str() as text) | nodes.TemplateData(data=text):
                return text if len(text) <= MAX_CONSTANT else None
            case nodes.Name(name=name):
                return self.get(name)
            case None:
                return None
            case _:
                pass
        if id(node) not in self._worth:
            self._worth[id(node)] = result = _assembled(node, self)
            self._assembled += len(result or "")
            if self._assembled > MAX_ASSEMBLED:
                raise Unexamined(f"it assembles more than {MAX_ASSEMBLED} characters of constants")
        return self._worth[id(node)]


def member(node: nodes.Node | None, known: Known | None = None) -> str | None:
    """The name in ``x.name`` or ``x['name']`` (also assembled), or None."""
    match node:
        case nodes.Getattr():
            return node.attr
        case nodes.Getitem():
            return constant(node.arg, known)
        case _:
            return None


def bindings(tree: nodes.Template) -> Known:
    """Names that are set to a string known beforehand, also one built of such names or taken from a list."""
    known = Known()
    for _ in range(_ROUNDS):
        size = len(known)
        for node in walk(tree):
            match node:
                case nodes.Assign(target=nodes.Name(name=name)):
                    if (text := constant(node.node, known)) is not None:
                        known.setdefault(name, text)
                case nodes.For(
                    target=nodes.Name(name=name), iter=nodes.List(items=items) | nodes.Tuple(items=items)
                ):
                    first = next((text for item in items if (text := constant(item, known)) is not None), None)
                    if first is not None:
                        known.setdefault(name, first)
                case _:
                    pass
        known.forget()
        if len(known) == size:
            break
    return known


def constant(node: nodes.Node | None, known: Known | None = None) -> str | None:
    """The string that an expression is always worth, also one assembled from pieces; None for any other.

    Nothing is known of a string of more than 10,000 characters.

    Args:
        node: The expression, of a tree that `parse` gave.
        known: Names with a known string (see `bindings`).

    Raises:
        Unexamined: What is assembled grows beyond all measure.

    """
    return (Known() if known is None else known).worth(node)


def _assembled(node: nodes.Node, known: Known) -> str | None:
    """The string that an expression of several parts is worth, unless it is longer than we follow."""
    worth = known.worth
    match node:
        case nodes.Add():
            return _joined([worth(node.left), worth(node.right)])
        case nodes.Concat():
            return _joined([worth(part) for part in node.nodes])
        case nodes.Mul(left=left, right=nodes.Const(value=int() as times)) if 0 <= times <= 100:
            return _joined([worth(left)] * times)
        case nodes.Filter(name="join", node=nodes.List(items=items) | nodes.Tuple(items=items)):
            between = worth(node.args[0]) if node.args else ""
            pieces = [worth(item) for item in items]
            return _joined([part for piece in pieces for part in (between or "", piece)][1:])
        case nodes.Filter(name="reverse" | "lower" | "upper" | "trim" | "string" | "safe" as name):
            return _filtered(name, worth(node.node))
        case nodes.Call(node=nodes.Getattr(node=inner, attr="replace"), args=[old, new]):
            whole, one, other = worth(inner), worth(old), worth(new)
            return None if whole is None or one is None or other is None else _replaced(whole, one, other)
        case nodes.Getitem(arg=nodes.Slice(start=None, stop=None, step=nodes.Neg(node=nodes.Const(value=1)))):
            return _filtered("reverse", worth(node.node))
        case _:
            return None


def _joined(pieces: list[str | None]) -> str | None:
    if None in pieces or sum(len(piece or "") for piece in pieces) > MAX_CONSTANT:
        return None
    return "".join(piece or "" for piece in pieces)


def _replaced(whole: str, one: str, other: str) -> str | None:
    """``whole.replace(one, other)``, measured before it is made."""
    size = len(whole) + whole.count(one) * (len(other) - len(one))
    return None if size > MAX_CONSTANT else whole.replace(one, other)


def _filtered(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    match name:
        case "reverse":
            return text[::-1]
        case "lower":
            return text.lower()
        case "upper":
            return text.upper()
        case "trim":
            return text.strip()
        case _:
            return text
