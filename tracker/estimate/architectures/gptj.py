"""GPT-J and CodeGen: attention and feed-forward in parallel under one norm."""

from __future__ import annotations

from dataclasses import replace

from tracker.estimate.decoder import (
    decoder,
)
from tracker.estimate.gpt_parts import CLASSIFIERS, GPT2

GPTJ = replace(
    GPT2,
    positions=None,
    fused_qkv="",
    out_name="out_proj",
    qkv_bias=False,
    o_bias=False,
    norms=1,
    mlp_names=("fc_in", "fc_out"),
    head_bias=True,
    token_score="",
    activations="phi",
    outer="phi",
)


ARCHITECTURES = (
    decoder("gptj", "GPTJ", GPTJ, has=("ForCausalLM", CLASSIFIERS[0], CLASSIFIERS[2])),
    decoder("codegen", "CodeGen", GPTJ, has=("ForCausalLM",), fused_qkv="qkv_proj"),
)
