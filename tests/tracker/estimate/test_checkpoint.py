"""The file's own count beside the class's, and the difference in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from storage.model import Document, DocumentKind, EstimateStatus, Manifest, Revision, Snapshot, Tensor, TensorFile
from tracker.estimate.checkpoint import checkpoint_of, of_tensors
from tracker.estimate.exact import ESTIMATOR
from tracker.estimate.interface import Checkpoint

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "tie_word_embeddings": True,
}


def tensors(layers: int = 2, dtype: str = "BF16") -> dict[str, tuple[str, tuple[int, ...]]]:
    table: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.embed_tokens.weight": (dtype, (100, 64)),
        "model.norm.weight": (dtype, (64,)),
    }
    for i in range(layers):
        name = f"model.layers.{i}"
        table |= {
            f"{name}.self_attn.q_proj.weight": (dtype, (64, 64)),
            f"{name}.self_attn.k_proj.weight": (dtype, (32, 64)),
            f"{name}.self_attn.v_proj.weight": (dtype, (32, 64)),
            f"{name}.self_attn.o_proj.weight": (dtype, (64, 64)),
            f"{name}.mlp.gate_proj.weight": (dtype, (128, 64)),
            f"{name}.mlp.up_proj.weight": (dtype, (128, 64)),
            f"{name}.mlp.down_proj.weight": (dtype, (64, 128)),
            f"{name}.input_layernorm.weight": (dtype, (64,)),
            f"{name}.post_attention_layernorm.weight": (dtype, (64,)),
        }
    return table


def compared(table: dict[str, tuple[str, tuple[int, ...]]], config: dict[str, Any] = LLAMA) -> dict[str, Any]:
    return dict(ESTIMATOR.estimate(config, checkpoint=of_tensors(table)).body["checkpoint"])


def test_a_file_that_is_the_class() -> None:
    result = compared(tensors())
    assert result["delta"] == 0
    assert result["source"] == "headers"
    assert result["explanation"] == "equal to the class's own count"


def test_a_second_copy_of_the_tied_head() -> None:
    result = compared(tensors() | {"lm_head.weight": ("BF16", (100, 64))})
    assert result["delta"] == 6400
    assert result["explanation"] == "+6,400 a second copy of the tied output layer"


def test_prediction_layers_scales_and_buffers() -> None:
    extra: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.layers.2.mlp.up_proj.weight": ("BF16", (128, 64)),
        "model.layers.2.mlp.up_proj.weight_scale_inv": ("F32", (1, 1)),
        "model.layers.0.mlp.up_proj.weight_scale_inv": ("F32", (1, 1)),
        "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", (8,)),
        "model.layers.1.mlp.gate.e_score_correction_bias": ("F32", (4,)),
    }
    result = compared(tensors() | extra)
    assert result["delta"] == 8192 + 1 + 1 + 8 + 4
    for words in (
        "+8,192 of multi-token-prediction layers",
        "+1 scales of the multi-token-prediction layers",
        "+1 scales of quantized weights",
        "+8 rotary frequency buffers",
        "+4 router bias buffers",
    ):
        assert words in result["explanation"]
    assert "unexplained" not in result["explanation"]


def test_int4_words_are_unpacked() -> None:
    table = tensors()
    del table["model.layers.0.mlp.up_proj.weight"]
    table |= {
        "model.layers.0.mlp.up_proj.qweight": ("I32", (64 // 8, 128)),
        "model.layers.0.mlp.up_proj.scales": ("F16", (1, 128)),
        "model.layers.0.mlp.up_proj.qzeros": ("I32", (1, 16)),
    }
    result = compared(table)
    assert result["delta"] == 1024 + 128 + 16 - 8192
    assert "-7,168 int4 weights packed eight to a word" in result["explanation"]
    assert "unexplained" not in result["explanation"]


def test_what_is_left_over_is_said_to_be() -> None:
    result = compared(tensors() | {"adapter.mystery": ("F32", (7,))})
    assert result["explanation"] == "+7 unexplained"


def test_a_pooler_that_the_file_lacks() -> None:
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "vocab_size": 30,
        "max_position_embeddings": 10,
    }
    count = ESTIMATOR.estimate(config).body["parameters"]["total"]
    result = compared({"everything": ("F32", (count - 72,))}, config)
    assert result["delta"] == -72
    assert "-72 the class has a pooler that the file lacks" in result["explanation"]


def test_without_an_architecture_the_file_still_counts() -> None:
    estimate = ESTIMATOR.estimate({"model_type": "unheard-of"}, checkpoint=of_tensors(tensors()))
    assert estimate.status is EstimateStatus.UNSUPPORTED
    assert estimate.source == "checkpoint"
    assert estimate.body["checkpoint"]["total"] == sum(
        Tensor(name=name, dtype=dtype, shape=shape).elements for name, (dtype, shape) in tensors().items()
    )
    assert estimate.body["checkpoint"]["delta"] is None


def test_only_the_size_is_known() -> None:
    total = ESTIMATOR.estimate(LLAMA).body["parameters"]["total"]
    checkpoint = Checkpoint(source="index", total_bytes=2 * total)
    body = ESTIMATOR.estimate(LLAMA, checkpoint=checkpoint).body["checkpoint"]
    assert (body["total"], body["delta"], body["source"]) == (total, 0, "index")


def snapshot(**kwargs: Any) -> Snapshot:
    revision = Revision(sha="0" * 40, committed_at=datetime(2026, 1, 1, tzinfo=UTC), author="a", title="t")
    return Snapshot(revision=revision, manifest=Manifest(files={}), **kwargs)


def weight_file(path: str, *names: str, format_: str = "safetensors") -> TensorFile:
    found = tuple(Tensor(name=name, dtype="BF16", shape=(2, 3)) for name in names)
    return TensorFile(path=path, content_key=f"git:{path}", format=format_, tensors=found)


def test_the_shards_of_one_model_and_nothing_else() -> None:
    files = [
        weight_file("model-00001-of-00002.safetensors", "a"),
        weight_file("model-00002-of-00002.safetensors", "b"),
        weight_file("consolidated.safetensors", "again"),
        weight_file("adapter_model.safetensors", "lora"),
        weight_file("vae/model.safetensors", "other"),
        weight_file("model.gguf", "packed", format_="gguf"),
    ]
    checkpoint = checkpoint_of(snapshot(tensor_files={file.path: file for file in files}))
    assert checkpoint is not None
    assert sorted(checkpoint.tensors) == ["a", "b"]
    assert checkpoint.scalars == {"BF16": 12}


def test_an_index_stands_in_for_headers() -> None:
    path = "model.safetensors.index.json"
    document = Document(
        path=path, kind=DocumentKind.WEIGHT_INDEX, content_key="git:1", data={"metadata": {"total_size": 44}}
    )
    checkpoint = checkpoint_of(snapshot(documents={path: document}))
    assert checkpoint == Checkpoint(source="index", total_bytes=44)
    assert checkpoint_of(snapshot()) is None
