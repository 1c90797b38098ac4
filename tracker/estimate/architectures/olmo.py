"""OLMo 1 to 3: no weights in the first one's norms, norms of whole queries and keys in the later ones."""

from __future__ import annotations

from tracker.estimate.decoder import Decoder, alternating, decoder

OLMO = Decoder(qkv_bias="attention_bias", o_bias="attention_bias")
HEADS = ("ForCausalLM", "ForSequenceClassification")

ARCHITECTURES = (
    decoder("olmo", "Olmo", OLMO, has=HEADS, norm="none"),
    decoder("olmo2", "Olmo2", OLMO, has=HEADS, qk_norm="full", activations="olmo2"),
    decoder("olmo3", "Olmo3", OLMO, has=HEADS, qk_norm="full", sliding=alternating(4), activations="olmo2"),
)
