"""Nemotron-H: layers of one mixer each, by a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tracker.estimate.blocks import gqa, mixture, routed, router
from tracker.estimate.decoder import heads_of, output_layer
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.recurrent import mamba2
from tracker.estimate.structure import Dims, Part, block, embedding, linear, norm


def _nemotron_layers(c: Config) -> Sequence[str]:
    """The kind of each layer, as a list or as a string of letters."""
    pattern = c.raw.get("hybrid_override_pattern")
    kinds = c.items("layers_block_type", default=None)
    if kinds:
        return [{"mamba": "linear_attention", "attention": "full_attention"}.get(str(k), str(k)) for k in kinds]
    if isinstance(pattern, str):
        names = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
        if not set(pattern) <= set(names):
            raise ConfigError("hybrid_override_pattern has a letter that is not known")
        return [names[letter] for letter in pattern]
    return ["linear_attention", "moe", "full_attention", "mlp"]


def _nemotron(head: str, c: Config) -> Model:
    """Nemotron-H: every layer is one mixer under one norm: Mamba 2, attention, feed-forward or mixture."""
    kinds = _nemotron_layers(c)
    known = {"linear_attention", "full_attention", "mlp", "moe"}
    if not set(kinds) <= known:
        raise ConfigError("layers_block_type names a kind that is not known")
    hidden, total = c["hidden_size"], len(kinds)
    heads, kv, dim = heads_of(c), c.maybe("num_key_value_heads", minimum=1) or heads_of(c), c["head_dim"]
    mlp_bias = c.flag("mlp_bias")
    inner = c["mamba_num_heads"] * c["mamba_head_dim"]
    used = {kind: sum(k == kind for k in kinds) for kind in known}
    mixers: list[Part] = [
        mamba2(
            hidden,
            inner,
            c["ssm_state_size"],
            c["conv_kernel"],
            c["mamba_num_heads"],
            c["mamba_head_dim"],
            c["n_groups"],
            bias=c.flag("use_bias"),
            conv_bias=c.flag("use_conv_bias"),
            times=used["linear_attention"],
            name="mixer",
        ),
        gqa(hidden, heads, kv, dim, times=used["full_attention"], name="mixer"),  # whatever attention_bias says
        block(
            "mixer",
            linear("up_proj", hidden, c["intermediate_size"], mlp_bias),
            linear("down_proj", c["intermediate_size"], hidden, mlp_bias),
            times=used["mlp"],
            kind="MLP",
            dims=Dims(hidden=hidden, ffn=c["intermediate_size"]),
        ),
    ]
    if used["moe"]:
        latent = c.maybe("moe_latent_size")  # the experts' own, smaller space
        n, k, width, beside = (
            c["n_routed_experts"],
            c["num_experts_per_tok"],
            c["moe_intermediate_size"],
            c["moe_shared_expert_intermediate_size"],
        )
        mixers.append(
            mixture(
                hidden,
                router(hidden, n),
                routed(n, k, latent or hidden, width, is_gated=False),
                linear("fc1_latent_proj", hidden, latent, mlp_bias) if latent else None,
                linear("fc2_latent_proj", latent, hidden, mlp_bias) if latent else None,
                linear("shared_experts.up_proj", hidden, beside, mlp_bias),
                linear("shared_experts.down_proj", beside, hidden, mlp_bias),
                times=used["moe"],
                name="mixer",
                width=width,
                used=k,
            )
        )
    is_tied = False if head else None  # the class ties nothing, whatever the config says
    last = output_layer(c, hidden, bias=False, is_tied=False) if head else None
    trunk = block(
        "model",
        embedding("embeddings", c["vocab_size"], hidden),
        block(
            "layers.*", *mixers, norm("norm", hidden, times=total), kind="Layers", width=hidden, formula="llama"
        ),
        norm("norm_f", hidden),
        width=hidden,
    )
    return Model(
        root=block("", trunk, last, kind="Model"),
        hidden=hidden,
        layers=total,
        vocabulary=c["vocab_size"],
        context=c.maybe("max_position_embeddings"),
        head=last,
        head_tied=is_tied,
        generates=True,
    )


ARCHITECTURES = (
    Architecture(
        model_type="nemotron_h",
        classes={
            "NemotronHModel": partial(_nemotron, ""),
            "NemotronHForCausalLM": partial(_nemotron, "ForCausalLM"),
        },
        base="NemotronHModel",
    ),
)
