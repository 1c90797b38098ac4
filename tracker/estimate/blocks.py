"""Building blocks that families share: attention, latent attention, feed-forward, mixtures."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.structure import Cache, Dims, Node, Part, block, experts, linear, norm


def gqa(
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *extra: Part,
    q_bias: bool = False,
    k_bias: bool = False,
    o_bias: bool = False,
    fused: str = "",
    query: str = "q_proj",
    out: str = "o_proj",
    window: int | None = None,
    times: int = 1,
    name: str = "self_attn",
    cached: bool = True,
    cross: bool = False,
    value_dim: int = 0,
) -> Node:
    """Grouped-query attention: q of heads x head_dim, k and v of kv_heads x head_dim, and the way out.

    Of the arguments:
        fused: The name of one matrix for q, k and v together; "" for three.
        query: The name of the query matrix, from which those of key and value follow.
        cross: Keys and values come from an encoder: cached once an encoder token.
        value_dim: Head size of the values where it differs.

    """
    q, k, v = heads * head_dim, kv_heads * head_dim, kv_heads * (value_dim or head_dim)
    if fused:
        parts: list[Part] = [linear(fused, hidden, q + k + v, q_bias)]
    else:
        parts = [
            linear(query, hidden, q, q_bias),
            linear(query.replace("q", "k", 1).replace("kuery", "key"), hidden, k, k_bias),
            linear(query.replace("q", "v", 1).replace("vuery", "value"), hidden, v, q_bias),
        ]
    cache = Cache(cross=k + v) if cross else Cache(elements=k + v, window=window)
    return block(
        name,
        *parts,
        linear(out, heads * (value_dim or head_dim), hidden, o_bias) if out else None,
        *extra,
        times=times,
        kind="Attention",
        cache=cache if cached else None,
        dims=Dims(hidden=hidden, query=q, key=k, heads=heads, window=window),
        width=hidden,
    )


def mla(c: Config, *extra: Part, bias: bool = False, times: int = 1, name: str = "self_attn") -> Node:
    """Multi-head latent attention (DeepSeek-V2): low-rank queries, one cached latent and one rotary key."""
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    rope, nope, value = c["qk_rope_head_dim"], c.whole("qk_nope_head_dim", minimum=0), c["v_head_dim"]
    latent, rank = c["kv_lora_rank"], c.maybe("q_lora_rank")
    if c.given("qk_head_dim") and c.value("qk_head_dim") != nope + rope:
        raise ConfigError(f"{c.path}qk_head_dim is not qk_nope_head_dim + qk_rope_head_dim")
    queries: list[Part]
    if rank is not None:
        queries = [
            linear("q_a_proj", hidden, rank, bias),
            norm("q_a_layernorm", rank),
            linear("q_b_proj", rank, heads * (nope + rope)),
        ]
    else:
        queries = [linear("q_proj", hidden, heads * (nope + rope))]
    return block(
        name,
        *queries,
        linear("kv_a_proj_with_mqa", hidden, latent + rope, bias),
        norm("kv_a_layernorm", latent),
        linear("kv_b_proj", latent, heads * (nope + value)),
        linear("o_proj", heads * value, hidden, bias),
        *extra,
        times=times,
        kind="Attention",
        cache=Cache(elements=latent + rope),
        dims=Dims(hidden=hidden, query=heads * (nope + rope), key=heads * (nope + rope), heads=heads),
        width=hidden,
    )


def gated(
    hidden: int,
    width: int,
    bias: bool = False,
    *extra: Part,
    fused: bool = False,
    names: Sequence[str] = ("gate_proj", "up_proj", "down_proj"),
    name: str = "mlp",
    times: int = 1,
) -> Node:
    """A gated feed-forward: gate and up (in one matrix if fused), then down."""
    gate, up, down = names
    inputs = (
        [linear("gate_up_proj", hidden, 2 * width, bias)]
        if fused
        else [linear(gate, hidden, width, bias), linear(up, hidden, width, bias)]
    )
    dims = Dims(hidden=hidden, ffn=width)
    return block(
        name, *inputs, linear(down, width, hidden, bias), *extra, times=times, kind="MLP", dims=dims, width=hidden
    )


def plain(
    hidden: int,
    width: int,
    bias: bool = True,
    *extra: Part,
    names: Sequence[str] = ("fc1", "fc2"),
    name: str = "mlp",
    times: int = 1,
) -> Node:
    """A feed-forward of two matrices."""
    up, down = names
    return block(
        name,
        linear(up, hidden, width, bias),
        linear(down, width, hidden, bias),
        *extra,
        times=times,
        kind="MLP",
        dims=Dims(hidden=hidden, ffn=width),
        width=hidden,
    )


def routed(
    count: int,
    used: int,
    hidden: int,
    width: int,
    *,
    bias: bool = False,
    is_gated: bool = True,
    name: str = "experts",
) -> Node:
    """Fused experts as transformers 5 keeps them: gate and up in one 3-D tensor, down in another.

    PEFT gives the fused gate and up twice the rank, for it stands for two matrices.
    """
    first = 2 * width if is_gated else width
    return experts(
        name,
        count,
        used,
        ((hidden, first), (width, hidden)),
        bias=bias,
        ranks=(2 if is_gated else 1, 1),
    )


def router(hidden: int, count: int, name: str = "gate", *, bias: bool = False) -> Node:
    """A router that is a bare weight and no ``nn.Linear``."""
    return experts(name, 1, 1, ((hidden, count),), bias=bias)


def mixture(hidden: int, *parts: Part, times: int = 1, name: str = "mlp", width: int = 0, used: int = 0) -> Node:
    """A mixture layer: router, experts, shared expert."""
    dims = Dims(hidden=hidden, ffn=width, routed=used)
    return block(name, *parts, times=times, kind="MoE", dims=dims, width=hidden)


def shared_mlp(c: Config, times: int) -> Part:
    """Granite's shared feed-forward: gate and up in one matrix; none at a width of 0."""
    hidden, inner = c["hidden_size"], c.whole("shared_intermediate_size", minimum=0)
    if not inner:
        return None
    return block(
        "shared_mlp",
        linear("input_linear", hidden, 2 * inner),
        linear("output_linear", inner, hidden),
        times=times,
        kind="MLP",
        dims=Dims(hidden=hidden, ffn=inner),
        width=hidden,
    )


def layer_types(c: Config, key: str = "layer_types") -> Sequence[str]:
    """The config's own list of layer kinds, checked against the layer count; empty where it gives none."""
    types = c.items(key, default=None)
    if not types:
        return ()
    total = c["num_hidden_layers"]
    if len(types) != total or not all(isinstance(kind, str) for kind in types):
        raise ConfigError(f"{c.path}{key} names {len(types)} layers, num_hidden_layers is {total}")
    return types


def sliding(c: Config) -> int:
    """How many layers keep a window only, as a transformers cache decides it.

    By ``layer_types`` where there are any; else every layer, if the config has a window.
    """
    types = layer_types(c)
    if types:
        return sum(kind in ("sliding_attention", "chunked_attention") for kind in types)
    return c["num_hidden_layers"] if window_of(c) else 0


def window_of(c: Config) -> int | None:
    """The window in tokens, or None."""
    return c.maybe("sliding_window", "attention_chunk_size", minimum=0) or None
