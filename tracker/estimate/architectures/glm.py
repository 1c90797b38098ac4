"""GLM-4 and later: biases on queries, keys and values, gate and up in one matrix."""

from __future__ import annotations

from tracker.estimate.decoder import LLAMA, NO_QA, decoder

ARCHITECTURES = (
    decoder("glm", "Glm", LLAMA, has=NO_QA, qkv_bias="attention_bias", mlp="fused", activations="glm"),
    decoder("glm4", "Glm4", LLAMA, has=NO_QA, qkv_bias="attention_bias", mlp="fused", norms=4, activations="glm4"),
)
