"""Command R: attention and feed-forward in parallel under one norm without bias."""

from __future__ import annotations

from collections.abc import Sequence

from tracker.estimate.decoder import LM, Decoder, alternating, attention_layers, decoder, kv_heads_of
from tracker.estimate.reader import Config
from tracker.estimate.structure import Part, norm


def _qk_norm(d: Decoder, c: Config) -> Sequence[Part]:
    """Optional norms with a weight for every head of queries and of keys."""
    if not c.flag("use_qk_norm"):
        return attention_layers(d, c)
    heads, kv, dim = d.heads(c), kv_heads_of(c), d.head_dim(c)
    return attention_layers(d, c, norm("q_norm", heads * dim), norm("k_norm", kv * dim))


COHERE = Decoder(
    qkv_bias="attention_bias", o_bias="attention_bias", norm="scale", norms=1, activations="cohere", outer="cohere"
)

ARCHITECTURES = (
    decoder("cohere", "Cohere", COHERE, has=LM, attention=_qk_norm),
    decoder("cohere2", "Cohere2", COHERE, has=LM, sliding=alternating(4, "sliding_window_pattern")),
)
