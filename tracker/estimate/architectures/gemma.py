"""Gemma 1 to 3: wide heads, norms before and after, one global layer in a few."""

from __future__ import annotations

from tracker.estimate.decoder import NO_QA, Decoder, alternating, decoder

GEMMA = Decoder(qkv_bias="attention_bias", o_bias="attention_bias", outer="gemma", activations="gemma")

ARCHITECTURES = (
    decoder("gemma", "Gemma", GEMMA, has=NO_QA),
    decoder("gemma2", "Gemma2", GEMMA, has=NO_QA, norms=4, sliding=alternating(2), activations="gemma2"),
    decoder("vaultgemma", "VaultGemma", GEMMA, has=("ForCausalLM",), sliding=alternating(2)),
    decoder(
        "gemma3_text",
        "Gemma3Text",
        GEMMA,
        has=("ForCausalLM", "ForSequenceClassification"),
        causal="Gemma3ForCausalLM",
        norms=4,
        qk_norm="head",
        sliding=alternating(6, "sliding_window_pattern"),
        activations="gemma3",
    ),
)
