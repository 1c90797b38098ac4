"""Mamba 1 and 2: state-space models without attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tracker.estimate.decoder import output_layer
from tracker.estimate.model import Architecture, Model
from tracker.estimate.reader import Config, ConfigError
from tracker.estimate.recurrent import mamba1, mamba2, rank_of
from tracker.estimate.structure import Node, block, embedding, norm


def _mamba1_of(c: Config, times: int) -> Node:
    hidden = c["hidden_size"]
    inner = (
        c["expand"] * hidden
        if c.model_type == "mamba" or not c.given("intermediate_size")
        else c["intermediate_size"]
    )
    return mamba1(
        hidden,
        inner,
        c["state_size"],
        c["conv_kernel"],
        rank_of(c, "time_step_rank"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
        times=times,
    )


def _mamba2_of(c: Config, times: int) -> Node:
    hidden = c["hidden_size"]
    inner = int(c.number("expand") * hidden)
    if c["num_heads"] * c["head_dim"] != inner:
        raise ConfigError("num_heads x head_dim is not expand x hidden_size")
    return mamba2(
        hidden,
        inner,
        c["state_size"],
        c["conv_kernel"],
        c["num_heads"],
        c["head_dim"],
        c["n_groups"],
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
        times=times,
        name="mixer",
    )


def _pure(mixer: Callable[[Config, int], Node], causal: bool, c: Config) -> Model:
    hidden, total = c["hidden_size"], c["num_hidden_layers"]
    is_tied = c.flag("tie_word_embeddings") if causal else None
    last = output_layer(c, hidden, bias=False, is_tied=bool(is_tied)) if causal else None
    backbone = block(
        "backbone",
        embedding("embeddings", c["vocab_size"], hidden),
        block(
            "layers.*",
            mixer(c, total),
            norm("norm", hidden, times=total),
            kind="Layers",
            width=hidden,
            formula="mamba",
        ),
        norm("norm_f", hidden),
        width=hidden,
    )
    return Model(
        root=block("", backbone, last, kind="Model"),
        hidden=hidden,
        layers=total,
        vocabulary=c["vocab_size"],
        head=last,
        head_tied=is_tied,
        generates=True,
    )


def _pure_architecture(model_type: str, stem: str, mixer: Callable[[Config, int], Node]) -> Architecture:
    return Architecture(
        model_type=model_type,
        classes={f"{stem}Model": partial(_pure, mixer, False), f"{stem}ForCausalLM": partial(_pure, mixer, True)},
        base=f"{stem}Model",
    )


ARCHITECTURES = (
    _pure_architecture("mamba", "Mamba", _mamba1_of),
    _pure_architecture("falcon_mamba", "FalconMamba", _mamba1_of),
    _pure_architecture("mamba2", "Mamba2", _mamba2_of),
)
