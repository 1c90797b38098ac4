"""Small models to commit: a Llama of any shape, its tokenizer and templates."""

from __future__ import annotations

import json
from typing import Any

from tracker.demo.files import LargeFile, safetensors

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
THINKING = TEMPLATE.replace("<|assistant|>{% endif %}", "<|assistant|><think>\n{% endif %}")


def llama(**changes: Any) -> str:
    """A small Llama's config.json, with changes; a value of ... leaves the key out."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 100,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-05,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    } | changes
    return json.dumps({key: value for key, value in config.items() if value is not ...}, indent=2) + "\n"


def llama_parameters(*, layers: int = 2, hidden: int = 64, ffn: int = 160, vocab: int = 100) -> int:
    """What LlamaForCausalLM registers: 4 heads, 2 key/value heads, no biases, untied head."""
    attention = 2 * hidden * hidden + 2 * hidden * (hidden // 2)
    return 2 * vocab * hidden + layers * (attention + 3 * hidden * ffn + 2 * hidden) + hidden


def weights(*, layers: int = 2, dtype: str = "BF16", salt: str = "", hidden: int = 64) -> LargeFile:
    """A safetensors file with a few tensors a layer."""
    tensors = {f"model.layers.{n}.self_attn.q_proj.weight": (dtype, (hidden, hidden)) for n in range(layers)}
    return safetensors(tensors | {"model.embed_tokens.weight": (dtype, (100, hidden))}, salt=salt)


def tokenizer_config(template: str | None = TEMPLATE, **more: Any) -> str:
    """A tokenizer_config.json with an inline chat template."""
    value = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", **more}
    if template is not None:
        value["chat_template"] = template
    return json.dumps(value, indent=2) + "\n"
