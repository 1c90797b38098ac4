"""How long an estimate takes, and how long accelerate's count on the meta device of the same configs."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tracker.estimate.exact import ESTIMATOR

Row = tuple[str, str, str, bool]
ROOT = Path(__file__).resolve().parents[2]
CONFIGS = 20
ROUNDS = 15
MILLISECONDS = 1.0
TIMES = 1000
POPULAR = (
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen2.5-7B",
    "mistralai/Mixtral-8x7B-v0.1",
    "google/gemma-3-27b-it",
    "microsoft/phi-4",
    "deepseek-ai/DeepSeek-V3",
    "openai/gpt-oss-120b",
    "openai-community/gpt2",
    "bigscience/bloom-560m",
    "tiiuae/falcon-7b",
    "facebook/opt-1.3b",
    "EleutherAI/pythia-160m",
    "google-bert/bert-base-uncased",
    "answerdotai/ModernBERT-base",
    "google-t5/t5-large",
    "openai/whisper-small",
    "google/vit-base-patch16-224",
    "ai21labs/Jamba-v0.1",
    "state-spaces/mamba-130m-hf",
)


def main() -> Iterator[Row]:
    """Measure; the side-by-side needs accelerate and transformers."""
    configs = list(_configs())
    ours, right = _measured(lambda config: int(ESTIMATOR.estimate(config).body["parameters"]["total"]), configs)
    median = statistics.median(ours) * 1000
    yield (
        f"an estimate, {len(configs)} configs",
        f"median {median:.2f} ms, slowest {max(ours) * 1000:.2f} ms{_told(right, configs)}",
        f"median < {MILLISECONDS:.0f} ms",
        median < MILLISECONDS,
    )
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers", "accelerate")):
        yield "accelerate on the same configs", "not installed here", f">= {TIMES:,} times slower", True
        return
    theirs, right = _measured(count_with_accelerate, configs, rounds=1)
    yield (
        "accelerate on the same configs, imports done",
        f"median {statistics.median(theirs):.2f} s{_told(right, configs)}",
        f"{statistics.median(theirs) * 1000 / median:,.0f} times an estimate",
        True,
    )
    cold, _ = _measured(_as_a_command, configs, rounds=1)
    ratio = statistics.median(cold) * 1000 / median
    yield (
        "accelerate on the same configs, as a command",
        f"median {statistics.median(cold):.2f} s, {ratio:,.0f} times an estimate",
        f">= {TIMES:,} times",
        ratio >= TIMES,
    )


def _configs() -> Iterator[tuple[dict[str, Any], int | None]]:
    """Popular configs with their classes' own counts, from the corpus; else those of the golden cases."""
    corpus = Path(os.environ.get("HUBWATCH_CORPUS") or ROOT.parent / "shared")
    truth = corpus / "reference" / "estimators" / "truth.jsonl"
    if truth.is_file():
        rows = (json.loads(line) for line in truth.read_text("utf-8").splitlines())
        found = {row["name"]: row for row in rows if row["which"] == "arch"}
        for name in POPULAR:
            yield found[name]["config"] | {"architectures": [found[name]["class"]]}, found[name]["params_total"]
        return
    for path in sorted((ROOT / "tests" / "golden" / "estimate").glob("*/config.json"))[:CONFIGS]:
        yield json.loads(path.read_text("utf-8")), None


def _measured(
    count: Callable[[dict[str, Any]], int], configs: list[tuple[dict[str, Any], int | None]], rounds: int = ROUNDS
) -> tuple[list[float], int]:
    """The median seconds of each config, and how many counts are the class's own."""
    taken, right = [], 0
    for config, total in configs:
        seconds = []
        for _ in range(rounds):
            began = time.perf_counter()
            found = count(config)
            seconds.append(time.perf_counter() - began)
        right += found == total
        taken.append(statistics.median(seconds))
    return taken, right


def _told(right: int, configs: list[tuple[dict[str, Any], int | None]]) -> str:
    known = sum(total is not None for _, total in configs)
    return f", exact on {right} of {known}" if known else ""


def count_with_accelerate(config: dict[str, Any]) -> int:
    """Count as ``accelerate estimate-memory`` does: the class under ``init_empty_weights``."""
    accelerate = importlib.import_module("accelerate")
    torch = importlib.import_module("torch")
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    given = {key: value for key, value in config.items() if key != "model_type"}
    built = transformers.AutoConfig.for_model(config["model_type"], **given)
    try:
        with accelerate.init_empty_weights():
            model = getattr(transformers, config["architectures"][0])._from_config(built, dtype=torch.float32)
    except RuntimeError:  # a tensor that is made before it is moved, and is too large for this machine
        return 0
    return sum(parameter.numel() for parameter in model.parameters())


def _as_a_command(config: dict[str, Any]) -> int:
    """The same in a process of its own, as that tool runs."""
    code = (
        "import json, sys; from tests.bench.bench_estimate import count_with_accelerate; "
        "print(count_with_accelerate(json.load(sys.stdin)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(config),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return int(done.stdout.split()[-1])
