"""Published peak-memory measurements as questions to the estimator: which config, which options, which jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tracker.estimate.cards import catalogue
from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.interface import EstimateOptions

Row = Mapping[str, Any]
METHODS = {"full": "full", "LoRA": "lora", "QLoRA": "qlora"}
USES = {"full": "full_finetune", "lora": "lora", "qlora": "qlora"}
# What each family calls the matrices that tables name by their role.
FUSED = {"gpt_neox": ("query_key_value",), "falcon": ("query_key_value",), "phi3": ("qkv_proj",)}
ROLES = {
    "q,v": ("q_proj", "v_proj"),
    "query,value": ("q_proj", "v_proj"),
    "c_attn": ("q_proj", "k_proj", "v_proj"),
    "attn qkv": ("q_proj", "k_proj", "v_proj"),
}
EVERY_LINEAR = ("all-linear", "query,key,value,projection,mlp,head", "c_attn,attn.c_proj,w1,w2")
PACKED = {
    "bnb.nf4-dq": "nf4-dq",
    "bnb.nf4": "nf4",
    "bnb-nf4": "nf4",
    "nf4": "nf4",
    "bnb-int4": "nf4",
    "bnb.fp4": "nf4",
    "bnb.int8": "int8",
    "bnb-int8": "int8",
    "gptq-int4": "gptq-int4",
    "awq-int4": "gptq-int4",
    "gptq-int8": "gptq-int8",
}


def precision_of(row: Row) -> str:
    """How a run held its numbers, from its row and from how its source trains.

    litgpt says it itself (``bf16-true``), the PEFT benchmark too (no autocast). torchtune's bf16 is of weights and
    states. axolotl loads bf16 weights under the Trainer's autocast, and so do the runs noted as such. Qwen's
    scripts run full fine-tuning under DeepSpeed, with an fp32 copy of the weights, and QLoRA under DeepSpeed in
    half precision; its LoRA script runs the Trainer's autocast, as ms-swift does.
    """
    said, notes, source = row["precision"] or "", f"{row['note']} {row['optimizer']}", row["source"]
    if said.endswith("-true"):
        return str(said)
    if "no amp" in said or "torchtune" in source:
        return "bf16-no-amp"
    if "QwenLM" in source and row["method"] in ("full", "QLoRA"):
        return "bf16-master" if row["method"] == "full" else "bf16-no-amp"
    return "bf16-weights" if "bf16 weights" in notes or "axolotl" in source else "bf16"


def targets_of(row: Row, model_type: str) -> tuple[str, ...]:
    """The modules that adapters sit on, by the class's own names; none for every linear layer."""
    told = row["lora_targets"]
    if told is None or told in EVERY_LINEAR:
        return ()
    if told in ROLES:
        return FUSED.get(model_type, ROLES[told])
    return tuple(told.split(","))


def optimizer_of(row: Row) -> str:
    told = row["optimizer"] or ""
    if "8bit" in told:
        return "adamw-8bit"
    return "adamw-in-backward" if "in-bwd" in told else "adamw"


@dataclass(frozen=True)
class Run:
    """One measured run beside its estimate, in bytes."""

    row: Row
    config: Mapping[str, Any]
    precision: str | None = None  # in place of what is read from row and source

    @cached_property
    def method(self) -> str:
        """How it is estimated; LoRA on a packed base is what others call QLoRA."""
        return "qlora" if self.row["quant"] else METHODS[self.row["method"]]

    @cached_property
    def options(self) -> EstimateOptions:
        return EstimateOptions(
            seq=self.row["seq"],
            batch=self.row["batch"],
            precision=self.precision or precision_of(self.row),
            method=self.method,
            optimizer=optimizer_of(self.row),
            gradient_checkpointing=bool(self.row["grad_ckpt"]),
            lora_r=self.row["lora_r"] or 16,
            lora_targets=targets_of(self.row, self.config["model_type"]),
            quantization=PACKED.get(self.row["quant"], "nf4"),
        )

    @cached_property
    def _body(self) -> Mapping[str, Any]:
        longer = max(self.row["seq"], self.config.get("max_position_embeddings", 0))  # runs go past a context
        return ESTIMATOR.estimate({**self.config, "max_position_embeddings": longer}, options=self.options).body

    @property
    def step(self) -> int:
        """The bare step."""
        return int(self._body["memory"][f"{USES[self.method]}_bytes"])

    @property
    def needed(self) -> int:
        """What a card must have: the step in a training loop, with headroom."""
        return int(self._body["needed_on_a_card"][f"{USES[self.method]}_bytes"])

    @property
    def expected(self) -> float:
        """The peak expected: what is needed, without headroom."""
        return self.needed / float(self._body["headroom"])

    @property
    def measured(self) -> int | None:
        """The peak; None where the run ended out of memory."""
        return None if self.row["oom"] else self.row["peak_bytes"]

    @property
    def label(self) -> str:
        return f"{self.row['model']} {self.row['method']} {self.row['batch']} x {self.row['seq']}"


@dataclass(frozen=True)
class Job:
    """A run on a card of so many gigabytes: whether it fits, and whether the estimate says that it does not."""

    run: Run
    gb: int
    fits: bool

    def flagged(self, scale: float = 1.0) -> bool:
        return self.run.needed * scale > self.gb * 1e9


def jobs(runs: Iterable[Run]) -> list[Job]:
    """Every run on every card of the table that is known to hold it or not.

    A run does not fit on a card smaller than its measured peak; one that ended out of memory does not fit on its
    own card nor on a smaller one, and says nothing of larger ones.
    """
    found = []
    for run in runs:
        for card in catalogue().fit:
            if run.measured is not None:
                found.append(Job(run, card.gb, card.gb * 1e9 >= run.measured))
            elif card.gb <= run.row["gpu_gb"]:
                found.append(Job(run, card.gb, False))
    return found


def load(corpus: Path) -> tuple[list[Run], list[tuple[Row, str]]]:
    """The runs that are compared, and those that are not with the reason."""
    configs = known_configs(corpus)
    compared, left = [], []
    for row in _lines(corpus / "reference" / "estimators" / "measured.jsonl"):
        if reason := _why_not(row, configs):
            left.append((row, reason))
        else:
            compared.append(Run(row, configs[row["hf_id"]]))
    return compared, left


def _why_not(row: Row, configs: Mapping[str, Any]) -> str | None:
    if row["n_gpu"] != 1:
        return "several cards"
    if row["method"].startswith(("inference", "model init")):
        return "no training"
    if row["method"] not in METHODS:
        return "a method that is not estimated"
    if not row["batch"] or not row["seq"]:
        return "batch or sequence unknown"
    return None if row["hf_id"] in configs else "no config of this model at hand"


def known_configs(corpus: Path) -> dict[str, Mapping[str, Any]]:
    """Configs of the measured models: the corpus's, and published ones kept beside this file."""
    truth = _lines(corpus / "reference" / "estimators" / "truth.jsonl")
    found = {row["name"]: row["config"] for row in truth if row["which"] == "arch"}
    kept = json.loads(Path(__file__).with_name("models.json").read_text("utf-8"))
    return {name: item["config"] for name, item in kept.items()} | found


def stand_ins() -> dict[str, str]:
    """Models that are counted as another class, and why that is the same."""
    kept = json.loads(Path(__file__).with_name("models.json").read_text("utf-8"))
    return {name: item["note"] for name, item in kept.items() if item["note"]}


def _lines(path: Path) -> Sequence[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
