"""Published shapes of large language models: sizes, prompt length and cache size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """A model: its classes in transformers, its sizes, the prompt length and the cache size (``room``)."""

    model: str
    configuration: str
    full: Mapping[str, Any]
    small: Mapping[str, Any]
    prompt: int = 1000
    room: int = 3000
    speech: bool = False


_SMALL = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_SLIDING = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
_ROPE_MILLION = {"rope_type": "default", "rope_theta": 1_000_000.0}

SHAPES: dict[str, Shape] = {
    "Qwen/Qwen3-0.6B": Shape(
        "Qwen3ForCausalLM",
        "Qwen3Config",
        {
            "vocab_size": 151_936,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 40_960,
            "rope_parameters": _ROPE_MILLION,
            "tie_word_embeddings": True,
        },
        _SMALL,
    ),
    "google/gemma-2-2b": Shape(
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {
            "vocab_size": 256_000,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
            "sliding_window": 4096,
            "max_position_embeddings": 8192,
        },
        {**_SMALL, **_SLIDING, "query_pre_attn_scalar": 32},
    ),
    # The text part; the checkpoint also has a vision part.
    "google/gemma-3-4b-it": Shape(
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {
            "vocab_size": 262_208,
            "hidden_size": 2560,
            "intermediate_size": 10_240,
            "num_hidden_layers": 34,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
            "sliding_window": 1024,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000.0},
            },
        },
        {**_SMALL, **_SLIDING, "query_pre_attn_scalar": 32},
    ),
    "meta-llama/Llama-3.2-1B": Shape(
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            "vocab_size": 128_256,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-5,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
            "tie_word_embeddings": True,
        },
        _SMALL,
    ),
    "mistralai/Mistral-7B-Instruct-v0.3": Shape(
        "MistralForCausalLM",
        "MistralConfig",
        {
            "vocab_size": 32_768,
            "hidden_size": 4096,
            "intermediate_size": 14_336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 32_768,
            "rms_norm_eps": 1e-5,
            "rope_parameters": _ROPE_MILLION,
            "sliding_window": None,
        },
        {**_SMALL, "sliding_window": None},
    ),
    "openai/gpt-oss-20b": Shape(
        "GptOssForCausalLM",
        "GptOssConfig",
        {
            "vocab_size": 201_088,
            "hidden_size": 2880,
            "intermediate_size": 2880,
            "num_hidden_layers": 24,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "num_local_experts": 32,
            "num_experts_per_tok": 4,
            "sliding_window": 128,
        },
        {**_SMALL, **_SLIDING, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    # Thirty seconds of sound, and the four tokens that a transcription starts with.
    "openai/whisper-tiny": Shape(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            "vocab_size": 51_865,
            "d_model": 384,
            "encoder_layers": 4,
            "decoder_layers": 4,
            "encoder_attention_heads": 6,
            "decoder_attention_heads": 6,
            "encoder_ffn_dim": 1536,
            "decoder_ffn_dim": 1536,
        },
        {
            "vocab_size": 1000,
            "d_model": 64,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "max_source_positions": 100,
            "max_target_positions": 64,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 3,
        },
        prompt=4,
        room=448,
        speech=True,
    ),
}
