"""The ``exact`` profile: what the class named in ``architectures`` builds from this config.

config -> `Config` (typed, with class defaults) -> `Model` (a tree of counted nodes) -> totals -> memory,
cards, cost, remarks. A type or class that no architecture file declares is unsupported or partial, never a
guess.
"""

from __future__ import annotations

from collections.abc import Mapping

from storage.model import Estimate, EstimateStatus, Json
from tracker.estimate.activations import fitted
from tracker.estimate.adapters import linear_parameters, peft_parameters
from tracker.estimate.cards import HEADROOM, HEADROOM_REASON, batches, catalogue, smallest
from tracker.estimate.checkpoint import compare
from tracker.estimate.cost import training_cost
from tracker.estimate.interface import Checkpoint, EstimateOptions
from tracker.estimate.memory import (
    cache_bytes,
    forward_bytes,
    weight_bytes,
)
from tracker.estimate.model import Model
from tracker.estimate.plans import (
    serving_bytes,
    training_figures,
    uncertainty,
)
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.recipe import recipe_of
from tracker.estimate.registry import load
from tracker.estimate.structure import Totals, parameters_of, totals, walk, weight_of
from tracker.estimate.verify import CACHE_CONTEXT, Finding, config_findings, model_findings

VERSION = "2026.11"
TRAIN_TOKENS, SERVE_TOKENS = 2048, 4096
LARGEST_MODEL = 10**16  # parameters; every byte figure of a smaller model fits 64 bits
LARGEST_FIGURE = 2**63 - 1


class ExactEstimator:
    """Closed-form estimates that equal the class's own count."""

    name = "exact"
    version = VERSION

    def estimate(
        self, config: Json, *, checkpoint: Checkpoint | None = None, options: EstimateOptions | None = None
    ) -> Estimate:
        """Estimate one config; see `tracker.estimate.interface.Estimator`."""
        options = options or EstimateOptions()
        model_type, names = _identity(config)
        try:
            model, name, doubts = build(config, model_type, names)
            sums = counted(model)
            body = describe(model, sums, config, checkpoint, options)
        except ConfigError as error:
            return self._unsupported(config, str(error), model_type, names, checkpoint)
        except ArithmeticError as error:  # a size of zero that a class divides by, a ratio out of range
            reason = f"the sizes do not make a model: {error}"
            return self._unsupported(config, reason, model_type, names, checkpoint)
        return Estimate(
            estimator=self.name,
            version=self.version,
            status=EstimateStatus.PARTIAL if doubts else EstimateStatus.EXACT,
            source="closed_form",
            model_type=model_type,
            architecture=name,
            reason="; ".join(doubts)[:2000] or None,
            body=body,
        )

    def _unsupported(
        self, config: Json, reason: str, model_type: str | None, names: list[str], checkpoint: Checkpoint | None
    ) -> Estimate:
        found = config_findings(config) if isinstance(config, Mapping) else []
        counted = compare(None, checkpoint)
        return Estimate(
            estimator=self.name,
            version=self.version,
            status=EstimateStatus.UNSUPPORTED,
            source="checkpoint" if checkpoint is not None else "closed_form",
            model_type=model_type,
            architecture=names[0] if names else None,
            reason=reason,
            body={
                **counted,
                "parameters": {"total": None, "embedding": None, "head": None, "active": None},
                "findings": [item.as_json() for item in found],
            },
        )


def _identity(config: Json) -> tuple[str | None, list[str]]:
    """Model type and class names, as far as they are texts."""
    if not isinstance(config, Mapping):
        return None, []
    model_type, names = config.get("model_type"), config.get("architectures")
    listed = [name for name in names[:8] if isinstance(name, str)] if isinstance(names, list) else []
    return (model_type if isinstance(model_type, str) else None), listed


def counted(model: Model) -> Totals:
    """What a model adds up to; a ConfigError where that is nothing, or more than any model has."""
    sums = totals(model.root)
    if not 0 < sums.parameters <= LARGEST_MODEL:
        raise ConfigError("the sizes multiply to nothing, or to more than any model has")
    return sums


def build(config: Json, model_type: str | None, names: list[str]) -> tuple[Model, str, list[str]]:
    """Build the class a config names.

    Returns:
        The model, the class counted, and what makes the count less than exact.

    Raises:
        ConfigError: The type is not known, or a value it needs is missing or wrong.

    """
    if not isinstance(config, Mapping):
        raise ConfigError("the config is not an object")
    if model_type is None:
        raise ConfigError("the config names no model_type")
    architecture = load().get(model_type)
    if architecture is None:
        raise ConfigError(f"no architecture is declared for model_type {model_type[:80]!r}")
    doubts: list[str] = []
    name = names[0] if names else architecture.base
    if not names:
        doubts.append(f"the config names no class: {architecture.base} is counted")
    elif name not in architecture.classes:
        doubts.append(f"class {name[:80]!r} is not known for {model_type}: {architecture.base} is counted")
        name = architecture.base
    return architecture.classes[name](Config(config, doubts=doubts)), name, doubts


def multiply_adds(model: Model, sums: Totals, tokens: int) -> int:
    """Multiply-adds of one sample's forward pass: every weight once a token, scores and their use."""
    weights = sum(i * o * n for (i, o), n in sums.linears.items())
    weights += sum(node.active * times for _, node, times in walk(model.root) if node.active is not None)
    scores = 0
    for _, node, times in walk(model.root):
        if node.kind == "Attention" and node.dims is not None:
            scores += 2 * node.dims.query * min(tokens, node.dims.window or tokens) * times
    return tokens * (weights + scores)


def describe(
    model: Model, sums: Totals, config: Mapping[str, Json], checkpoint: Checkpoint | None, options: EstimateOptions
) -> dict[str, Json]:
    """The body of an estimate: every figure under the contract's keys."""
    context = model.context or SERVE_TOKENS
    train, serve = min(options.seq or TRAIN_TOKENS, context), min(options.seq or SERVE_TOKENS, context)
    recipe, batch = recipe_of(options), options.batch or 1
    model_type = config["model_type"]
    peft = peft_parameters(model, sums, model_type, recipe.rank)
    over_linear = linear_parameters(sums, recipe.rank)
    training = training_figures(model, sums, model_type, train, batch, recipe)
    weights = weight_bytes(sums.parameters, options.precision)
    cache = (
        cache_bytes(sums, serve, encoder_tokens=(model.encoder_tokens or serve) if model.encoder_decoder else 0)
        if model.generates
        else 0
    )
    each = cache or forward_bytes(model, sums, serve)
    head = weight_of(model.head)
    found = config_findings(config) + model_findings(
        model, config, cache_bytes(sums, CACHE_CONTEXT) if model.generates else 0
    )
    if not fitted(model):
        found.append(
            Finding(
                "activations-by-analogy",
                "info",
                "no activation formula was fitted for this family: training memory follows its nearest relative's",
                "measure a step before you rely on the last few percent",
            )
        )
    cards = batches(
        {**training.largest, "serve": lambda budget: max(0, int((budget - weights) // each)) if each else 0},
        headroom=HEADROOM,
        asked=options.card,
        split={**training.split, "serve": lambda budget: max(0, int((budget - weights / 2) // (each / 2 or 1)))},
    )
    body: dict[str, Json] = {
        "parameters": {
            "total": sums.parameters,
            "embedding": sums.embedding,
            "head": head,
            "active": sums.active,
            "by_kind": dict(sorted(sums.by_kind.items())),
            "components": components(model),
        },
        "lora": {"parameters": peft, "parameters_linear": over_linear},
        "memory": {
            **training.memory,
            "weights_bytes": weights,
            "kv_cache_bytes": cache,
        },
        "gradient_checkpointing": training.light,
        "needed_on_a_card": training.needed,
        "serving": serving_bytes(sums.parameters, checkpoint),
        "uncertainty": uncertainty(),
        "tokens": {"train": train, "serve": serve},
        "headroom": HEADROOM,
        "headroom_reason": HEADROOM_REASON,
        "cards": cards,
        "smallest_card": smallest(cards, batch),
        "cost": training_cost(multiply_adds(model, sums, train), sums.parameters, catalogue().price(options.card)),
        "structure": structure(model, context),
        "forward_pass": True,
        "layers": model.layers,
        "findings": [item.as_json() for item in found],
        **compare(sums.parameters, checkpoint, model, config),
    }
    if any(value > LARGEST_FIGURE for value in (*training.needed.values(), *body["memory"].values())):
        raise ConfigError("the sizes multiply to more memory than there is")
    return body


def components(model: Model) -> dict[str, int]:
    """Parameters of each top-level part."""
    parts: dict[str, int] = {}
    for child in model.root.children:
        inner = child.children if child.kind in ("Block", "Decoder", "Model") and child.children else (child,)
        for part in inner:
            name = f"{child.name}.{part.name}" if part is not child else child.name
            parts[name] = parts.get(name, 0) + parameters_of(part) * (child.times if part is not child else 1)
    return parts


def structure(model: Model, context: int) -> list[dict[str, Json]]:
    """One row a distinct node; ``count`` is how often it stands in the model."""
    rows: list[dict[str, Json]] = []
    width = model.hidden
    for path, node, times in walk(model.root):
        if not times or (node.kind in ("Block", "Model") and not node.own):
            continue
        width = node.width or width
        rows.append(
            {
                "name": path,
                "type": node.kind,
                "output_shape": f"1 x {context} x {width}",
                "parameters": parameters_of(node) // max(1, node.times),
                "count": times,
            }
        )
    return rows


ESTIMATOR = ExactEstimator()
