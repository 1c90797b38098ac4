"""Which change class a key of a config belongs to, by the names of transformers and diffusers, old and new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storage.model import DocumentKind

ROPE_ROOT = "rope_parameters"
# Rotary settings that older configs keep beside rope_scaling and newer ones inside rope_parameters.
ROPE_INSIDE = frozenset({"rope_theta", "partial_rotary_factor"})
SKIPPED = frozenset({"auto_map", "chat_template"})  # told by the code and the template differs
# Records of how a file came to be, and settings that change no result.
BOOKKEEPING = frozenset(
    {"transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "_diffusers_version", "__version__",
     "_from_model_config", "_attn_implementation_autoset", "_attn_implementation", "use_cache", "return_dict",
     "output_attentions", "output_hidden_states", "problem_type", "peft_version", "special_tokens_map_file",
     "tokenizer_file"}
)  # fmt: skip
# What only training reads: the published weights and what they answer stay as they are.
TRAINING = frozenset(
    {"initializer_range", "initializer_factor", "init_std", "gradient_checkpointing", "attention_dropout",
     "hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob", "activation_dropout", "dropout",
     "attn_pdrop", "resid_pdrop", "embd_pdrop", "summary_first_dropout", "classifier_dropout", "layerdrop",
     "encoder_layerdrop", "decoder_layerdrop", "embedding_dropout", "router_aux_loss_coef", "router_z_loss_coef",
     "router_jitter_noise", "aux_loss_alpha", "apply_spec_augment", "mask_time_prob", "mask_feature_prob",
     "label_smoothing", "use_bfloat16", "ctc_loss_reduction", "ctc_zero_infinity"}
)  # fmt: skip
_CONTEXT = frozenset(
    {"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_seq_length", "max_sequence_length",
     "seq_length", "model_max_length", "max_target_positions", "max_source_positions", "context_length",
     "max_context_length"}
)  # fmt: skip
_WINDOW = frozenset(
    {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "attention_window", "window_size",
     "sliding_window_pattern", "_sliding_window_pattern", "attention_chunk_size", "no_rope_layers",
     "no_rope_layer_interval", "global_attn_every_n_layers", "full_attention_interval", "attention_types",
     "attention_layers", "hybrid_override_pattern", "layers_block_type", "block_types", "attn_layer_indices",
     "full_attn_idxs", "sliding_window_size", "swa_layers", "attention_type", "index_topk"}
)  # fmt: skip
_ROPE = frozenset(
    {"rope_theta", "rope_scaling", "rope_parameters", "rotary_pct", "rotary_dim", "rotary_emb_base", "rope_ratio",
     "partial_rotary_factor", "rope_local_base_freq", "rotary", "rope_interleave", "rope_type", "alibi",
     "rotary_base", "rotary_percentage", "position_embedding_type", "position_encoding_2d", "use_dynamic_ntk",
     "original_max_position_embeddings", "mrope_section", "rope_pct", "global_rope_theta", "local_rope_theta"}
)  # fmt: skip
_SHAPE = frozenset(
    {"hidden_size", "n_embd", "d_model", "dim", "embed_dim", "embedding_size", "num_hidden_layers", "n_layer",
     "n_layers", "num_layers", "num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads",
     "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query", "multi_query_attention", "multi_query_group_num",
     "head_dim", "kv_channels", "d_kv", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank",
     "kv_lora_rank", "o_lora_rank", "index_head_dim", "index_n_heads", "intermediate_size", "n_inner", "d_ff",
     "ffn_dim", "ffn_hidden_size", "inner_hidden_size", "moe_intermediate_size", "shared_expert_intermediate_size",
     "num_experts", "num_local_experts", "n_routed_experts", "n_shared_experts", "num_shared_experts",
     "num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "first_k_dense_replace",
     "moe_layer_freq", "decoder_sparse_step", "mlp_only_layers", "vocab_size", "padded_vocab_size",
     "type_vocab_size", "tie_word_embeddings", "tie_embeddings", "encoder_layers", "decoder_layers",
     "num_decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim",
     "decoder_ffn_dim", "projection_dim", "patch_size", "num_channels", "image_size", "num_mel_bins", "state_size",
     "conv_kernel", "d_state", "d_conv", "expand", "n_groups", "num_nextn_predict_layers", "attention_bias",
     "mlp_bias", "qkv_bias", "add_cross_attention", "is_encoder_decoder", "hidden_act", "hidden_activation",
     "activation_function", "hidden_size_per_layer_input", "vocab_size_per_layer_input", "num_kv_shared_layers",
     "block_out_channels", "cross_attention_dim", "in_channels", "out_channels", "latent_channels",
     "attention_head_dim", "layers_per_block", "mamba_d_state", "mamba_n_heads", "linear_num_key_heads",
     "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "parallel_attn",
     "new_decoder_architecture"}
)  # fmt: skip
_SAMPLING = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "do_sample",
     "num_beams",
     "num_beam_groups", "repetition_penalty", "encoder_repetition_penalty", "no_repeat_ngram_size",
     "diversity_penalty",
     "length_penalty", "early_stopping", "penalty_alpha", "presence_penalty", "frequency_penalty", "max_length",
     "max_new_tokens", "min_length", "min_new_tokens", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
     "forced_bos_token_id", "forced_eos_token_id", "forced_decoder_ids", "sequence_bias", "guidance_scale",
     "top_h", "stop_strings", "num_return_sequences"}
)  # fmt: skip
_EOS = "eos_token_id"
_SPECIAL_SUFFIX = "_token_id"
_BY_KIND: Mapping[DocumentKind, str] = {
    DocumentKind.QUANTIZATION: "config.quant",
    DocumentKind.PROCESSOR: "processor.config",
    DocumentKind.ADAPTER: "adapter.config",
    DocumentKind.EMBEDDING: "embedding.pooling",
}
_FILE: Mapping[DocumentKind, str] = {**_BY_KIND, DocumentKind.COMPONENTS: "config.component_class"}
# transformers' GenerationConfig where a file says nothing.
GENERATION_DEFAULTS: Mapping[str, object] = {
    "do_sample": False,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "num_beams": 1,
    "num_beam_groups": 1,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "diversity_penalty": 0.0,
    "length_penalty": 1.0,
    "early_stopping": False,
    "max_length": 20,
    "min_length": 0,
    "num_return_sequences": 1,
    "use_cache": True,
    "output_scores": False,
    "return_dict_in_generate": False,
}


# What a model config counts as saying where neither it nor its class's present defaults say anything: the
# defaults that transformers had in every config before version 5, and what readers take where a key is absent.
LEGACY_DEFAULTS: Mapping[str, object] = {
    **{key: value for key, value in GENERATION_DEFAULTS.items() if key != "use_cache"},
    "encoder_no_repeat_ngram_size": 0,
    "remove_invalid_values": False,
    "position_embedding_type": "absolute",
    "gradient_checkpointing": False,
    "torchscript": False,
    "tf_legacy_loss": False,
    "use_bfloat16": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_encoder_decoder": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
    "pretraining_tp": 1,
    "chunk_size_feed_forward": 0,
    "output_past": True,
}
# Keys that choose what is computed, not how large anything is.
SHAPELESS = frozenset({"hidden_act", "hidden_activation", "activation_function"})


def class_of(kind: DocumentKind, path: Sequence[str]) -> str:
    """The change class of a value, by the file's kind and the value's canonical key path."""
    last = path[-1] if path else ""
    if last in BOOKKEEPING or last in TRAINING:
        return "config.other"
    if last == "_class_name":
        return "config.component_class"
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    if kind is DocumentKind.COMPONENTS:
        return "config.other" if last.startswith("_") else _component(path)
    if any(part in {"quantization_config", "compression_config", "quantization"} for part in path):
        return "config.quant"
    return _model_key(kind, path, last)


def _component(path: Sequence[str]) -> str:
    """A pipeline's parts are classes (``"unet": ["diffusers", "UNet2DConditionModel"]``)."""
    return "config.component_class" if len(path) == 1 else "config.other"


def _model_key(kind: DocumentKind, path: Sequence[str], last: str) -> str:
    if kind is DocumentKind.GENERATION_CONFIG and last in _SAMPLING:
        return "genconfig.sampling"
    if last == _EOS:
        return "tokens.eos"
    if any(part in _ROPE for part in path):
        return "config.rope"
    if kind is DocumentKind.JSON:
        return "config.other"
    for keys, cls in (
        ({"model_type", "architectures"}, "config.rename"),
        ({"dtype", "torch_dtype"}, "config.dtype"),
        (_CONTEXT, "config.context"),
        (_WINDOW, "config.attention_window"),
        (_SHAPE, "config.arch_shape"),
        (_SAMPLING, "genconfig.sampling"),
    ):
        if last in keys:
            return cls
    return "tokens.special" if last.endswith(_SPECIAL_SUFFIX) else "config.other"


def class_of_file(kind: DocumentKind, *, removed: bool) -> str:
    """The change class of a config file that appears or goes."""
    if kind is DocumentKind.CONFIG and removed:
        return "config.arch_shape"
    return _FILE.get(kind, "config.other")
