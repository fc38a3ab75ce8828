"""Build a model of the scaling suite with its training data.

Imports torch, and torchvision if needed.

The small models take some milliseconds per iteration on one core, and have enough parameters to make
communication matter.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchstone.define.benchmarks import Work
from torchstone.suites.smoke.networks import Attention, Convnet, Mlp

IMAGE_SIDES = {"full": 224, "small": 64}
WORDS, LENGTH = 1000, 32
WIDTHS = {
    "convnet": {"full": 96, "small": 48},
    "mlp": {"full": 320, "small": 160},
    "transformer": {"full": 192, "small": 96},
}
"""Width of the small models, by size."""


class SmallTransformer(nn.Module):
    """Three blocks of causal attention between an embedding and a score for each next word."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Attention(width, heads=4) for _ in range(3)))
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """Map (batch, length) to (batch, length, words)."""
        places = torch.arange(words.shape[1], device=words.device)
        result: Tensor = self.score(self.norm(self.blocks(self.words(words) + self.places(places))))
        return result


def build(name: str, batch_size: int, size: str) -> Work:
    """Return a model with random weights and inputs; ``small`` means smaller images or narrower layers."""
    if name not in SMALL_MODELS:
        side = IMAGE_SIDES[size]
        model = _from_torchvision(name)
        return Work(model, (torch.randn(batch_size, 3, side, side),), loss=cross_entropy)
    width = WIDTHS[name][size]
    make, inputs = SMALL_MODELS[name]
    return Work(make(width), (inputs(batch_size, width),), loss=cross_entropy)


SMALL_MODELS: dict[str, tuple[Callable[[int], nn.Module], Callable[[int, int], Tensor]]] = {
    "convnet": (Convnet, lambda batch_size, _: torch.randn(batch_size, 3, 16, 16)),
    "mlp": (Mlp, torch.randn),
    "transformer": (SmallTransformer, lambda batch_size, _: torch.randint(WORDS, (batch_size, LENGTH))),
}
"""Builders of each model and its inputs, from a width."""


def _from_torchvision(name: str) -> nn.Module:
    try:
        models: Any = import_module("torchvision.models")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name} is a model of torchvision, which is not installed: pip install torchvision",
            name=error.name,
        ) from None
    if not hasattr(models, name):
        version = import_module("torchvision").__version__
        raise NotImplementedError(f"torchvision {version} has no {name}")
    model: nn.Module = getattr(models, name)(weights=None)
    return model


def cross_entropy(scores: Tensor) -> Tensor:
    """Return the loss against a fixed class for every image, row or word."""
    scores = scores.flatten(0, -2)
    classes = torch.arange(scores.shape[0], device=scores.device) % scores.shape[1]
    return functional.cross_entropy(scores.to(torch.promote_types(scores.dtype, torch.float32)), classes)
