"""A model as a tree of typed nodes. Repeated blocks are counted, not expanded.

A tree mirrors the module tree of the class it stands for, under the same names, so that a node's path
with ``*`` for the layer index is the prefix of its tensors. A billion layers cost what one costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What one attention or recurrent block keeps while generating.

    ``elements`` grow with every token (keys and values; a latent for MLA), up to ``window`` tokens if that
    is set. ``state`` elements are kept once a sequence. ``cross`` elements are kept per encoder token.
    """

    elements: int = 0
    window: int | None = None
    state: int = 0
    cross: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dims:
    """The sizes that decide what a layer keeps for backward, by the letters of the formulas.

    ``hidden`` H, ``query`` Q, ``key`` KV (heads x head_dim), ``ffn`` F, ``heads`` nh, ``routed`` k experts
    a token, ``window`` tokens (None: full attention).
    """

    hidden: int
    query: int = 0
    key: int = 0
    ffn: int = 0
    heads: int = 0
    routed: int = 0
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """One module, or one bare parameter.

    ``own`` scalars are its own, without its children's; ``shared`` are tied to another node and counted
    there. ``times`` is how often the node stands in its parent. ``active`` is how many of ``own`` one token
    uses (None: all). ``linear`` is (in, out) of each matrix a LoRA adapter can sit on, ``fused`` likewise
    for 3-D expert tensors (experts, in, out). ``width`` is the last dimension of what it gives out.
    """

    name: str
    kind: str
    own: int = 0
    shared: int = 0
    times: int = 1
    active: int | None = None
    width: int | None = None
    linear: tuple[int, int] | None = None
    fused: tuple[tuple[int, int, int, int], ...] = ()
    adaptable: bool = True
    cache: Cache | None = None
    dims: Dims | None = None
    formula: str | None = None
    children: tuple[Node, ...] = ()


Part = Node | None  # a part that a flag leaves out is None


def block(
    name: str,
    *parts: Part,
    times: int = 1,
    kind: str = "Block",
    cache: Cache | None = None,
    dims: Dims | None = None,
    formula: str | None = None,
    width: int | None = None,
) -> Node:
    """A module made of others; None parts are left out."""
    return Node(
        name=name,
        kind=kind,
        times=times,
        cache=cache,
        dims=dims,
        formula=formula,
        width=width,
        children=tuple(part for part in parts if part is not None),
    )


def linear(
    name: str, inputs: int, outputs: int, bias: bool = False, *, times: int = 1, adaptable: bool = True
) -> Node:
    """``nn.Linear`` (or a Conv1D, its transpose): in x out, and out for the bias."""
    return Node(
        name=name,
        kind="Linear",
        own=inputs * outputs + (outputs if bias else 0),
        times=times,
        width=outputs,
        linear=(inputs, outputs),
        adaptable=adaptable,
    )


def embedding(name: str, rows: int, width: int, *, times: int = 1) -> Node:
    """``nn.Embedding``: rows x width."""
    return Node(name=name, kind="Embedding", own=rows * width, width=width, times=times)


def norm(name: str, width: int, bias: bool = False, *, times: int = 1, kind: str | None = None) -> Node:
    """A norm with a weight vector, and a bias vector if asked: RMSNorm without, LayerNorm with."""
    label = kind or ("LayerNorm" if bias else "RMSNorm")
    return Node(name=name, kind=label, own=width * (2 if bias else 1), width=width, times=times)


def conv(
    name: str, inputs: int, outputs: int, *kernel: int, bias: bool = True, groups: int = 1, times: int = 1
) -> Node:
    """A convolution of any rank: outputs x inputs/groups x kernel."""
    own = outputs * (inputs // groups) * prod(kernel) + (outputs if bias else 0)
    return Node(name=name, kind=f"Conv{len(kernel)}d", own=own, width=outputs, times=times)


def parameter(name: str, *shape: int, times: int = 1) -> Node:
    """A bare ``nn.Parameter``."""
    return Node(name=name, kind="Parameter", own=prod(shape), width=shape[-1] if shape else None, times=times)


def experts(
    name: str,
    count: int,
    routed: int,
    matrices: tuple[tuple[int, int], ...],
    *,
    bias: bool = False,
    times: int = 1,
    ranks: tuple[int, ...] = (),
) -> Node:
    """Fused experts: one 3-D tensor for each (in, out) of ``matrices``, of which a token uses ``routed``.

    ``ranks`` is how many times the LoRA rank PEFT gives each tensor (2 for a fused gate and up).
    """
    one = sum(i * o + (o if bias else 0) for i, o in matrices)
    multiples = ranks or (1,) * len(matrices)
    return Node(
        name=name,
        kind="Experts",
        own=count * one,
        active=min(routed, count) * one,
        times=times,
        width=matrices[-1][1],
        fused=tuple((count, i, o, m) for (i, o), m in zip(matrices, multiples, strict=True)),
    )


def tied(name: str, inputs: int, outputs: int, bias: bool = False, *, shared_bias: bool = False) -> Node:
    """An output projection that is the embedding again: only its bias is new (unless that is shared too)."""
    own = outputs if bias and not shared_bias else 0
    whole = inputs * outputs + (outputs if bias else 0)
    return Node(
        name=name,
        kind="Linear",
        own=own,
        shared=whole - own,
        width=outputs,
        linear=(inputs, outputs),
        adaptable=False,
    )


@dataclass(slots=True)
class Totals:
    """What a tree adds up to."""

    parameters: int = 0
    active: int = 0
    embedding: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    linears: Counter[tuple[int, int]] = field(default_factory=Counter)
    adapted: Counter[tuple[int, int]] = field(default_factory=Counter)
    fused: Counter[tuple[int, int, int, int]] = field(default_factory=Counter)
    growing: int = 0
    windows: Counter[int] = field(default_factory=Counter)
    state: int = 0
    cross: int = 0
    attention_layers: int = 0


def totals(root: Node) -> Totals:
    """Add a tree up, each node times the repeats above it."""
    sums = Totals()
    _add(root, 1, sums)
    return sums


def _add(node: Node, times: int, sums: Totals) -> None:
    times *= node.times
    if not times:
        return
    if node.own:
        sums.parameters += node.own * times
        sums.active += (node.own if node.active is None else node.active) * times
        sums.by_kind[node.kind] += node.own * times
    if node.kind == "Embedding":
        sums.embedding += node.own * times
    if node.linear is not None:
        sums.linears[node.linear] += times
        if node.adaptable:
            sums.adapted[node.linear] += times
    if node.fused:
        for tensor in node.fused:
            sums.fused[tensor] += times
    cache = node.cache
    if cache is not None:
        sums.attention_layers += times if cache.elements else 0
        sums.state += cache.state * times
        sums.cross += cache.cross * times
        if cache.window is None:
            sums.growing += cache.elements * times
        else:
            sums.windows[cache.window] += cache.elements * times
    for child in node.children:
        _add(child, times, sums)


def parameters_of(node: Node) -> int:
    """Parameters of a part with its repeats: `totals` without everything else."""
    return node.times * (node.own + sum(parameters_of(child) for child in node.children))


def weight_of(node: Node | None) -> int:
    """Scalars of a part, tied ones included."""
    if node is None:
        return 0
    return (node.own + node.shared + sum(weight_of(child) for child in node.children)) * node.times


def walk(root: Node) -> Sequence[tuple[str, Node, int]]:
    """Every node with its dotted path and how often it stands in the whole model."""
    return _walked(root)


@lru_cache(maxsize=4)  # one estimate asks a dozen times for one tree
def _walked(root: Node) -> tuple[tuple[str, Node, int], ...]:
    return tuple(_walk(root, "", 1))


def _walk(root: Node, path: str, times: int) -> Iterator[tuple[str, Node, int]]:
    times *= root.times
    here = f"{path}.{root.name}" if path and root.name else path or root.name
    yield here, root, times
    for child in root.children:
        yield from _walk(child, here, times)
