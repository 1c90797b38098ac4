"""GPT-NeoX and Pythia: rotary positions, parallel layers with two norms."""

from __future__ import annotations

from tracker.estimate.decoder import (
    Decoder,
    decoder,
    heads_of,
    hidden_by_heads,
)
from tracker.estimate.gpt_parts import CLASSIFIERS

NEOX = Decoder(
    prefix="gpt_neox",
    embed="embed_in",
    fused_qkv="query_key_value",
    out_name="dense",
    qkv_bias="attention_bias",
    o_bias="attention_bias",
    mlp_bias=True,
    norm="layer",
    last_norm="final_layer_norm",
    mlp="plain",
    mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
    kv_heads=heads_of,
    head_dim=hidden_by_heads,
    token_score="classifier",
    activations="gpt_neox",
    outer="phi",
)


ARCHITECTURES = (decoder("gpt_neox", "GPTNeoX", NEOX, has=("ForCausalLM", *CLASSIFIERS)),)
