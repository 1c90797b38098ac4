"""LoRA parameters, as PEFT's ``all-linear`` makes them and over ``nn.Linear`` alone.

An adapter on a matrix of (in, out) has r(in + out) parameters. ``all-linear`` leaves the output layer alone.
For the mixture types below, whose experts became 3-D tensors in transformers 5, PEFT 0.21 translates the old
names of a target list: experts and router get adapters (a fused gate and up at twice the rank), and plain
matrices that bear an expert's name (``gate_proj`` of a shared expert or a dense layer) lose theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from tracker.estimate.model import Model
from tracker.estimate.structure import Totals, walk

RANK: Final = 16
_MIXTRAL: Final = frozenset({"w1", "w2", "w3"})
_QWEN: Final = frozenset({"gate_proj", "up_proj", "down_proj"})
TRANSLATED: Final[Mapping[str, frozenset[str]]] = dict.fromkeys(
    ("mixtral", "minimax", "minimax_m2"), _MIXTRAL
) | dict.fromkeys(
    (
        "afmoe",
        "beam",
        "cohere2_moe",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "dots1",
        "ernie4_5_moe",
        "exaone_moe",
        "flex_olmo",
        "glm4_moe",
        "glm4_moe_lite",
        "glm4v_moe",
        "glm_moe_dsa",
        "hunyuan_v1_moe",
        "longcat_flash",
        "mellum",
        "olmoe",
        "qwen2_moe",
        "qwen3_moe",
        "qwen3_next",
        "qwen3_omni_moe",
        "sarvam_mla",
        "solar_open",
    ),
    _QWEN,
)


REFUSED: Final = frozenset({"mamba", "mamba2", "falcon_mamba"})  # PEFT raises on their out_proj


def linear_parameters(sums: Totals, rank: int = RANK) -> int:
    """Adapter parameters over ``nn.Linear`` (and GPT-2's transposed kind) without the output layer."""
    return sum(rank * (i + o) * n for (i, o), n in sums.adapted.items())


def targeted(model: Model, targets: frozenset[str]) -> Counter[tuple[int, int]]:
    """The matrices whose module is named by one of these: its own name (``q_proj``) or the end of its path."""
    found: Counter[tuple[int, int]] = Counter()
    for path, node, times in walk(model.root):
        if node.linear is not None and any(path == name or path.endswith("." + name) for name in targets):
            found[node.linear] += times
    return found


def peft_parameters(model: Model, sums: Totals, model_type: str, rank: int = RANK) -> int | None:
    """Adapter parameters that ``LoraConfig(target_modules="all-linear")`` makes; None where PEFT refuses."""
    if model_type in REFUSED:
        return None
    dropped = TRANSLATED.get(model_type)
    count = rank * sum(model.head.linear) if model.head_adapted and model.head and model.head.linear else 0
    if dropped is None:
        return count + linear_parameters(sums, rank)
    for _, node, times in walk(model.root):
        leaf = node.name.rpartition(".")[2]
        if node.linear is not None and node.adaptable and leaf not in dropped:
            count += rank * sum(node.linear) * times
        elif node.fused and leaf in ("experts", "gate"):
            count += sum(rank * multiple * n * (i + o) for n, i, o, multiple in node.fused) * times
    return count
