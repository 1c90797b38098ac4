"""Phi 1 to 4: parallel layers with biases first, then fused Llama-like ones."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.decoder import LLAMA, NO_QA, Decoder, attention_layers, decoder, heads_of, hidden_by_heads
from tracker.estimate.reader import Config
from tracker.estimate.structure import Part, norm


def _phi(d: Decoder, c: Config) -> Sequence[Part]:
    """Optional LayerNorms of queries and keys."""
    if not c.flag("qk_layernorm"):
        return attention_layers(d, c)
    width = c["hidden_size"] // heads_of(c)
    return attention_layers(d, c, norm("q_layernorm", width, True), norm("k_layernorm", width, True))


PHI = Decoder(
    qkv_bias=True,
    o_bias=True,
    mlp_bias=True,
    head_bias=True,
    out_name="dense",
    norm="layer",
    norms=1,
    last_norm="final_layernorm",
    mlp="plain",
    mlp_names=("fc1", "fc2"),
    attention=_phi,
    head_dim=hidden_by_heads,
    activations="phi",
    outer="phi",
)

ARCHITECTURES = (
    decoder("phi", "Phi", PHI, has=NO_QA),
    decoder("phi3", "Phi3", LLAMA, has=NO_QA, fused_qkv="qkv_proj", mlp="fused", activations="phi3"),
)
