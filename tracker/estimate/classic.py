"""The ``classic`` profile: the published reference method, kept to reproduce its figures.

D hidden, I intermediate, L layers, V vocabulary, E experts, K routed a token, T training tokens =
min(2048, context), S serving tokens = min(4096, context), B batch. GB = 1e9 bytes. The method knows
multi-head attention with biases, one norm a layer and no head, whatever the class; so its count is near a
class's own and never called exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage.model import Estimate, EstimateStatus, Json
from tracker.estimate.cards import batches, catalogue
from tracker.estimate.checkpoint import compare
from tracker.estimate.cost import training_cost
from tracker.estimate.interface import Checkpoint, EstimateOptions
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.verify import Finding, attention_findings, config_findings

VERSION = "2026.11"
BYTES_PER_PARAMETER = 19.2  # 1.2 x 16: weights, gradients, two moments, and a fifth for copies
BYTES_PER_ELEMENT = 2.25
RANK = 16
HEADROOM = 1.15
LARGEST_FIGURE = 2**63 - 1
SHOWN = 4096  # nodes listed; a larger stack is cut, with a remark
GATED = frozenset({"silu", "swish", "swiglu", "geglu", "reglu", "glu"})
GATED_TYPES = frozenset({"modernbert", "gemma", "gemma2", "gemma3", "gemma3_text", "gte", "eurobert"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes the method works with."""

    vocabulary: int
    hidden: int
    inner: int
    layers: int
    heads: int
    gated: bool
    experts: int
    routed: int
    moe_every: int
    context: int

    @property
    def mixtures(self) -> int:
        """Layers that have experts."""
        return self.layers // self.moe_every if self.experts and self.moe_every else 0

    @property
    def dense(self) -> int:
        """Layers with one feed-forward."""
        return self.layers - self.mixtures


def read_shape(config: Json) -> Shape:
    """Read the sizes; raises ConfigError where one is missing or not a size."""
    if not isinstance(config, Mapping):
        raise ConfigError("the config is not an object")
    c = Config(config)
    if "text_config" in config and not c.given("hidden_size"):
        c = c.sub("text_config")
    hidden = c.whole("hidden_size", "n_embd", "d_model", "dim")
    kind = c.text("ffn", default="").lower()
    activation = c.text("hidden_activation", "hidden_act", "activation_function", default="").lower()
    gated = kind in GATED if kind else activation in GATED or c.model_type in GATED_TYPES
    experts = c.maybe("num_experts", "num_local_experts", "n_routed_experts") or 0
    every = c.maybe("moe_every_n_layers")
    return Shape(
        vocabulary=c.whole("vocab_size"),
        hidden=hidden,
        inner=c.maybe("intermediate_size", "n_inner", "ffn_dim", "d_ff") or 4 * hidden,
        layers=c.whole("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        heads=c.whole("num_attention_heads", "n_head", "n_heads", "num_heads"),
        gated=gated,
        experts=experts,
        routed=c.maybe("experts_per_token", "num_experts_per_tok", "moe_top_k") or (2 if experts else 0),
        moe_every=(1 if every is None else every) if experts else 0,
        context=c.maybe("context", "max_position_embeddings", "n_positions", "max_seq_len") or 2048,
    )


def parameters(s: Shape) -> int:
    """Embedding VD; a layer 4D^2+4D, 2D, and 3DI or 2DI+I+D or DE+2EDI."""
    d, i = s.hidden, s.inner
    dense = 3 * d * i if s.gated else 2 * d * i + i + d
    mixed = d * s.experts + 2 * s.experts * d * i
    return s.vocabulary * d + s.layers * (4 * d * d + 6 * d) + s.dense * dense + s.mixtures * mixed


def adapters(s: Shape) -> int:
    """LoRA at rank 16: q, k, v, o and the dense feed-forwards; none on experts."""
    d, i = s.hidden, s.inner
    dense = RANK * (d + i) * (3 if s.gated else 2)
    return s.layers * 4 * RANK * 2 * d + s.dense * dense


def activation_bytes(s: Shape) -> float:
    """Bytes a token: 2.25 for each element that the layers give out."""
    d, i = s.hidden, s.inner
    elements = d + s.layers * 7 * d + s.dense * (2 * i + d) + s.mixtures * (2 * s.routed * i + d + 2 * s.experts)
    return BYTES_PER_ELEMENT * elements


def multiply_adds(s: Shape, tokens: int) -> int:
    """Multiply-adds of one sample."""
    d, i, t = s.hidden, s.inner, tokens
    dense = t * (3 * d * i + i) if s.gated else 2 * t * d * i
    mixed = t * (d * s.experts + 2 * s.routed * d * i)
    return s.layers * (4 * t * d * d + t * t * d + 2 * t * d) + s.dense * dense + s.mixtures * mixed


def structure(s: Shape) -> list[dict[str, Json]]:
    """The node list, from Input to Output."""
    d, i = s.hidden, s.inner
    behind = f"1 x {s.context} x {d}"
    rows = [
        _row("Input", "Input", f"1 x {s.context}", 0),
        _row("Embedding", "Embedding", behind, s.vocabulary * d),
        _row("RoPE", "RoPE", behind, 0),
    ]
    for n in range(1, s.layers + 1):
        if len(rows) > SHOWN:
            break
        rows += [
            _row(f"Attention_{n}", "Multi-Head Attention", behind, 4 * d * d + 4 * d),
            _row(f"Add_{n}", "Add", behind, 0),
            _row(f"LayerNorm_{n}_1", "LayerNorm", behind, 2 * d),
        ]
        if s.mixtures and n % s.moe_every == 0:
            rows.append(_row(f"MoE_{n}", "MoE Layer", behind, d * s.experts + 2 * s.experts * d * i))
        elif s.gated:
            rows.append(_row(f"FFN_{n}", "GeGLU", behind, 3 * d * i))
        else:
            rows.append(_row(f"FFN_{n}", "Feed Forward", behind, 2 * d * i + i + d))
    rows.append(_row("Output", "Output", behind, 0))
    return rows


def _row(name: str, kind: str, shape: str, count: int) -> dict[str, Json]:
    return {"name": name, "type": kind, "output_shape": shape, "parameters": count}


def findings(s: Shape, config: Mapping[str, Json]) -> list[Finding]:
    """The verifier's remarks on the sizes."""
    found: list[Finding] = []
    if s.mixtures:
        found.append(
            Finding(
                "moe-no-aux-loss",
                "info",
                "a mixture of experts without an auxiliary loss lets a few experts take all tokens",
                "add a load-balancing loss, or a router bias that does the same",
            )
        )
    found += attention_findings(s.layers)
    return found + config_findings(config)


def _nothing(checkpoint: Checkpoint | None) -> dict[str, Json]:
    """The body where nothing could be counted."""
    none = {"total": None, "embedding": None, "head": None, "active": None}
    return {**compare(None, checkpoint), "parameters": none, "findings": []}


class ClassicEstimator:
    """The reference method as an `Estimator`."""

    name = "classic"
    version = VERSION

    def estimate(
        self, config: Json, *, checkpoint: Checkpoint | None = None, options: EstimateOptions | None = None
    ) -> Estimate:
        """Estimate by the reference method; unsupported, with the reason, where a size is missing."""
        options = options or EstimateOptions()
        try:
            shape = read_shape(config)
            body = _body(shape, config, checkpoint, options)
            if (
                body["memory"]["full_finetune_bytes"] > LARGEST_FIGURE
                or body["memory"]["kv_cache_bytes"] > LARGEST_FIGURE
            ):
                raise ConfigError("the sizes multiply to more memory than there is")  # noqa: TRY301
        except ConfigError as error:
            return self._result(config, EstimateStatus.UNSUPPORTED, str(error), _nothing(checkpoint))
        return self._result(config, EstimateStatus.PARTIAL, "the reference method counts every model alike", body)

    def _result(self, config: Json, status: EstimateStatus, reason: str, body: Mapping[str, Json]) -> Estimate:
        model_type = config.get("model_type") if isinstance(config, Mapping) else None
        names = config.get("architectures") if isinstance(config, Mapping) else None
        first = names[0] if isinstance(names, list) and names else None
        return Estimate(
            estimator=self.name,
            version=self.version,
            status=status,
            source="closed_form",
            model_type=model_type if isinstance(model_type, str) else None,
            architecture=first if isinstance(first, str) else None,
            reason=reason,
            body=body,
        )


def _body(
    s: Shape, config: Mapping[str, Json], checkpoint: Checkpoint | None, options: EstimateOptions
) -> dict[str, Json]:
    train, serve = min(options.seq or 2048, s.context), min(options.seq or 4096, s.context)
    count, lora, each = parameters(s), adapters(s), activation_bytes(s) * train
    full, tuned = BYTES_PER_PARAMETER * count, 2 * count + BYTES_PER_PARAMETER * lora
    cache = 2 * s.layers * s.hidden * 2 * serve
    batch = options.batch or 1
    return {
        "parameters": {
            "total": count,
            "embedding": s.vocabulary * s.hidden,
            "head": 0,
            "active": count - s.mixtures * 2 * max(0, s.experts - s.routed) * s.hidden * s.inner,
        },
        "lora": {"parameters": lora, "parameters_linear": lora},
        "memory": {
            "full_finetune_bytes": int(full + batch * each),
            "lora_bytes": int(tuned + batch * each),
            "weights_bytes": 2 * count,
            "kv_cache_bytes": cache,
            "activation_bytes": int(batch * each),
        },
        "tokens": {"train": train, "serve": serve},
        "headroom": HEADROOM,
        "headroom_reason": "the reference method's own",
        "cards": batches(
            {
                "full_finetune": lambda budget: max(0, int((budget - full) // each)),
                "lora": lambda budget: max(0, int((budget - tuned) // each)),
                "serve": lambda budget: max(0, int((budget - 2 * count) // cache)),
            },
            headroom=HEADROOM,
            asked=options.card,
        ),
        "cost": training_cost(multiply_adds(s, train), count, catalogue().price(options.card)),
        "structure": structure(s),
        "forward_pass": True,
        "layers": 2 + 4 * s.layers,
        "findings": [item.as_json() for item in findings(s, config)],
        **compare(count, checkpoint),
    }


ESTIMATOR = ClassicEstimator()
