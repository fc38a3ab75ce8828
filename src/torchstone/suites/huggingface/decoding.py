"""Build models that read a prompt, or that decode one token.

Imports torch and transformers.

Decoding a token changes the cache it reads from, but a benchmark must do the same work at every call. So the
cache has one fixed slot for the new token, and everything else stays as the prompt left it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache

from torchstone.define.benchmarks import Work
from torchstone.suites.huggingface.llm_shapes import Shape
from torchstone.suites.huggingface.models import configure, find_class, random_tokens

SMALL_PROMPT = 48
SMALL_ROOM = 64
FRAMES_A_POSITION = 2
"""Whisper's encoder halves the input length."""


def build(shape: Shape, decode: bool, batch_size: int, dtype: str, device: str, size: str) -> Work:
    """Return a model with a prompt, or with a processed prompt and one more token.

    It is created on its device and in its dtype: twenty billion weights do not fit into memory twice.
    """
    small = size == "small"
    configuration = configure(shape.configuration, **(shape.small if small else shape.full))
    with torch.device(device), default_dtype(getattr(torch, dtype, torch.float32)), torch.no_grad():
        model = find_class(shape.model)(configuration).eval().requires_grad_(False)
        prompt = min(shape.prompt, SMALL_PROMPT) if small else shape.prompt
        inputs = make_prompt(shape, configuration, batch_size, prompt)
        if not decode:
            return Work(model, (), {**inputs, "use_cache": False})
        room = min(shape.room, SMALL_ROOM) if small else shape.room
        return Work(Decode(model, inputs, room), (random_tokens(configuration.vocab_size, batch_size, 1),))


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Create new weights in this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def make_prompt(shape: Shape, configuration: Any, batch_size: int, length: int) -> dict[str, Tensor]:  # noqa: ANN401  (a class of transformers)
    """Return the prompt: tokens, or sound and the first tokens of its transcription."""
    tokens = random_tokens(configuration.vocab_size, batch_size, length)
    if not shape.speech:
        return {"input_ids": tokens}
    frames = FRAMES_A_POSITION * configuration.max_source_positions
    return {
        "input_features": torch.randn(batch_size, configuration.num_mel_bins, frames),
        "decoder_input_ids": tokens,
    }


class Slot(nn.Module, CacheLayerMixin):  # type: ignore[no-untyped-call]  # the mixin's own hook has no types
    """Keys and values of one layer: the prompt's, one slot for the new token, and unused room.

    A layer with a sliding window has no more room than the window. As a module, it moves and is copied with
    the model.
    """

    is_compileable = True
    keys: Tensor
    values: Tensor
    place: Tensor

    def __init__(self, filled: Any, seen: int, room: int) -> None:  # noqa: ANN401  (a layer of transformers' own cache)
        nn.Module.__init__(self)
        self.is_sliding = bool(getattr(filled, "is_sliding", False))
        self.is_initialized = True
        self.seen = seen
        kept = filled.keys.shape[2]
        self.offset = seen - kept
        self.room = min(room, filled.sliding_window) if self.is_sliding else room
        self.register_buffer("keys", _with_room(filled.keys, self.room))
        self.register_buffer("values", _with_room(filled.values, self.room))
        self.register_buffer("place", torch.tensor([kept], device=filled.keys.device))

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: it was filled at construction."""

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: Any,  # noqa: ANN401, ARG002  (models pass more, which is not needed here)
        **kwargs: Any,  # noqa: ANN401, ARG002  (transformers' own signature)
    ) -> tuple[Tensor, Tensor]:
        """Store the new token's keys and values; return all visible ones."""
        self.keys.index_copy_(2, self.place, key_states.to(self.keys.dtype))
        self.values.index_copy_(2, self.place, value_states.to(self.values.dtype))
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002  (it is always one)
        """Return the number of positions, and the first."""
        return self.room, self.offset

    def get_seq_length(self) -> int:
        """Return the number of tokens before the new one."""
        return self.seen

    def get_max_length(self) -> int:
        """Return the number of positions."""
        return self.room


def _with_room(states: Tensor, room: int) -> Tensor:
    grown = states.new_zeros(*states.shape[:2], room, states.shape[3])
    grown[:, :, : states.shape[2]] = states
    return grown


class Decode(nn.Module):
    """A model that has read a prompt, and scores what follows one more token."""

    encoded: Tensor | None

    def __init__(self, model: Any, inputs: dict[str, Tensor], room: int) -> None:  # noqa: ANN401  (a class of transformers)
        super().__init__()
        self.model = model
        read = model(**inputs, use_cache=True)
        filled: Any = read.past_key_values
        self.register_buffer("encoded", getattr(read, "encoder_last_hidden_state", None))
        if isinstance(filled, EncoderDecoderCache):
            own, other = filled.self_attention_cache, filled.cross_attention_cache
            self.slots = _slots(own, own.get_seq_length(), room)
            heard = other.get_seq_length()
            self.heard = _slots(other, heard, heard)
            self.cache: Cache = EncoderDecoderCache(_cache(self.slots), _cache(self.heard))
        else:
            self.slots = _slots(filled, filled.get_seq_length(), room)
            self.cache = _cache(self.slots)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (batch, 1) tokens to (batch, 1, vocabulary) scores."""
        if self.encoded is None:
            output = self.model(input_ids=tokens, past_key_values=self.cache, use_cache=True)
        else:
            output = self.model(
                encoder_outputs=(self.encoded,),
                decoder_input_ids=tokens,
                past_key_values=self.cache,
                use_cache=True,
            )
        scores: Tensor = output.logits
        return scores


def _slots(filled: Cache, seen: int, room: int) -> nn.ModuleList:
    return nn.ModuleList(Slot(layer, seen, room) for layer in filled.layers)


def _cache(slots: nn.ModuleList) -> Cache:
    """Return a cache whose layers are the modules that torch sees."""
    return Cache(layers=[slot for slot in slots if isinstance(slot, Slot)])
