"""Read a prompt, or add a token to one. Imports torch and transformers; is itself imported when a model is built.

Adding a token changes the cache it reads from. A benchmark has to do the same work every time it is called, so the cache here has one place
for the new token, always the same, and everything else in it stays as the prompt left it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache

from torchstone.define.benchmarks import Work
from torchstone.suites.huggingface.llm import Shape
from torchstone.suites.huggingface.models import configure, find_class, random_tokens

SMALL_PROMPT = 48
SMALL_ROOM = 64
FRAMES_A_POSITION = 2
"""Whisper's encoder halves the length of what it hears."""


def build(shape: Shape, decode: bool, batch_size: int, dtype: str, device: str, size: str) -> Work:
    """A model with a prompt for it, or with a prompt already read and one more token.

    It is made where it will run and in the type it will run in: twenty billion weights have no second place in memory.
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
    """Inside, new weights are of this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def make_prompt(shape: Shape, configuration: Any, batch_size: int, length: int) -> dict[str, Tensor]:  # noqa: ANN401  (a class of transformers)
    """What the model reads: tokens, or sound and the tokens that its transcription starts with."""
    tokens = random_tokens(configuration.vocab_size, batch_size, length)
    if not shape.speech:
        return {"input_ids": tokens}
    frames = FRAMES_A_POSITION * configuration.max_source_positions
    return {
        "input_features": torch.randn(batch_size, configuration.num_mel_bins, frames),
        "decoder_input_ids": tokens,
    }


class Slot(nn.Module, CacheLayerMixin):  # type: ignore[no-untyped-call]  # the mixin's own hook has no types
    """One layer's keys and values: those of the prompt, one place for the new token, and room for later ones, which nothing looks at.

    A layer with a sliding window has no more room than the window. As a module, it goes where the model goes, and is copied with it.
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
        """Nothing to do: it was filled when it was made."""

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: Any,  # noqa: ANN401, ARG002  (what else models give, nobody here needs)
        **kwargs: Any,  # noqa: ANN401, ARG002  (transformers' own signature)
    ) -> tuple[Tensor, Tensor]:
        """Put the new token's keys and values in their place; all that can be seen from there."""
        self.keys.index_copy_(2, self.place, key_states.to(self.keys.dtype))
        self.values.index_copy_(2, self.place, value_states.to(self.values.dtype))
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002  (it is always one)
        """How many positions there are, and which is the first."""
        return self.room, self.offset

    def get_seq_length(self) -> int:
        """How many tokens came before the new one."""
        return self.seen

    def get_max_length(self) -> int:
        """How many positions there are."""
        return self.room


def _with_room(states: Tensor, room: int) -> Tensor:
    grown = states.new_zeros(*states.shape[:2], room, states.shape[3])
    grown[:, :, : states.shape[2]] = states
    return grown


class Decode(nn.Module):
    """A model that has read a prompt, and gives what follows one more token."""

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
        """(batch, 1) tokens -> (batch, 1, vocabulary) scores."""
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
    """The model finds the very same layers in its cache as torch finds among its modules."""
    return Cache(layers=[slot for slot in slots if isinstance(slot, Slot)])
