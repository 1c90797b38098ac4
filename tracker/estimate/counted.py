"""An estimate from a count that transformers made of its own class, for types without a closed form. Pure.

The count is what a child process answered (`tracker.probe.meta`); it is read as carefully as a config.
"""

from __future__ import annotations

from collections.abc import Mapping

from storage.model import Estimate, EstimateStatus, Json
from tracker.estimate.cards import HEADROOM, HEADROOM_REASON
from tracker.estimate.checkpoint import compare
from tracker.estimate.interface import Checkpoint, EstimateOptions
from tracker.estimate.memory import weight_bytes
from tracker.estimate.plans import serving_bytes
from tracker.estimate.verify import Finding, config_findings

LEAST_TRAINING = 20  # bytes a parameter: fp32 weights, gradients, both moments, and the copy of a foreach step
LARGEST = 10**16


def from_count(
    closed: Estimate,
    config: Mapping[str, Json],
    count: Mapping[str, Json],
    checkpoint: Checkpoint | None,
    options: EstimateOptions | None,
) -> Estimate:
    """The estimate that a count makes in place of an unsupported one; that one with the reason, if it is none.

    Args:
        closed: What the closed forms said.
        config: The config that was counted.
        count: The child's answer.
        checkpoint: What the published weights say of themselves.
        options: What was asked for.

    """
    total = _whole(count.get("total"))
    if not total:
        why = count.get("error") or f"building the class was cut off ({count.get('gap', 'died')})"
        return _because(closed, f"{closed.reason}; transformers: {why}")
    adapted, generates = _whole(count.get("adapted")), bool(count.get("generates"))
    experts = _whole(count.get("expert_parameters")) or 0
    doubts = []
    if not count.get("known"):
        doubts.append(f"the class named is not one of transformers for this type: {count.get('class')} is counted")
    precision = (options or EstimateOptions()).precision
    body: dict[str, Json] = {
        "parameters": {
            "total": total,
            "embedding": _whole(count.get("embedding")),
            "head": _whole(count.get("head")),
            "active": None if experts else total,
            "components": count.get("components"),
        },
        "lora": {"parameters": adapted, "parameters_linear": _whole(count.get("linear"))},
        "memory": {
            "full_finetune_bytes": None,
            "lora_bytes": None,
            "qlora_bytes": None,
            "weights_bytes": weight_bytes(total, precision),
            "kv_cache_bytes": None if generates else 0,
            "activation_bytes": None,
        },
        "serving": serving_bytes(total, checkpoint),
        "headroom": HEADROOM,
        "headroom_reason": HEADROOM_REASON,
        "cards": [],
        "structure": [{**row, "output_shape": None} for row in count.get("structure") or ()],
        "forward_pass": None,
        "layers": None,
        "findings": [item.as_json() for item in (_training(total), *config_findings(config))],
        **compare(total, checkpoint),
    }
    return Estimate(
        estimator=closed.estimator,
        version=f"{closed.version}+transformers-{count.get('transformers')}",
        status=EstimateStatus.PARTIAL if doubts else EstimateStatus.EXACT,
        source="transformers",
        model_type=closed.model_type,
        architecture=str(count.get("class"))[:200],
        reason="; ".join(doubts) or None,
        body=body,
    )


def _training(total: int) -> Finding:
    return Finding(
        "training-memory-unknown",
        "info",
        f"no activation formula for this class: a full fine-tune takes at least {LEAST_TRAINING * total:,} bytes "
        "for weights, gradients and AdamW, and what its activations add",
        "measure a step on the card you mean to use",
    )


def _because(closed: Estimate, reason: str) -> Estimate:
    return Estimate(
        estimator=closed.estimator,
        version=closed.version,
        status=closed.status,
        source=closed.source,
        model_type=closed.model_type,
        architecture=closed.architecture,
        reason=reason[:2000],
        body=closed.body,
    )


def _whole(value: Json) -> int | None:
    return value if type(value) is int and 0 <= value <= LARGEST else None
