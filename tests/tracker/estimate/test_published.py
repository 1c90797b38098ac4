"""Published counts of real models: equal to the class's own, or the difference is told in words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.model import Estimate, EstimateStatus
from tracker.estimate.checkpoint import compare
from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.interface import Checkpoint

pytestmark = pytest.mark.corpus
# Published counts that are no count of this config, and what they are instead.
NOT_THIS_CONFIG = {
    "configs/mlc__qwen2_0_5b": "fewer than the file holds: 494,032,768 by its headers",
    "configs/mlc__smollm_360m": "fewer than the embedding and its layers: an odd number for sizes that are "
    "all even",
    "configs/facebook__opt-1.3b": "the config names its width d_model, which the class does not read",
    "configs/nvidia__Nemotron-H-56B-Base-8K": "96 billion for a model its makers call 56",
    "configs/nvidia__DeepSeek-V3.2-NVFP4": "packed to four bits; the config does not say so",
    "configs/nvidia__GLM-5-NVFP4": "packed to four bits; the config does not say so",
    "configs/togethercomputer__RedPajama-INCITE-7B-Base": "masks of one byte and frequencies of four, taken "
    "for two",
    "configs/google-bert__bert-base-uncased": "the size of a file that holds a pooler and a next-sentence "
    "head too",
    "configs/sentence-transformers__all-MiniLM-L6-v2": "512 position ids",
    "configs/meta-llama__Llama-4-Maverick-17B-128E-Instruct": "a vision part counted otherwise",
}
# Sizes of files divided by four: the header counts, up to one in a thousand.
HEADER = 1e-3


def published(corpus: Path) -> Iterator[tuple[str, bool, int, Estimate]]:
    """Path, whether the count is a file's size, the count, and the estimate beside it."""
    items = json.loads((corpus / "corpus" / "INDEX.json").read_text("utf-8"))["items"]
    for item in items:
        count: dict[str, Any] = item.get("parameters") or {}
        if (
            item["kind"] != "config"
            or not count
            or count.get("rounded")
            or not isinstance(count.get("value"), int)
        ):
            continue
        if (item.get("hf_parameters") or {}).get("rounded"):
            continue
        config = json.loads((corpus / "corpus" / item["path"] / "config.json").read_text("utf-8"))
        value = count["value"]
        told = Checkpoint(source="hub", scalars={"BF16": value})
        yield item["path"], bool(count.get("approx")), value, ESTIMATOR.estimate(config, checkpoint=told)


def test_equal_or_explained(corpus: Path) -> None:
    tally: Counter[str] = Counter()
    unexplained = []
    for path, size, value, estimate in published(corpus):
        total = estimate.body["parameters"]["total"]
        if estimate.status is not EstimateStatus.EXACT:
            tally[estimate.status.value] += 1
        elif total == value:
            tally["equal"] += 1
        elif size and 0 <= value - total <= HEADER * value:
            tally["the size of a file, header included"] += 1
        elif "unexplained" not in estimate.body["checkpoint"]["explanation"]:
            tally["explained"] += 1
        elif path in NOT_THIS_CONFIG:
            tally["not a count of this config"] += 1
        else:
            unexplained.append((path, value - total, estimate.body["checkpoint"]["explanation"]))
    print(dict(tally))
    assert unexplained == []
    assert tally["equal"] >= 30


def test_differences_by_their_size() -> None:
    gpt2 = json.loads('{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}')
    for extra, word in ((12 * 1024 * 1024, "mask"), (50257 * 768, "second copy"), (1, "unexplained")):
        told = Checkpoint(source="hub", scalars={"F32": 124_439_808 + extra})
        assert word in ESTIMATOR.estimate(gpt2, checkpoint=told).body["checkpoint"]["explanation"]
    assert compare(10, Checkpoint(source="hub", scalars={"F32": 10}))["checkpoint"]["delta"] == 0
