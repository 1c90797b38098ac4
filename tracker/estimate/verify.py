"""Remarks on a config: what contradicts itself, what will hurt when it is served or trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from storage.model import Json
from tracker.estimate.model import Model
from tracker.estimate.structure import walk

DEEP = 8
WIDE_FFN, NARROW_FFN = 5.0, 2.0
HUGE_LINEAR = 10**9
CACHE_BUDGET = 4 * 10**9
CACHE_CONTEXT = 8192
LISTED = 4096  # layers looked at in a list


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark: a stable rule name, ``info``, ``warning`` or ``error``, what it is and what to do."""

    rule: str
    level: str
    message: str
    fix: str

    def as_json(self) -> dict[str, Json]:
        """The contract's object."""
        return asdict(self)


def attention_findings(layers: int) -> list[Finding]:
    """Remarks on a deep stack."""
    if layers < DEEP:
        return []
    message = f"{layers} attention layers add to one residual stream; a default initialisation grows with depth"
    fix = f"scale residual output projections: std 0.02 / sqrt(2 x {layers})"
    return [Finding("deep-attention-default-init", "info", message, fix)]


def _whole(config: Mapping[str, Json], *keys: str) -> int | None:
    """A positive whole number under one of these keys, or None; these rules never raise."""
    for key in keys:
        value = config.get(key)
        if type(value) is int and 0 < value < 10**12:
            return value
    return None


def _number(config: Mapping[str, Json], *keys: str) -> float | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12:
            return float(value)
    return None


def _brief(number: int) -> str:
    """A number as text; a huge one by its size (Python refuses to print the largest)."""
    return str(number) if number.bit_length() <= 64 else f"of {number.bit_length()} bits"


def _heads(c: Mapping[str, Json]) -> Iterator[Finding]:
    hidden = _whole(c, "hidden_size", "n_embd", "d_model")
    heads = _whole(c, "num_attention_heads", "n_head", "n_heads", "num_heads")
    kv = _whole(c, "num_key_value_heads", "num_kv_heads")
    dim = _whole(c, "head_dim", "d_kv")
    latent = _whole(c, "kv_lora_rank")
    if hidden and heads and not dim and not latent and hidden % heads:
        yield Finding(
            "head-dim-divisibility",
            "error",
            f"hidden size {hidden} does not divide into {heads} heads",
            "set head_dim, or a number of heads that divides the hidden size",
        )
    if heads and kv and kv > heads:
        yield Finding(
            "gqa-head-mismatch",
            "error",
            f"{kv} key-value heads for {heads} query heads",
            "num_key_value_heads is at most num_attention_heads",
        )
    elif heads and kv and heads % kv:
        yield Finding(
            "gqa-head-divisibility",
            "error",
            f"{heads} query heads do not divide into {kv} key-value groups",
            "choose num_key_value_heads that divides num_attention_heads",
        )


def _context(c: Mapping[str, Json]) -> Iterator[Finding]:
    scaling = c.get("rope_scaling") or c.get("rope_parameters")
    longest = _whole(c, "max_position_embeddings", "n_positions")
    if isinstance(scaling, Mapping) and longest:
        original = _whole(scaling, "original_max_position_embeddings") or _whole(
            c, "original_max_position_embeddings"
        )
        factor = _number(scaling, "factor")
        kind = scaling.get("rope_type", scaling.get("type"))
        stretched = kind in ("linear", "yarn")  # for llama3 and longrope the factor is no reach
        if original and factor and stretched and abs(original * factor - longest) > 0.01 * longest:
            reach = int(original * factor)
            yield Finding(
                "rope-scaling-context",
                "warning",
                f"rope scaling reaches {reach} tokens ({original} x {factor:g}), "
                f"max_position_embeddings says {longest}",
                "make max_position_embeddings and the scaling factor agree",
            )
    if "sliding_window" not in c or c["sliding_window"] is not None:
        return
    types = c.get("layer_types")
    named = isinstance(types, list) and "sliding_attention" in types[:LISTED]
    if named or c.get("use_sliding_window") is True:
        yield Finding(
            "sliding-window-null",
            "warning",
            f"{'layer_types names sliding attention' if named else 'use_sliding_window is true'}, "
            "but sliding_window is null",
            "give the window in tokens, or name no sliding attention",
        )


def _tokens(c: Mapping[str, Json], tokenizer_size: int | None) -> Iterator[Finding]:
    vocabulary = _whole(c, "vocab_size")
    if not vocabulary:
        return
    for key in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"):
        value = c.get(key)
        ids = value[:1024] if isinstance(value, list) else [value]
        outside = [i for i in ids if type(i) is int and not 0 <= i < vocabulary and i != -1]
        if outside:
            yield Finding(
                "token-id-outside-vocabulary",
                "warning" if key == "pad_token_id" else "error",
                f"{key} {_brief(outside[0])} is outside the vocabulary of {vocabulary}",
                "give an id below vocab_size, or enlarge the embedding",
            )
    if tokenizer_size and tokenizer_size > vocabulary:
        yield Finding(
            "vocabulary-smaller-than-tokenizer",
            "error",
            f"the tokenizer has {tokenizer_size} entries, the embedding {vocabulary}",
            "resize the embedding, or take the tokenizer that belongs to it",
        )


def _sizes(c: Mapping[str, Json]) -> Iterator[Finding]:
    for key in (
        "attention_dropout",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "dropout",
        "resid_pdrop",
    ):
        rate = _number(c, key)
        if rate is not None and rate > 0.65:
            yield Finding(
                "high-dropout",
                "warning",
                f"{key} is {rate:g}: most of each layer's output is dropped",
                "use 0 to 0.3",
            )
    sizes = _whole(c, "vocab_size"), _whole(c, "text_vocab_size", "lm_vocab_size")
    if sizes[0] and sizes[1] and sizes[0] != sizes[1]:
        yield Finding(
            "lm-head-vocab-mismatch",
            "info",
            f"two vocabulary sizes are given: {sizes[0]} and {sizes[1]}",
            "check which one the output layer has",
        )


def config_findings(config: Mapping[str, Json], *, tokenizer_size: int | None = None) -> list[Finding]:
    """Remarks on the config alone; nested text configs are read too. Never raises."""
    found: list[Finding] = []
    parts = [config]
    text = config.get("text_config")
    if isinstance(text, Mapping):
        parts.append(text)
    for part in parts:
        for rule in (_heads(part), _context(part), _tokens(part, tokenizer_size), _sizes(part)):
            found += [item for item in rule if item not in found]
    return found


def model_findings(model: Model, config: Mapping[str, Json], cache_at_8192: int) -> list[Finding]:
    """Remarks on what the config builds."""
    found: list[Finding] = []
    experts = [node for _, node, _ in walk(model.root) if node.kind == "MoE"]
    text = config.get("text_config")
    plain = text if isinstance(text, Mapping) else config
    if experts and not any(key in plain for key in ("router_aux_loss_coef", "aux_loss_alpha", "topk_method")):
        found.append(
            Finding(
                "moe-no-aux-loss",
                "info",
                "a mixture of experts whose config names no auxiliary loss",
                "set router_aux_loss_coef (or a router bias) when you train it",
            )
        )
    attentions = sum(times for _, node, times in walk(model.root) if node.kind == "Attention")
    found += attention_findings(attentions)
    if cache_at_8192 > CACHE_BUDGET:
        found.append(
            Finding(
                "kv-cache-context-budget",
                "warning",
                f"one sequence of {CACHE_CONTEXT} tokens takes {cache_at_8192 / 1e9:.1f} GB of cache",
                "serve shorter contexts, a quantized cache, or a model with fewer key-value heads",
            )
        )
    full = sum(
        times
        for _, node, times in walk(model.root)
        if node.kind == "Attention" and node.dims and node.cache and node.dims.key == node.dims.query
    )
    if model.generates and full >= 6 and model.hidden >= 2048 and not any(k in plain for k in ("kv_lora_rank",)):
        found.append(
            Finding(
                "full-mha-serving-cost",
                "info",
                f"{full} layers keep keys and values for every head",
                "grouped-query attention keeps the cache smaller",
            )
        )
    for path, node, _ in walk(model.root):
        if node.linear and node.own > HUGE_LINEAR:
            found.append(
                Finding(
                    "huge-linear-params",
                    "warning",
                    f"{path} alone holds {node.own / 1e9:.2f} billion parameters",
                    "split it, or tie it to the embedding",
                )
            )
            break
    ratio = next(
        (
            n.dims.ffn / n.dims.hidden
            for _, n, _ in walk(model.root)
            if n.kind == "MLP" and n.dims and n.dims.hidden and _is_gated(n.children)
        ),
        None,
    )
    if ratio is not None and not NARROW_FFN <= ratio <= WIDE_FFN:
        found.append(
            Finding(
                "swiglu-dim-convention",
                "info",
                f"the gated feed-forward is {ratio:.2f} times as wide as the hidden state",
                "8/3 is usual, 2 to 5 common",
            )
        )
    return found


def _is_gated(children: tuple[object, ...]) -> bool:
    names = [getattr(child, "name", "") for child in children]
    return any("gate" in name or name in ("Wi", "w3") for name in names)
