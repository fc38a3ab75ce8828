"""Define class, sizes and inputs of each model of the huggingface suite.

Data only.

Full sizes are the defaults of the configuration classes, which match a published checkpoint, or the
checkpoint's own configuration in ``full``. Batch sizes and sequence lengths are those of PyTorch's runner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torchstone.define.benchmarks import DTYPES

SMALL_LENGTH = 64
TASKS = ("tokens", "translation", "classification", "answer", "layout")
"""The inputs and the training targets of a model: see ``models``."""

Sizes = Mapping[str, Any]
_VOCABULARY = {"vocab_size": 1000}

# The small sizes, in the terms of each family of configurations.
BERT: Sizes = {
    **_VOCABULARY,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
}
BART: Sizes = {
    **_VOCABULARY,
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
}
GPT2: Sizes = {
    **_VOCABULARY,
    "n_embd": 128,
    "n_layer": 2,
    "n_head": 4,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPTJ: Sizes = {**GPT2, "rotary_dim": 16}
GPT_NEO: Sizes = {
    **_VOCABULARY,
    "hidden_size": 128,
    "num_layers": 2,
    "attention_types": [[["global", "local"], 1]],
    "num_heads": 4,
    "window_size": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
T5: Sizes = {
    **_VOCABULARY,
    "d_model": 128,
    "d_kv": 32,
    "d_ff": 256,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
}


@dataclass(frozen=True)
class Recipe:
    """Recipe for building a model: ``full`` and ``small`` are the deviations from the default configuration in each size."""

    batch_size: int
    model: str
    configuration: str
    length: int
    small: Sizes
    full: Sizes = field(default_factory=dict)
    task: str = "tokens"
    dtypes: tuple[str, ...] = DTYPES


RECIPES: dict[str, Recipe] = {
    "AlbertForMaskedLM": Recipe(8, "AlbertForMaskedLM", "AlbertConfig", 512, {**BERT, "embedding_size": 64}),
    "AllenaiLongformerBase": Recipe(
        8,
        "LongformerForMaskedLM",
        "LongformerConfig",
        1024,
        {**BERT, "attention_window": 16},
        # A checkpoint for 4096 tokens; positions are counted from the padding token's number on.
        {"vocab_size": 50265, "max_position_embeddings": 4098, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    ),
    "BartForCausalLM": Recipe(8, "BartForCausalLM", "BartConfig", 1024, BART),
    "BertForMaskedLM": Recipe(32, "BertForMaskedLM", "BertConfig", 512, BERT),
    "BlenderbotForCausalLM": Recipe(32, "BlenderbotForCausalLM", "BlenderbotConfig", 128, BART),
    "BlenderbotForConditionalGeneration": Recipe(
        16, "BlenderbotForConditionalGeneration", "BlenderbotConfig", 128, BART, task="translation"
    ),
    "DebertaV2ForMaskedLM": Recipe(8, "DebertaV2ForMaskedLM", "DebertaV2Config", 512, BERT),
    "DistilBertForMaskedLM": Recipe(
        256,
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        128,
        {**_VOCABULARY, "dim": 128, "n_layers": 2, "n_heads": 4, "hidden_dim": 256},
    ),
    "DistillGPT2": Recipe(32, "GPT2LMHeadModel", "GPT2Config", 512, GPT2, {"n_layer": 6}),
    "ElectraForCausalLM": Recipe(
        64,
        "ElectraForCausalLM",
        "ElectraConfig",
        512,
        {**BERT, "embedding_size": 64, "is_decoder": True},
        {"is_decoder": True},
    ),
    "GPT2ForSequenceClassification": Recipe(
        8,
        "GPT2ForSequenceClassification",
        "GPT2Config",
        1024,
        {**GPT2, "pad_token_id": 0},
        {"pad_token_id": 0},
        "classification",
    ),
    "GPTJForCausalLM": Recipe(1, "GPTJForCausalLM", "GPTJConfig", 128, GPTJ),
    "GPTJForQuestionAnswering": Recipe(1, "GPTJForQuestionAnswering", "GPTJConfig", 128, GPTJ, task="answer"),
    "GPTNeoForCausalLM": Recipe(32, "GPTNeoForCausalLM", "GPTNeoConfig", 128, GPT_NEO),
    "GPTNeoForSequenceClassification": Recipe(
        32,
        "GPTNeoForSequenceClassification",
        "GPTNeoConfig",
        128,
        {**GPT_NEO, "pad_token_id": 0},
        {"pad_token_id": 0},
        "classification",
    ),
    "GoogleFnet": Recipe(
        32,
        "FNetForMaskedLM",
        "FNetConfig",
        512,
        {key: value for key, value in BERT.items() if key != "num_attention_heads"},
        # Fourier transforms of half precision do not exist for most lengths and devices.
        dtypes=("float32",),
    ),
    "LayoutLMForMaskedLM": Recipe(32, "LayoutLMForMaskedLM", "LayoutLMConfig", 512, BERT, task="layout"),
    "M2M100ForConditionalGeneration": Recipe(
        64, "M2M100ForConditionalGeneration", "M2M100Config", 128, BART, task="translation"
    ),
    "MBartForCausalLM": Recipe(8, "MBartForCausalLM", "MBartConfig", 1024, BART),
    "MT5ForConditionalGeneration": Recipe(
        32, "MT5ForConditionalGeneration", "MT5Config", 128, T5, task="translation"
    ),
    "MegatronBertForCausalLM": Recipe(
        16,
        "MegatronBertForCausalLM",
        "MegatronBertConfig",
        512,
        {**BERT, "is_decoder": True},
        {"is_decoder": True},
    ),
    "MobileBertForMaskedLM": Recipe(
        256,
        "MobileBertForMaskedLM",
        "MobileBertConfig",
        128,
        {**BERT, "embedding_size": 64, "intra_bottleneck_size": 64, "num_feedforward_networks": 2},
    ),
    "OPTForCausalLM": Recipe(
        4,
        "OPTForCausalLM",
        "OPTConfig",
        2048,
        {
            **_VOCABULARY,
            "hidden_size": 128,
            "word_embed_proj_dim": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 256,
        },
    ),
    "PLBartForCausalLM": Recipe(16, "PLBartForCausalLM", "PLBartConfig", 1024, BART),
    "PegasusForCausalLM": Recipe(128, "PegasusForCausalLM", "PegasusConfig", 128, BART),
    "RobertaForCausalLM": Recipe(
        32,
        "RobertaForCausalLM",
        "RobertaConfig",
        512,
        {**BERT, "is_decoder": True},
        # Positions are counted from the padding token's number on.
        {"max_position_embeddings": 514, "is_decoder": True},
    ),
    "T5ForConditionalGeneration": Recipe(
        8,
        "T5ForConditionalGeneration",
        "T5Config",
        1024,
        {**T5, "decoder_start_token_id": 0},
        {"decoder_start_token_id": 0},
        "translation",
    ),
    # The same sizes as the default above, which are those of this checkpoint; both names are in common use.
    "T5Small": Recipe(
        8,
        "T5ForConditionalGeneration",
        "T5Config",
        1024,
        {**T5, "decoder_start_token_id": 0},
        {"decoder_start_token_id": 0},
        "translation",
    ),
    "TrOCRForCausalLM": Recipe(
        64,
        "TrOCRForCausalLM",
        "TrOCRConfig",
        256,
        {key: value for key, value in BART.items() if not key.startswith("encoder")},
    ),
    "XGLMForCausalLM": Recipe(
        32,
        "XGLMForCausalLM",
        "XGLMConfig",
        128,
        {**_VOCABULARY, "d_model": 128, "ffn_dim": 256, "num_layers": 2, "attention_heads": 4},
    ),
    "XLNetLMHeadModel": Recipe(
        16,
        "XLNetLMHeadModel",
        "XLNetConfig",
        512,
        {**_VOCABULARY, "d_model": 128, "n_layer": 2, "n_head": 4, "d_inner": 256, "use_mems_eval": False},
        {"use_mems_eval": False},
    ),
    "YituTechConvBert": Recipe(
        32, "ConvBertForMaskedLM", "ConvBertConfig", 512, {**BERT, "embedding_size": 128}
    ),
}

DIVISORS = {
    **dict.fromkeys(("BlenderbotForCausalLM",), 8),
    **dict.fromkeys(
        (
            "DebertaV2ForMaskedLM",
            "M2M100ForConditionalGeneration",
            "MegatronBertForCausalLM",
            "PegasusForCausalLM",
            "XGLMForCausalLM",
        ),
        4,
    ),
    **dict.fromkeys(
        (
            "AlbertForMaskedLM",
            "AllenaiLongformerBase",
            "BartForCausalLM",
            "BertForMaskedLM",
            "DistilBertForMaskedLM",
            "DistillGPT2",
            "ElectraForCausalLM",
            "GPT2ForSequenceClassification",
            "GoogleFnet",
            "LayoutLMForMaskedLM",
            "MBartForCausalLM",
            "MT5ForConditionalGeneration",
            "MobileBertForMaskedLM",
            "OPTForCausalLM",
            "PLBartForCausalLM",
            "RobertaForCausalLM",
            "T5ForConditionalGeneration",
            "T5Small",
            "TrOCRForCausalLM",
            "XLNetLMHeadModel",
            "YituTechConvBert",
        ),
        2,
    ),
}
"""What PyTorch's dashboard divides the batch sizes by."""
