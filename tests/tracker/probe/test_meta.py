"""Classes built on the meta device by the child: what it counts, what it refuses, what bounds it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storage.model import EstimateStatus
from tracker.estimate.exact import ESTIMATOR
from tracker.estimating import WithTransformers, exact_estimator
from tracker.probe.meta import MetaCounter, available

pytestmark = pytest.mark.skipif(not available(), reason="the transformers extra is not installed")
BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
SAMPLE = 12  # every so many rows of the truth: the whole of it takes minutes


@pytest.fixture(scope="module")
def counter() -> Iterator[MetaCounter]:
    with MetaCounter() as counter:
        yield counter


def test_a_known_class(counter: MetaCounter) -> None:
    found = counter.count(BERT)
    closed = ESTIMATOR.estimate(BERT).body
    assert found["known"] is True
    assert found["total"] == closed["parameters"]["total"] == 109_514_298
    assert found["embedding"] == closed["parameters"]["embedding"]
    assert found["head"] == closed["parameters"]["head"]
    assert found["linear"] == closed["lora"]["parameters_linear"]
    assert {row["count"] for row in found["structure"] if row["name"].endswith("attention.self.query")} == {12}


def test_the_child_is_kept(counter: MetaCounter) -> None:
    counter.count(BERT)
    began = time.monotonic()
    for _ in range(3):
        counter.count(BERT)
    assert time.monotonic() - began < 20  # a new child takes longer than that to come up three times


def test_adapters_as_peft_makes_them(counter: MetaCounter) -> None:
    pytest.importorskip("peft")
    mixture = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
    }
    found, closed = counter.count(mixture), ESTIMATOR.estimate(mixture).body["lora"]
    assert (found["adapted"], found["linear"]) == (closed["parameters"], closed["parameters_linear"])
    assert found["adapted"] > found["linear"]


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"model_type": "nonesuch"}, "no such model_type"),
        ({"model_type": "llama", "num_hidden_layers": 10**9}, "modules"),
        ({"model_type": "llama", "hidden_size": "x"}, "hidden_size"),
        ({"model_type": "llama", "hidden_size": -5}, ""),
        ({"model_type": "bert", "vocab_size": 10**30}, ""),
        ({"model_type": ["bert"]}, "no such model_type"),
        ({"model_type": "dab-detr", "backbone": "/etc/passwd", "use_timm_backbone": False}, ""),
    ],
)
def test_what_makes_no_model_is_a_sentence(counter: MetaCounter, config: dict[str, Any], word: str) -> None:
    found = counter.count(config)
    assert "total" not in found
    assert word in found.get("error", "") or "gap" in found
    assert counter.count(BERT)["total"] == 109_514_298  # and the next is answered


def test_code_of_a_repo_is_never_looked_for(counter: MetaCounter, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "modeling_evil.py").write_text(f"open({str(marker)!r}, 'w').write('x')\n", "utf-8")
    pointing = {
        **BERT,
        "auto_map": {"AutoModel": "modeling_evil.Evil", "AutoConfig": "modeling_evil.EvilConfig"},
        "_name_or_path": str(tmp_path),
        "trust_remote_code": True,
    }
    assert counter.count(pointing)["class"] == "BertForMaskedLM"
    named = counter.count({**BERT, "architectures": ["modeling_evil.Evil"]})
    assert (named["class"], named["known"]) == ("BertModel", False)
    assert not marker.exists()


def test_a_class_of_another_type_is_not_built(counter: MetaCounter) -> None:
    found = counter.count({**BERT, "architectures": ["LlamaForCausalLM"]})
    assert (found["class"], found["known"]) == ("BertModel", False)


def test_time_bounds_an_answer() -> None:
    with MetaCounter(seconds=0.001) as hasty:
        assert hasty.count(BERT) == {"gap": "time"}


def test_an_estimate_says_which_way_it_came(counter: MetaCounter) -> None:
    estimator = WithTransformers(counter)
    assert estimator.estimate(BERT).source == "closed_form"
    bros = estimator.estimate({"model_type": "bros", "architectures": ["BrosForTokenClassification"]})
    assert (bros.status, bros.source) == (EstimateStatus.EXACT, "transformers")
    assert bros.body["parameters"]["total"] == 109_496_066
    assert bros.version.startswith(f"{ESTIMATOR.version}+transformers-")
    unknown = estimator.estimate({"model_type": "nonesuch", "architectures": ["Nonesuch"]})
    assert unknown.status is EstimateStatus.UNSUPPORTED
    assert "transformers" in (unknown.reason or "")
    other = estimator.estimate({"model_type": "bros", "architectures": ["BrosForDreams"]})
    assert other.status is EstimateStatus.PARTIAL


def test_the_setting_turns_it_off(counter: MetaCounter) -> None:
    assert exact_estimator("off", counter) is ESTIMATOR
    assert isinstance(exact_estimator("auto", counter), WithTransformers)


@pytest.mark.corpus
@pytest.mark.timeout(900)
def test_types_without_a_closed_form(counter: MetaCounter, corpus: Path) -> None:
    path = corpus / "reference" / "estimators" / "truth.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    configs = [
        (row, row["config"] | {"architectures": [row["class"]]}) for row in rows if row["source"] == "default"
    ]
    left = [pair for pair in configs if ESTIMATOR.estimate(pair[1]).status is EstimateStatus.UNSUPPORTED]
    tally: Counter[str] = Counter()
    for row, config in left[::SAMPLE]:
        found = WithTransformers(counter).estimate(config)
        tally[found.status.value] += 1
        if found.status is EstimateStatus.EXACT:
            parameters, lora = found.body["parameters"], found.body["lora"]
            expected = (row["params_total"], row["params_embedding"], row["params_head"], row["lora_r16_params"])
            counted = tuple(parameters[key] for key in ("total", "embedding", "head"))
            assert (*counted, lora["parameters_linear"]) == expected, row["class"]
    assert tally["exact"] >= 0.9 * tally.total()
